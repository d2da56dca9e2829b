"""A raw job log becomes the lines that explain its failure."""
