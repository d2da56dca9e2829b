"""Sandpiper: explains failed GitLab merge-request pipelines."""

__version__ = "0.1.0"
