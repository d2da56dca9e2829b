"""The table of providers. A new provider is a row here, and a codec if its API is new.

Servers of the operator's own are rows of the settings: `make_provider` puts them together.
"""

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Unpack

import httpx

from worker.clock import Clock
from worker.errors import ConfigError
from worker.models.base import Cause, ListPart, OperatorRow, Provider
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import Catalogue
from worker.models.client import HttpModel, HttpOptions
from worker.models.connection import Connection
from worker.models.discovery import LIST_TIMEOUT, fetch_models
from worker.models.kinds import APIS, KEY, KEYLESS, WITH_KEY, get_kind
from worker.models.openai_responses import OpenAIResponses

PROVIDERS: dict[str, Provider] = {
    "anthropic": replace(
        get_kind("anthropic", KEY),
        key_env="ANTHROPIC_API_KEY",
        url_env="ANTHROPIC_BASE_URL",
        has_plain_names=True,
    ),
    "anthropic-vertex": get_kind("anthropic", "vertex"),
    "anthropic-bedrock": replace(
        get_kind("anthropic", "bedrock"), key_env="AWS_BEARER_TOKEN_BEDROCK", key_optional=True
    ),
    "gemini": replace(
        get_kind("gemini", KEY),
        key_env="GEMINI_API_KEY",
        url_env="GEMINI_BASE_URL",
        has_plain_names=True,
        traced_as="gcp.gemini",
    ),
    "gemini-vertex": get_kind("gemini", "vertex"),
    "openai": replace(
        get_kind("openai-responses", KEY),
        codec=OpenAIResponses,
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        url_env="OPENAI_BASE_URL",
        has_plain_names=True,
    ),
    "openai-azure": replace(
        get_kind("openai-responses", "azure"),
        key_env="AZURE_OPENAI_API_KEY",
        url_env="AZURE_OPENAI_ENDPOINT",
    ),
    "openai-responses": replace(
        get_kind("openai-responses", KEY),
        key_env="OPENAI_API_KEY",
        url_env="OPENAI_BASE_URL",
        key_optional=True,
    ),
    "openai-compatible": replace(
        get_kind("openai-chat", KEY),
        key_env="OPENAI_API_KEY",
        url_env="OPENAI_BASE_URL",
        key_optional=True,
    ),
}


_NO_ROW = OperatorRow()
_OF_HTTP = frozenset(
    {
        "host",
        "content-type",
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "accept",
        "accept-encoding",
        "connection",
        "cookie",
        "user-agent",
    }
)
"""Headers that a request cannot do with another value of."""


def make_provider(name: str, row: OperatorRow = _NO_ROW) -> Provider:
    """Return the provider `name` as the table and the operator's row say.

    A row of a new name states its `api`; of a built-in one it overrides what it states. Raises
    ConfigError that names the row and the field.
    """
    built_in = PROVIDERS.get(name)
    where = f"models.providers.{name}"
    if built_in is None and not row.api:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(
            f"models.providers: unknown provider {name!r}; known: {known}; of a server of your "
            f"own, state its wire: {where}.api: {', '.join(APIS)}"
        )
    try:
        made = _choose_kind(built_in, row, where)
        _check_headers(made, row)
        return _apply_options(made, row)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from error


def _choose_kind(built_in: Provider | None, row: OperatorRow, where: str) -> Provider:
    if built_in is None:
        kind = get_kind(row.api, row.auth or KEY)
        # The advice names the row's fields, in place of variables that it does not have.
        unserved = (
            "{model} is not served at {host}",
            f"check the model's name and {where}.base_url",
        )
        advice = {Cause.NOT_FOUND: unserved, **kind.advice}
        if not row.key_env and Cause.BAD_KEY not in advice:
            advice[Cause.BAD_KEY] = (
                "a key is wanted, and none was sent",
                f"name the variable that holds it in {where}.key_env",
            )
        return replace(kind, key_env=row.key_env, key_optional=not row.key_env, advice=advice)
    api = row.api or built_in.api
    scheme = row.auth or (built_in.scheme if api == built_in.api else KEY)
    kind = built_in
    if (api, scheme) != (built_in.api, built_in.scheme):
        # Another way to authenticate is another server's, and has another key: Anthropic's own is
        # no Bedrock API key.
        kind, is_same = get_kind(api, scheme), scheme == built_in.scheme
        kind = replace(
            kind,
            base_url=built_in.base_url if is_same else kind.base_url,
            key_env=built_in.key_env if {scheme, built_in.scheme} <= WITH_KEY else "",
            key_optional=built_in.key_optional,
            url_env=built_in.url_env,
        )
    return replace(kind, key_env=row.key_env, key_optional=False) if row.key_env else kind


