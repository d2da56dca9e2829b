"""What GitLab and the rules tell of a failure: jobs, facts, known failures, the verdict."""
