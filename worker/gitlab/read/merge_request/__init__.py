"""The merge request: details, diff, commits, discussions."""
