"""What the host itself reads from GitLab, not on the model's request."""
