"""Containers with no network for commands nobody trusts. Knows nothing of models or GitLab."""
