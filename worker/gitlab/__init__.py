"""GitLab: one client, the reading side and the writing side."""
