"""What `sandpiper sweep` repairs and removes."""
