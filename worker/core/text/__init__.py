"""Text from outside: redaction, previews, handling of untrusted text."""
