"""The webhook receiver: turns a request into a queued Trigger or a stated reason."""
