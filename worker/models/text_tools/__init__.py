"""Calls that a model writes as text: asked for and read, whatever the wire."""
