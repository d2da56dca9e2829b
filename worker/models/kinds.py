"""The kinds of providers: the wires, and the ways to authenticate that each is offered with."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import httpx

from worker.errors import ConfigError
from worker.models import endpoints, model_lists
from worker.models.anthropic import answers as anthropic_answers
from worker.models.anthropic.messages_api import AnthropicMessages
from worker.models.base import Cause, Endpoint, Listing, Provider
from worker.models.gemini.generate_content import GenerateContent
from worker.models.google import errors as google_errors
from worker.models.http import auth
from worker.models.openai import errors as openai_errors
from worker.models.openai.chat_completions import OpenAIChat
from worker.models.openai.responses import OpenAIResponses

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
    model_lists.parse_anthropic,
    anthropic_answers.classify,
    {"limit": "1000"},
)
_GEMINI_LIST = Listing(
    endpoints.gemini_models, model_lists.parse_gemini, google_errors.classify, {"pageSize": "1000"}
)
_OPENAI_LIST = Listing(endpoints.openai_models, model_lists.parse_openai, openai_errors.classify)

_MESSAGES = Provider(
    codec=AnthropicMessages,
    endpoint=endpoints.anthropic,
    auth=partial(auth.add_header, "x-api-key"),
    auth_headers=frozenset({"x-api-key"}),
    base_url="https://api.anthropic.com",
    keeps_cache_without_tools=False,
    listing=_ANTHROPIC_LIST,
)
_GENERATE = Provider(
    codec=GenerateContent,
    endpoint=endpoints.gemini,
    auth=partial(auth.add_header, "x-goog-api-key"),
    auth_headers=frozenset({"x-goog-api-key"}),
    base_url="https://generativelanguage.googleapis.com",
    listing=_GEMINI_LIST,
)
_CHAT = Provider(
    codec=OpenAIChat,
    endpoint=endpoints.openai_chat,
    auth=auth.bearer,
    auth_headers=_AUTHORIZATION,
    is_any_server=True,
    listing=_OPENAI_LIST,
)
_RESPONSES = Provider(
    codec=partial(OpenAIResponses, keyed=False),
    endpoint=endpoints.openai_responses,
    auth=auth.bearer,
    auth_headers=_AUTHORIZATION,
    listing=_OPENAI_LIST,
)
_OF_AZURE = Provider(
    codec=OpenAIChat,
    endpoint=endpoints.azure_chat,
    auth=partial(auth.add_header, "api-key"),
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
        auth=auth.google,
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
            auth=auth.amazon,
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
    "bearer": auth.bearer,
    "none": auth.send_no_key,
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
