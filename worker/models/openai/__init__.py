"""The Chat Completions and Responses APIs."""
