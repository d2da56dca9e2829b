"""The kinds of providers: the wires, and the ways to authenticate that each is offered with."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial

import httpx

from worker.errors import ConfigError
from worker.models import discovery, endpoints
from worker.models.anthropic_messages import AnthropicMessages
from worker.models.base import Cause, Endpoint, Listing, Provider
from worker.models.error_bodies import classify_anthropic, classify_google, classify_openai
from worker.models.gemini import GenerateContent
from worker.models.openai_chat import OpenAIChat
from worker.models.openai_responses import OpenAIResponses

# --------------------------------------------------------------------- authentication of a request
#
# A key goes into a header; in a URL it would end up in logs.


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
    """A header with the key; without a key, none is sent."""
    return _KeyHeader(header, key) if key else httpx.Auth()


def _use_bearer(key: str) -> httpx.Auth:
    """The header that most servers expect; without a key, none is sent."""
    return _KeyHeader("authorization", f"Bearer {key}") if key else httpx.Auth()


def _send_no_key(key: str) -> httpx.Auth:
    """Nothing: whatever the server wants to know is in the headers that the operator has set."""
    return httpx.Auth()


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
    endpoints.anthropic_models,
    discovery.parse_anthropic_list,
    classify_anthropic,
    {"limit": "1000"},
)
_GEMINI_LIST = Listing(
    endpoints.gemini_models, discovery.parse_gemini_list, classify_google, {"pageSize": "1000"}
)
_OPENAI_LIST = Listing(endpoints.openai_models, discovery.parse_openai_list, classify_openai)

_MESSAGES = Provider(
    codec=AnthropicMessages,
    endpoint=endpoints.anthropic,
    auth=partial(_use_header, "x-api-key"),
    auth_headers=frozenset({"x-api-key"}),
    base_url="https://api.anthropic.com",
    keeps_cache_without_tools=False,
    listing=_ANTHROPIC_LIST,
)
_GENERATE = Provider(
    codec=GenerateContent,
    endpoint=endpoints.gemini,
    auth=partial(_use_header, "x-goog-api-key"),
    auth_headers=frozenset({"x-goog-api-key"}),
    base_url="https://generativelanguage.googleapis.com",
    listing=_GEMINI_LIST,
)
_CHAT = Provider(
    codec=OpenAIChat,
    endpoint=endpoints.openai_chat,
    auth=_use_bearer,
    auth_headers=_AUTHORIZATION,
    is_any_server=True,
    listing=_OPENAI_LIST,
)
_RESPONSES = Provider(
    codec=partial(OpenAIResponses, keyed=False),
    endpoint=endpoints.openai_responses,
    auth=_use_bearer,
    auth_headers=_AUTHORIZATION,
    listing=_OPENAI_LIST,
)
_OF_AZURE = Provider(
    codec=OpenAIChat,
    endpoint=endpoints.azure_chat,
    auth=partial(_use_header, "api-key"),
    auth_headers=frozenset({"api-key"}),
    takes_version=True,
    advice=_AZURE_ADVICE,
    traced_as="azure.ai.openai",
)


def _on_vertex(plain: Provider, endpoint: Callable[..., Endpoint], version: str) -> Provider:
    """Return the row of an API on Vertex AI."""
    return replace(
        plain,
        endpoint=endpoint,
        auth=_use_google,
        auth_headers=_AUTHORIZATION,
        base_url="",
        locate=endpoints.vertex(version),
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
            endpoint=endpoints.anthropic_bedrock,
            auth=_use_amazon,
            auth_headers=_AUTHORIZATION | {"x-amz-date", "x-amz-security-token"},
            base_url="",
            takes_region=True,
            locate=endpoints.locate_bedrock,
            advice=_BEDROCK_ADVICE,
            listing=None,
            traced_as="aws.bedrock",
        ),
        "vertex": _on_vertex(_MESSAGES, endpoints.anthropic_vertex, "v1"),
    },
    "gemini": {
        KEY: _GENERATE,
        "vertex": _on_vertex(_GENERATE, endpoints.gemini_vertex, "v1beta1"),
    },
    "openai-chat": {KEY: _CHAT, "azure": _OF_AZURE},
    "openai-responses": {
        KEY: _RESPONSES,
        "azure": replace(_OF_AZURE, codec=_RESPONSES.codec, endpoint=endpoints.azure_responses),
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
    "none": _send_no_key,
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
