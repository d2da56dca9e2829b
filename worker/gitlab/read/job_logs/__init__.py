"""Job logs: fetched, redacted and kept once, read by line."""
