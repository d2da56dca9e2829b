"""What the two ways to a model at Google share: errors, and Vertex AI."""
