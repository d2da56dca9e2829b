"""Where each provider listens: a base URL and a model id give an `Endpoint`."""

from worker.models.base import Endpoint

ANTHROPIC_VERSION = "2023-06-01"
"""Accepted by the API and by the gateways in front of it. What we send is the same under
2026-10-21, which only takes away fields that are never sent (wire-models 1.1)."""


def anthropic(base_url: str, model: str) -> Endpoint:
    """The Messages API, direct. A base URL that ends in /v1 is taken as well."""
    root = base_url.rstrip("/").removesuffix("/v1")
    return Endpoint(
        url=f"{root}/v1/messages",
        headers={"anthropic-version": ANTHROPIC_VERSION},
        head={"model": model},
    )
