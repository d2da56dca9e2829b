"""Text from outside: redaction, previews, marks of what is not to be trusted."""
