"""What of a conversation is left out of its requests, so that it stays inside the window."""
