"""Gemini's API `generateContent`."""
