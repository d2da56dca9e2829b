"""What goes in and out is safe: redaction, strangers' words, neutralising, the linter."""
