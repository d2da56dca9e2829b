"""What GitLab shows about failing jobs before a model is asked."""
