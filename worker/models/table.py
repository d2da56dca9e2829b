"""The table of providers. A new provider is a row here, and a codec if its API is new."""

from contextlib import closing
from functools import partial
from typing import Unpack

import httpx

from worker.core.ports import Clock
from worker.errors import ConfigError
from worker.models import endpoints, model_lists
from worker.models.anthropic import answers as anthropic_answers
from worker.models.anthropic.messages_api import AnthropicMessages
from worker.models.base import Cause, Listing, Page, Provider
from worker.models.catalogue.built_in import BUILT_IN
from worker.models.catalogue.model_info import Catalogue
from worker.models.gemini.generate_content import GenerateContent
from worker.models.google import errors as google_errors
from worker.models.http import auth
from worker.models.http.client import HttpModel, HttpOptions
from worker.models.http.connection import Connection
from worker.models.http.listing import READ_TIMEOUT, fetch_models
from worker.models.openai import errors as openai_errors
from worker.models.openai.chat_completions import OpenAIChat
from worker.models.openai.responses import OpenAIResponses

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

PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        codec=AnthropicMessages,
        endpoint=endpoints.anthropic,
        auth=partial(auth.KeyHeader, "x-api-key"),
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        url_env="ANTHROPIC_BASE_URL",
        keeps_cache_without_tools=False,
        listing=_ANTHROPIC_LIST,
    ),
    "anthropic-vertex": Provider(
        codec=AnthropicMessages,
        endpoint=endpoints.anthropic_vertex,
        auth=auth.google,
        keeps_cache_without_tools=False,
        locate=endpoints.vertex("v1"),
        advice=_VERTEX_ADVICE,
    ),
    "gemini": Provider(
        codec=GenerateContent,
        endpoint=endpoints.gemini,
        auth=partial(auth.KeyHeader, "x-goog-api-key"),
        base_url="https://generativelanguage.googleapis.com",
        key_env="GEMINI_API_KEY",
        url_env="GEMINI_BASE_URL",
        listing=_GEMINI_LIST,
    ),
    "gemini-vertex": Provider(
        codec=GenerateContent,
        endpoint=endpoints.gemini_vertex,
        auth=auth.google,
        locate=endpoints.vertex("v1beta1"),
        advice=_VERTEX_ADVICE,
    ),
    "openai": Provider(
        codec=OpenAIResponses,
        endpoint=endpoints.openai_responses,
        auth=auth.bearer,
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        url_env="OPENAI_BASE_URL",
        listing=_OPENAI_LIST,
    ),
    "openai-responses": Provider(
        codec=partial(OpenAIResponses, keyed=False),
        endpoint=endpoints.openai_responses,
        auth=auth.bearer,
        key_env="OPENAI_API_KEY",
        url_env="OPENAI_BASE_URL",
        key_optional=True,
        listing=_OPENAI_LIST,
    ),
    "openai-compatible": Provider(
        codec=OpenAIChat,
        endpoint=endpoints.openai_chat,
        auth=auth.bearer,
        key_env="OPENAI_API_KEY",
        url_env="OPENAI_BASE_URL",
        key_optional=True,
        listing=_OPENAI_LIST,
    ),
}


def build_model(
    spec: str,
    base_url: str,
    key: str,
    *,
    clock: Clock,
    project: str = "",
    location: str = "",
    catalogue: Catalogue = BUILT_IN,
    level: str = "",
    **options: Unpack[HttpOptions],
) -> HttpModel:
    """Build the model of `spec`, "provider/model". `base_url` may be "" for the provider's own.

    `project` and `location` are Google Cloud's, for Vertex AI only; a location of "" is "global".
    `level` is the reasoning level that requests state; with "" they state the catalogue's `effort`,
    if any. Raises ConfigError for a spec, URL, key or level that cannot work.
    """
    who, _, model = spec.partition("/")
    if not (who and model and model.isprintable() and " " not in model):
        example = "anthropic/claude-sonnet-5-5"
        raise ConfigError(f"models.default: {spec!r}: expected provider/model, as {example}")
    provider = get_provider(who, f"models.default: {spec!r}: ")
    base_url = _get_base_url(who, base_url, project, location)
    _check_level(spec, base_url, catalogue, level)
    return HttpModel(
        spec, provider, base_url, key, clock=clock, catalogue=catalogue, level=level, **options
    )


def list_models(
    who: str,
    base_url: str,
    key: str,
    *,
    clock: Clock,
    deadline: float,
    transport: httpx.BaseTransport | None = None,
) -> Page:
    """Ask the provider `who` which models it serves, until `deadline` on the monotonic clock.

    Raises ConfigError for an unknown provider, one without such a list, or a URL or key that cannot
    work; ModelError if the request fails.
    """
    provider = get_provider(who)
    if provider.listing is None:
        raise ConfigError(f"{who}: this provider has no list of its models; see Model Garden")
    base_url = _get_base_url(who, base_url, "", "")
    endpoint = provider.listing.endpoint(base_url)
    connection = Connection(
        f"{who}/the list of models",
        provider,
        base_url,
        key,
        endpoint.headers,
        clock=clock,
        transport=transport,
        timeout=READ_TIMEOUT,
    )
    with closing(connection):
        return fetch_models(connection, provider.listing, httpx.URL(endpoint.url), deadline)


def get_provider(who: str, where: str = "") -> Provider:
    """Return the row of a provider. Raises ConfigError."""
    if who not in PROVIDERS:
        names = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"{where}unknown provider {who!r}; known: {names}")
    return PROVIDERS[who]


def _check_level(spec: str, base_url: str, catalogue: Catalogue, level: str) -> None:
    """Raises ConfigError for a level that the model or its API refuses."""
    catalogue.check_level(spec, level)
    who, _, model = spec.partition("/")
    if who != "openai-compatible" or not endpoints.is_openai(base_url):
        return
    only = catalogue.get_info(spec).chat_effort
    if level and only and level != only:
        raise ConfigError(
            f"{spec}: with tools, OpenAI's Chat Completions takes no reasoning level but {only!r}; "
            f"found {level!r}: name the model openai/{model}"
        )


def _get_base_url(who: str, base_url: str, project: str, location: str) -> str:
    """Return the provider's base URL. Raises ConfigError."""
    provider = PROVIDERS[who]
    if provider.locate is None:
        return base_url or provider.base_url
    try:
        return provider.locate(base_url or provider.base_url, project, location)
    except ConfigError as error:
        raise ConfigError(f"models.providers.{who}.{error}") from error
