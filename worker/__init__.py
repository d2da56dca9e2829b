"""Sandpiper: explains failed GitLab merge-request pipelines."""

__version__ = "0.1.0"
"""The version of the package, the images and the chart: `python -m tests.deploy.version`."""

DISTRIBUTION = "sandpiper-ci"
"""What the package is called on an index; `sandpiper` is another project's there."""
