"""The pure core: no I/O, no clock, no randomness. Imports the standard library, `errors`,
one search engine (`ahocorasick_rs`) and one Markdown parser (`markdown_it`)."""
