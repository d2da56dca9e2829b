"""What GitLab is asked with the read token: the sources, the survey, the host's own questions."""
