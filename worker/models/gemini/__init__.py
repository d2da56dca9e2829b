"""The API `generateContent`."""
