"""The kinds of providers: the wires, where each is spoken, and the ways to authenticate there."""

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import quote

import httpx

from worker.errors import ConfigError
from worker.models import discovery
from worker.models.anthropic_messages import AnthropicMessages
from worker.models.base import Cause, Dialect, Endpoint, Listing, Provider
from worker.models.error_bodies import classify_anthropic, classify_google, classify_openai
from worker.models.gemini import GenerateContent
from worker.models.openai_chat import OpenAIChat
from worker.models.openai_responses import OpenAIResponses

# --------------------------------------------------------------------- authentication of a request
#
# A key goes into a header; in a URL it would end up in logs. Without a key, none is sent.


class _KeyHeader(httpx.Auth):
    """A static key in one header."""

    def __init__(self, header: str, key: str) -> None:
        self._header = header
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        request.headers[self._header] = self._key
        yield request

    def __repr__(self) -> str:
        return f"KeyHeader({self._header!r})"


def _use_header(header: str, key: str) -> httpx.Auth:
    return _KeyHeader(header, key) if key else httpx.Auth()


def _use_bearer(key: str) -> httpx.Auth:
    return _KeyHeader("authorization", f"Bearer {key}") if key else httpx.Auth()


def _use_google(key: str) -> httpx.Auth:
    """Tokens from google-auth's default chain of credentials; `key` is not used."""
    # Imported only here: loading google-auth takes longer than everything else at start.
    from worker.models.google_auth import GoogleAuth

    return GoogleAuth()


def _use_amazon(key: str, region: str = "") -> httpx.Auth:
    """A signature by the credentials of botocore's default chain; with a key, a Bedrock API key as
    a bearer token."""
    if key:
        return _use_bearer(key)
    from worker.models.amazon_auth import AmazonAuth

    return AmazonAuth(region)


# ------------------------------------------------------------------------- where requests are sent

_ANTHROPIC_VERSION = "2023-06-01"
"""Accepted by the API and by gateways. Version 2026-10-21 would change nothing here: it only
removes fields that are never sent."""

_ANTHROPIC_VERTEX_VERSION = "2026-10-21"
"""The version that Anthropic's own client sends in the body on Vertex AI."""

_ANTHROPIC_BEDROCK_VERSION = "bedrock-2023-05-31"
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


def _ask_anthropic(base_url: str, model: str) -> Endpoint:
    """The Messages API, direct. The base URL may end in /v1."""
    root = base_url.rstrip("/").removesuffix("/v1")
    return Endpoint(
        url=f"{root}/v1/messages",
        headers={"anthropic-version": _ANTHROPIC_VERSION},
        head={"model": model},
    )


def _list_anthropic(base_url: str) -> Endpoint:
    root = base_url.rstrip("/").removesuffix("/v1")
    return Endpoint(url=f"{root}/v1/models", headers={"anthropic-version": _ANTHROPIC_VERSION})


def _list_openai(base_url: str) -> Endpoint:
    return Endpoint(url=f"{base_url.rstrip('/')}/models")


def _list_gemini(base_url: str) -> Endpoint:
    return Endpoint(url=f"{_add_version(base_url, 'v1beta')}/models")


def _ask_responses(base_url: str, model: str) -> Endpoint:
    """The Responses API under a base URL that ends in its version, such as /v1."""
    return Endpoint(url=f"{base_url.rstrip('/')}/responses", head={"model": model})


def _ask_chat(base_url: str, model: str) -> Endpoint:
    """Chat Completions of any server; OpenAI itself uses a newer field for the limit."""
    known = (each for start, each in _SERVERS.items() if base_url.startswith(start))
    return Endpoint(
        url=f"{base_url.rstrip('/')}/chat/completions",
        head={"model": model},
        dialect=next(known, Dialect()),
    )


def _ask_azure_chat(base_url: str, model: str, api_version: str = "") -> Endpoint:
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


def _ask_azure_responses(base_url: str, model: str, api_version: str = "") -> Endpoint:
    """The Responses API of Azure OpenAI; `model` is a deployment's name."""
    path = "responses" if _DATED_VERSION.fullmatch(api_version) else "v1/responses"
    url = f"{_get_azure_root(base_url)}/{path}{_make_version_query(api_version)}"
    return Endpoint(url=url, head={"model": model})


def _get_azure_root(base_url: str) -> str:
    """Return the base URL of a resource, which may end in /openai or /openai/v1, with /openai."""
    return base_url.rstrip("/").removesuffix("/v1").removesuffix("/openai") + "/openai"


def _make_version_query(api_version: str) -> str:
    return f"?api-version={api_version}" if api_version else ""


