"""The text of a note."""
