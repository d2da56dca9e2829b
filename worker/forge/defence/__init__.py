"""What keeps a note harmless, whatever it is made from."""