def _ask_gemini(base_url: str, model: str) -> Endpoint:
    """The Gemini API with an API key, in v1beta unless the base URL ends in another version."""
    name = quote(model, safe="")
    return Endpoint(url=f"{_add_version(base_url, 'v1beta')}/models/{name}:generateContent")


def _locate_vertex(version: str) -> Callable[[str, str, str], str]:
    """Return a `Provider.locate` that makes the base URL of Vertex AI in API version `version`."""

    def locate(base_url: str, project: str, location: str) -> str:
        location = location or "global"
        for name, value in (("project", project), ("location", location)):
            if not _PLACE.fullmatch(value):
                state = f"found {value!r}" if value else "it is not set"
                raise ConfigError(f"{name} ($GOOGLE_CLOUD_{name.upper()}): {state}")
        host = f"{location}-aiplatform.googleapis.com"
        if location == "global":
            host = "aiplatform.googleapis.com"
        elif location in _MULTI_REGIONS:
            host = f"aiplatform.{location}.rep.googleapis.com"
        root = _add_version(base_url or f"https://{host}", version)
        return f"{root}/projects/{project}/locations/{location}"

    return locate


def _ask_gemini_vertex(base_url: str, model: str) -> Endpoint:
    """Gemini under the base URL of a project and location."""
    name = quote(model, safe="@")
    return Endpoint(url=f"{base_url}/publishers/google/models/{name}:generateContent")


def _ask_anthropic_vertex(base_url: str, model: str) -> Endpoint:
    """Claude under the base URL of a project and location; only the URL names the model."""
    name = quote(model, safe="@")
    return Endpoint(
        url=f"{base_url}/publishers/anthropic/models/{name}:rawPredict",
        head={"anthropic_version": _ANTHROPIC_VERTEX_VERSION},
    )


def _locate_bedrock(base_url: str, project: str, region: str) -> str:
    """Return the base URL of Amazon Bedrock in a region; see `Provider.locate`."""
    if not _PLACE.fullmatch(region):
        state = f"found {region!r}" if region else "it is not set"
        raise ConfigError(f"region ($AWS_REGION): {state}")
    domain = _BEDROCK_HOSTS.get(region.partition("-")[0], "amazonaws.com")
    return base_url or f"https://bedrock-runtime.{region}.{domain}"


def _ask_bedrock(base_url: str, model: str) -> Endpoint:
    """Claude by InvokeModel; only the URL names the model, by its id or ARN."""
    if not _BEDROCK_ID.fullmatch(model):
        raise ConfigError(f"{model!r} is no id and no ARN of a model on Amazon Bedrock")
    return Endpoint(
        url=f"{base_url.rstrip('/')}/model/{quote(model, safe='')}/invoke",
        head={"anthropic_version": _ANTHROPIC_BEDROCK_VERSION},
    )


def _add_version(base_url: str, version: str) -> str:
    root = base_url.rstrip("/")
    return root if _VERSION.fullmatch(root.rpartition("/")[2]) else f"{root}/{version}"


# ------------------------------------------------------------------------------- wires and schemes

_AUTHORIZATION = frozenset({"authorization"})

_VERTEX_ADVICE = {
    Cause.BAD_KEY: (
        "Google's credentials were refused",
        "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
    ),
    Cause.FORBIDDEN: (
        "the account may not use {model} in this project",
        "give it the role Vertex AI User, and enable the API",
    ),
    Cause.NOT_FOUND: (
        "{model} is not served at {host}",
        "enable it in Model Garden, and check the project, the location and the model's name",
    ),
}

_BEDROCK_ADVICE = {
    Cause.BAD_KEY: (
        "AWS's credentials were refused",
        "check them (or the key in {key_env}), the region, and this machine's clock",
    ),
    Cause.FORBIDDEN: (
        "the account may not invoke {model}",
        "allow bedrock:InvokeModel on it, and the model itself in Bedrock's console",
    ),
    Cause.NOT_FOUND: (
        "{model} is not served at {host}",
        "check the region, and the id or ARN: newer models want an inference profile's, "
        "such as global.anthropic.…",
    ),
}
_AZURE_ADVICE = {
    Cause.NOT_FOUND: (
        "{model} is not deployed at {host}",
        "a model's name is that of its deployment; check it, base_url and api_version",
    ),
}

_ANTHROPIC_LIST = Listing(
    _list_anthropic,
    discovery.parse_anthropic_list,
    classify_anthropic,
    {"limit": "1000"},
)
_GEMINI_LIST = Listing(
    _list_gemini, discovery.parse_gemini_list, classify_google, {"pageSize": "1000"}
)
_OPENAI_LIST = Listing(_list_openai, discovery.parse_openai_list, classify_openai)

