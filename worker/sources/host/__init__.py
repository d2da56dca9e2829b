"""What the host itself asks GitLab, not the model."""
