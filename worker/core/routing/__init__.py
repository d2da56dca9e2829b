"""Which model a turn is taken with."""
