"""Runs untrusted commands in containers without a network. Knows nothing of models or GitLab."""
