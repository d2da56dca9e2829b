"""Archives: artifacts, and what of them is handed on."""
