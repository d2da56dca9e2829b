"""Metrics and traces of the work. Start with `parts`."""
