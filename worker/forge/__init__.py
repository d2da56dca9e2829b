"""GitLab, written to: the text of a note, the defence of it, and its posting."""
