"""Pipelines: their jobs, other runs, test reports."""
