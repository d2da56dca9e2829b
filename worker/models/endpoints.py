"""Makes each provider's `Endpoint` from a base URL and a model id."""

import re
from collections.abc import Callable
from urllib.parse import quote

from worker.errors import ConfigError
from worker.models.base import Dialect, Endpoint

ANTHROPIC_VERSION = "2023-06-01"
"""Accepted by the API and by gateways. Version 2026-10-21 would change nothing here: it only
removes fields that are never sent."""

ANTHROPIC_VERTEX_VERSION = "2026-10-21"
"""The version that Anthropic's own client sends in the body on Vertex AI."""

_VERSION = re.compile(r"v\d+(?:(?:alpha|beta)\d*)?")
_PLACE = re.compile(r"[a-z0-9](?:[a-z0-9.:-]{0,98}[a-z0-9])?")
_MULTI_REGIONS = frozenset({"us", "eu"})


def anthropic(base_url: str, model: str) -> Endpoint:
    """The Messages API, direct. The base URL may end in /v1."""
    root = base_url.rstrip("/").removesuffix("/v1")
    return Endpoint(
        url=f"{root}/v1/messages",
        headers={"anthropic-version": ANTHROPIC_VERSION},
        head={"model": model},
    )


def anthropic_models(base_url: str) -> Endpoint:
    """The list of models of Anthropic's API."""
    root = base_url.rstrip("/").removesuffix("/v1")
    return Endpoint(url=f"{root}/v1/models", headers={"anthropic-version": ANTHROPIC_VERSION})


def openai_models(base_url: str) -> Endpoint:
    """The list of models of OpenAI and of compatible servers."""
    return Endpoint(url=f"{base_url.rstrip('/')}/models")


def gemini_models(base_url: str) -> Endpoint:
    """The list of models of the Gemini API."""
    return Endpoint(url=f"{_add_version(base_url, 'v1beta')}/models")


def openai_responses(base_url: str, model: str) -> Endpoint:
    """The Responses API under a base URL that ends in its version, such as /v1."""
    return Endpoint(url=f"{base_url.rstrip('/')}/responses", head={"model": model})


def openai_chat(base_url: str, model: str) -> Endpoint:
    """Chat Completions of any server; OpenAI itself uses a newer field for the limit."""
    return Endpoint(
        url=f"{base_url.rstrip('/')}/chat/completions",
        head={"model": model},
        dialect=Dialect(limit="max_completion_tokens") if is_openai(base_url) else Dialect(),
    )


def is_openai(base_url: str) -> bool:
    """Whether a base URL belongs to OpenAI itself, not to a compatible server."""
    return base_url.startswith("https://api.openai.com/")


def gemini(base_url: str, model: str) -> Endpoint:
    """The Gemini API with an API key, in v1beta unless the base URL ends in another version."""
    name = quote(model, safe="")
    return Endpoint(url=f"{_add_version(base_url, 'v1beta')}/models/{name}:generateContent")


def vertex(version: str) -> Callable[[str, str, str], str]:
    """Return a `Provider.locate` that makes the base URL of Vertex AI in API version `version`."""

    def locate(base_url: str, project: str, location: str) -> str:
        location = location or "global"
        for name, value in (("project", project), ("location", location)):
            if not _PLACE.fullmatch(value):
                state = f"found {value!r}" if value else "it is not set"
                raise ConfigError(f"{name} ($GOOGLE_CLOUD_{name.upper()}): {state}")
        root = _add_version(base_url or _get_vertex_host(location), version)
        return f"{root}/projects/{project}/locations/{location}"

    return locate


def gemini_vertex(base_url: str, model: str) -> Endpoint:
    """Gemini under the base URL of a project and location."""
    name = quote(model, safe="@")
    return Endpoint(url=f"{base_url}/publishers/google/models/{name}:generateContent")


def anthropic_vertex(base_url: str, model: str) -> Endpoint:
    """Claude under the base URL of a project and location; only the URL names the model."""
    name = quote(model, safe="@")
    return Endpoint(
        url=f"{base_url}/publishers/anthropic/models/{name}:rawPredict",
        head={"anthropic_version": ANTHROPIC_VERTEX_VERSION},
    )


def _add_version(base_url: str, version: str) -> str:
    root = base_url.rstrip("/")
    return root if _VERSION.fullmatch(root.rpartition("/")[2]) else f"{root}/{version}"


def _get_vertex_host(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"
