"""The pure heart: no I/O, no clock, no randomness. Imports the standard library, `errors`
and one search engine (`ahocorasick_rs`)."""