_MESSAGES = Provider(
    codec=AnthropicMessages,
    endpoint=_ask_anthropic,
    auth=partial(_use_header, "x-api-key"),
    auth_headers=frozenset({"x-api-key"}),
    base_url="https://api.anthropic.com",
    keeps_cache_without_tools=False,
    listing=_ANTHROPIC_LIST,
)
_GENERATE = Provider(
    codec=GenerateContent,
    endpoint=_ask_gemini,
    auth=partial(_use_header, "x-goog-api-key"),
    auth_headers=frozenset({"x-goog-api-key"}),
    base_url="https://generativelanguage.googleapis.com",
    listing=_GEMINI_LIST,
)
_CHAT = Provider(
    codec=OpenAIChat,
    endpoint=_ask_chat,
    auth=_use_bearer,
    auth_headers=_AUTHORIZATION,
    is_any_server=True,
    listing=_OPENAI_LIST,
)
_RESPONSES = Provider(
    codec=partial(OpenAIResponses, keyed=False),
    endpoint=_ask_responses,
    auth=_use_bearer,
    auth_headers=_AUTHORIZATION,
    listing=_OPENAI_LIST,
)
_OF_AZURE = Provider(
    codec=OpenAIChat,
    endpoint=_ask_azure_chat,
    auth=partial(_use_header, "api-key"),
    auth_headers=frozenset({"api-key"}),
    takes_version=True,
    advice=_AZURE_ADVICE,
    traced_as="azure.ai.openai",
)


def _on_vertex(plain: Provider, endpoint: Callable[..., Endpoint], version: str) -> Provider:
    return replace(
        plain,
        endpoint=endpoint,
        auth=_use_google,
        auth_headers=_AUTHORIZATION,
        base_url="",
        locate=_locate_vertex(version),
        advice=_VERTEX_ADVICE,
        listing=None,
        traced_as="gcp.vertex_ai",
    )


KEY = "key"
"""The way to authenticate that an API's own maker has: a key in the usual header."""

APIS: Mapping[str, Mapping[str, Provider]] = {
    "anthropic": {
        KEY: _MESSAGES,
        "azure": replace(_MESSAGES, base_url="", listing=None, advice=_AZURE_ADVICE),
        "bedrock": replace(
            _MESSAGES,
            endpoint=_ask_bedrock,
            auth=_use_amazon,
            auth_headers=_AUTHORIZATION | {"x-amz-date", "x-amz-security-token"},
            base_url="",
            takes_region=True,
            locate=_locate_bedrock,
            advice=_BEDROCK_ADVICE,
            listing=None,
            traced_as="aws.bedrock",
        ),
        "vertex": _on_vertex(_MESSAGES, _ask_anthropic_vertex, "v1"),
    },
    "gemini": {
        KEY: _GENERATE,
        "vertex": _on_vertex(_GENERATE, _ask_gemini_vertex, "v1beta1"),
    },
    "openai-chat": {KEY: _CHAT, "azure": _OF_AZURE},
    "openai-responses": {
        KEY: _RESPONSES,
        "azure": replace(_OF_AZURE, codec=_RESPONSES.codec, endpoint=_ask_azure_responses),
    },
}
"""Wire → way to authenticate → what a provider of that kind is. Every wire also has the ways of
`ANYWHERE`."""

WITH_KEY = frozenset({KEY, "bearer", "azure"})
"""Ways to authenticate that cannot do without a key."""

KEYLESS = frozenset({"vertex", "none"})
"""Ways that send no key, whatever is set."""

ANYWHERE: Mapping[str, Callable[..., httpx.Auth]] = {
    "bearer": _use_bearer,
    "none": lambda key: httpx.Auth(),  # the headers that the operator has set say what is wanted
}
"""Ways to authenticate at a server or gateway of any kind."""


def get_kind(api: str, scheme: str) -> Provider:
    """Return what a provider of a wire and a way to authenticate is. Raises ConfigError."""
    if api not in APIS:
        raise ConfigError(f"api: unknown wire {api!r}; known: {', '.join(APIS)}")
    if scheme in ANYWHERE:
        headers = frozenset() if scheme == "none" else _AUTHORIZATION
        kind = replace(APIS[api][KEY], auth=ANYWHERE[scheme], auth_headers=headers)
    elif scheme in APIS[api]:
        kind = APIS[api][scheme]
    else:
        known = ", ".join((*APIS[api], *ANYWHERE))
        raise ConfigError(f"auth: {scheme!r} is not offered with api {api!r}; known: {known}")
    return replace(kind, api=api, scheme=scheme)
