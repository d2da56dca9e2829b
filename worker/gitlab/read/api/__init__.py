"""GitLab's REST API with the read token, and what a session may read of it."""