def _check_headers(provider: Provider, row: OperatorRow) -> None:
    """Raises ConfigError, without the value, for a header that is set elsewhere or cannot be."""
    for name, value in row.headers.items():
        if name.lower() in provider.auth_headers:
            raise ConfigError(
                f"headers.{name}: `auth` sets it: state auth: none if this one is meant instead"
            )
        if name.lower() in _OF_HTTP:
            raise ConfigError(f"headers.{name}: a request needs its own")
        if value.startswith("$"):
            # With its `$` it would be taken out as the header's secret.
            why = (
                f"the variable {value[1:]} is not set"
                if value[1:].isidentifier()
                else "what begins with `$` has to name a variable, as $TEAM_TOKEN does"
            )
            raise ConfigError(f"headers.{name}: {why}")


def _apply_options(provider: Provider, row: OperatorRow) -> Provider:
    made = replace(provider, headers={name.lower(): row.headers[name] for name in row.headers})
    # In a built-in provider's row, earlier versions let a place stand that has no effect.
    has_place = not row.api or (provider.locate is not None and not provider.takes_region)
    for field, value, is_taken in (
        ("region", row.region, provider.takes_region),
        ("api_version", row.api_version, provider.takes_version),
        ("project", row.project, has_place),
        ("location", row.location, has_place),
        ("key_env", row.key_env, provider.scheme not in KEYLESS),
    ):
        if value and not is_taken:
            raise ConfigError(f"{field}: not with api {provider.api} and auth {provider.scheme}")
    if provider.takes_region:
        made = replace(made, auth=partial(provider.auth, region=row.region))
    if provider.takes_version:
        made = replace(made, endpoint=partial(provider.endpoint, api_version=row.api_version))
    return made


def build_model(
    spec: str,
    base_url: str,
    key: str,
    *,
    clock: Clock,
    row: OperatorRow = _NO_ROW,
    catalogue: Catalogue = BUILT_IN,
    level: str = "",
    **options: Unpack[HttpOptions],
) -> HttpModel:
    """Build the model of `spec`, "provider/model". `base_url` may be "" for the provider's own.

    `row` is what the operator says of the provider; a location of "" is "global". `level` is the
    reasoning level that requests state; with "" they state the catalogue's `effort`, if any. Raises
    ConfigError for a spec, URL, key or level that cannot work.
    """
    who, _, model = spec.partition("/")
    if not (who and model and model.isprintable() and " " not in model):
        example = "anthropic/claude-sonnet-5-5"
        raise ConfigError(f"models.default: {spec!r}: expected provider/model, as {example}")
    provider = make_provider(who, row)
    base_url = _get_base_url(who, provider, base_url, row)
    catalogue.check_level(spec, level)
    only = catalogue.get_info(spec).chat_effort
    is_strict = not provider.endpoint(base_url, model).dialect.takes_levels_with_tools
    if is_strict and level and only and level != only:
        raise ConfigError(
            f"{spec}: with tools, OpenAI's Chat Completions takes no reasoning level but {only!r}; "
            f"found {level!r}: name the model openai/{model}"
        )
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
    row: OperatorRow = _NO_ROW,
    transport: httpx.BaseTransport | None = None,
) -> ListPart:
    """Ask the provider `who` which models it serves, until `deadline` on the monotonic clock.

    Raises ConfigError for an unknown provider, one without such a list, or a URL or key that cannot
    work; ModelError if the request fails.
    """
    provider = make_provider(who, row)
    if provider.listing is None:
        raise ConfigError(f"{who}: this provider has no list of its models")
    base_url = _get_base_url(who, provider, base_url, row)
    endpoint = provider.listing.endpoint(base_url)
    connection = Connection(
        f"{who}/the list of models",
        provider,
        base_url,
        key,
        endpoint.headers,
        clock=clock,
        transport=transport,
        timeout=LIST_TIMEOUT,
    )
    with closing(connection):
        return fetch_models(connection, provider.listing, httpx.URL(endpoint.url), deadline)


def _get_base_url(who: str, provider: Provider, base_url: str, row: OperatorRow) -> str:
    if provider.locate is None:
        return base_url or provider.base_url
    try:
        return provider.locate(base_url, row.project, row.region or row.location)
    except ConfigError as error:
        raise ConfigError(f"models.providers.{who}.{error}") from error
