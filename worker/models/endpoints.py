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

ANTHROPIC_BEDROCK_VERSION = "bedrock-2023-05-31"
"""The version that Amazon documents for the body."""

_SERVERS = {
    "https://api.openai.com/": Dialect(
        limit="max_completion_tokens", takes_levels_with_tools=False
    ),
}
"""How known servers differ, by what their base URLs begin with."""

_BEDROCK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,2047}")
_BEDROCK_HOSTS = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}
"""Domains of the regions that begin so; those of all others are amazonaws.com."""
_DATED_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(?:-preview)?")
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
    known = (each for start, each in _SERVERS.items() if base_url.startswith(start))
    return Endpoint(
        url=f"{base_url.rstrip('/')}/chat/completions",
        head={"model": model},
        dialect=next(known, Dialect()),
    )


def azure_chat(base_url: str, model: str, api_version: str = "") -> Endpoint:
    """Chat Completions of Azure OpenAI; `model` is a deployment's name. A dated version asks by the
    deployment's own path, any other the v1 surface."""
    root = _get_azure_root(base_url)
    if _DATED_VERSION.fullmatch(api_version):
        path = f"deployments/{quote(model, safe='')}/chat/completions"
    else:
        path = "v1/chat/completions"
    return Endpoint(
        url=f"{root}/{path}{_make_version_query(api_version)}",
        head={"model": model},
        dialect=Dialect(limit="max_completion_tokens"),
    )


def azure_responses(base_url: str, model: str, api_version: str = "") -> Endpoint:
    """The Responses API of Azure OpenAI; `model` is a deployment's name."""
    path = "responses" if _DATED_VERSION.fullmatch(api_version) else "v1/responses"
    url = f"{_get_azure_root(base_url)}/{path}{_make_version_query(api_version)}"
    return Endpoint(url=url, head={"model": model})


def _get_azure_root(base_url: str) -> str:
    """Return the base URL of a resource, which may end in /openai or /openai/v1, with /openai."""
    return base_url.rstrip("/").removesuffix("/v1").removesuffix("/openai") + "/openai"


def _make_version_query(api_version: str) -> str:
    return f"?api-version={api_version}" if api_version else ""


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


def locate_bedrock(base_url: str, project: str, region: str) -> str:
    """Return the base URL of Amazon Bedrock in a region; see `Provider.locate`."""
    if not _PLACE.fullmatch(region):
        state = f"found {region!r}" if region else "it is not set"
        raise ConfigError(f"region ($AWS_REGION): {state}")
    domain = _BEDROCK_HOSTS.get(region.partition("-")[0], "amazonaws.com")
    return base_url or f"https://bedrock-runtime.{region}.{domain}"


def anthropic_bedrock(base_url: str, model: str) -> Endpoint:
    """Claude by InvokeModel; only the URL names the model, by its id or ARN."""
    if not _BEDROCK_ID.fullmatch(model):
        raise ConfigError(f"{model!r} is no id and no ARN of a model on Amazon Bedrock")
    return Endpoint(
        url=f"{base_url.rstrip('/')}/model/{quote(model, safe='')}/invoke",
        head={"anthropic_version": ANTHROPIC_BEDROCK_VERSION},
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
