"""The repository: files, tree, search, comparisons, CI configuration."""
