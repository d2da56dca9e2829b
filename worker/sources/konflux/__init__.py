"""Pipelines of Konflux (Tekton)."""
