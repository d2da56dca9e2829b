"""Simulators of GitLab and of the Messages API, and the bundled case."""
