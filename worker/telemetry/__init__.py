"""Metrics and traces: what the work tells of itself. See `parts`."""
