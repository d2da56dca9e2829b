"""Leaves parts of a conversation out of its requests, so that these fit into the window."""
