"""The code inside the image; this runs in containers only."""
