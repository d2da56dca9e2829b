"""Decides what a reply needs, and which model answers a turn."""
