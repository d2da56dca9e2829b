"""Stores sessions durably: one set of rules (`store.py`) over a folder or an S3 bucket."""
