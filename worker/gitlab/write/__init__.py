"""Notes, threads and signs in GitLab, with the write token."""
