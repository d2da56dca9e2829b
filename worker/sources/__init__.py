"""Read-only data sources on the host: GitLab through the read token, bound to one session."""
