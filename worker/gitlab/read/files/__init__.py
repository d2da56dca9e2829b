"""Reads the archives of job artifacts, and packs files for the sandbox."""
