"""What the Gemini API and Vertex AI share: errors and access tokens."""
