"""Every boundary of the worker, except those to GitLab (`core.ports.gitlab`)."""
