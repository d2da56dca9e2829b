"""The pure heart: no I/O, no clock, no randomness. Imports the standard library and `errors`."""
