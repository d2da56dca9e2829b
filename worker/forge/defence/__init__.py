"""The defence of a note: its text is made harmless, checked, and only then posted."""
