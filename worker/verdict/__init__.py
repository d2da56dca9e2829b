"""What GitLab proves about a failure, and the verdict that follows."""
