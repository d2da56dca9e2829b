"""The parts of a provider: a wire codec, an endpoint, and a way to authenticate.

A codec is pure: the same request gives the same bytes. It knows one body format, but no addresses,
keys or times. Vertex AI is another endpoint and another `httpx.Auth`, not another codec.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Protocol

import httpx

from worker.conversation.messages import ToolCall, Usage
from worker.conversation.model import Request, StopReason
from worker.models.catalogue.model_info import ModelInfo

MAX_TOKENS = 21_000
"""The longest answer that is requested, in tokens. Without streaming, an idle connection is cut
before a longer answer arrives."""

_THINKING = 4000
"""Tokens added to the limit of a short answer if the model may think before it answers."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server's Chat Completions differ from another's.

    `limit` names the field that limits the answer's length. `reasoning` names the field in which
    the reasoning of an earlier answer is sent back; "" if the server refuses that. `call_id` is the
    pattern of the call ids that the server accepts even if it did not make them.
    `takes_levels_with_tools` is False if requests with tools may state no reasoning level but the
    catalogue's `chat_effort`.
    """

    limit: str = "max_tokens"
    reasoning: str = ""
    call_id: str = "[a-zA-Z0-9_-]{1,40}"
    takes_levels_with_tools: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `head` holds the fields of the body that depend on the endpoint."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    head: Mapping[str, Any] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=Dialect)


@dataclass(frozen=True, slots=True)
class Target:
    """What a codec needs to know about its model.

    `origin` is the model's full name: verbatim wire parts are sent back to that model only.
    `refused_fields` are those of the body that the server has refused: they are left out.
    """

    origin: str
    max_tokens: int
    head: Mapping[str, Any] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=Dialect)
    info: ModelInfo = field(default_factory=ModelInfo)
    refused_fields: frozenset[str] = frozenset()

    def choose_limit(self) -> str:
        """Return the field that limits the answer's length, "" if the server takes none."""
        names = (self.dialect.limit, "max_tokens", "max_completion_tokens")
        return next((name for name in names if name not in self.refused_fields), "")

    def choose_max_tokens(self, request: Request) -> int:
        """Return the limit of the answer to this request in tokens, with room for thinking."""
        if not request.max_output:
            return self.max_tokens
        thinking = _THINKING if self.info.may_think() else 0
        return min(self.max_tokens, request.max_output + thinking)

    def adapt(self, change: "WantedChange") -> "Target":
        """Return the target for a server that wants this; itself if that changes nothing."""
        most = change.most_tokens or self.max_tokens
        return replace(
            self,
            max_tokens=min(self.max_tokens, most),
            dialect=replace(self.dialect, **change.dialect),
            refused_fields=self.refused_fields | {change.refused_field} - {""},
        )


@dataclass(frozen=True, slots=True)
class WantedChange:
    """What a server that has refused a request wants to be changed.

    `advice` names the setting by which it is asked so from the start. `refused_field` is one of the
    body that it does not take, `most_tokens` the longest answer that may be asked for, `dialect`
    are fields of `Dialect`; "", 0 and {} change nothing.
    """

    advice: str
    refused_field: str = ""
    most_tokens: int = 0
    dialect: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fragment:
    """One message's part of the body: JSON values joined by commas, without brackets.

    `mark_at` is the offset where a cache mark is inserted, inside the last value that can have one;
    None if no value can.
    """

    json: bytes
    mark_at: int | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """An answer in canonical form. `wire` is the JSON text of its content, to be sent back.

    `dropped_calls` counts the calls that were left out; `thought` says that `wire` holds signed
    thinking. `max_retries` is how often the same request may be sent again after a broken answer.
    `needs_bare_request` says that the model refused a verbatim part, but may answer a bare request.
    `continuation_fields` are the top-level fields that are added to the same request to get the
    rest of an interrupted answer; `wire` is then a JSON array.
    """

    text: str
    calls: tuple[ToolCall, ...]
    wire: str
    stop: StopReason
    usage: Usage
    detail: str = ""
    dropped_calls: int = 0
    thought: bool = False
    max_retries: int = 0
    needs_bare_request: bool = False
    continuation_fields: Mapping[str, Any] = field(default_factory=dict)


class Cause(Enum):
    """Why a provider refused a request, as far as it matters for what to do next."""

    BAD_KEY = auto()
    BILLING = auto()
    FORBIDDEN = auto()
    NOT_FOUND = auto()
    TOO_LARGE = auto()
    OVERFLOW = auto()
    SPEND_LIMIT = auto()
    QUOTA = auto()
    """A quota that is renewed too late to wait for, such as a daily one."""
    RATE_LIMIT = auto()
    OVERLOADED = auto()
    INVALID = auto()
    BOUND = auto()
    """A verbatim part belongs to another prefix, model or account: send the request bare."""
    RATE_TOO_LOW = auto()
    """The request has more tokens than the account may use in a minute, however long one waits."""
    NO_TOOLS = auto()
    """The model is served without native tools: calls may be asked for as text."""
    UNWANTED = auto()
    """The server wants a field of the body to be another, or not to be there."""


CAUSES: Mapping[int, Cause] = {
    401: Cause.BAD_KEY,
    402: Cause.BILLING,
    403: Cause.FORBIDDEN,
    404: Cause.NOT_FOUND,
    413: Cause.TOO_LARGE,
    429: Cause.RATE_LIMIT,
}
"""What a status means with every provider."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer with a status other than 200. `reason` is the provider's text, hostile and uncut.

    `retry_after` is the wait in seconds that the body states, if any; the client reads the headers.
    `token_rate` is how many input tokens the account may use in a minute, 0 if that is not what it
    was refused for. `change` is what the server wants to be changed, if it says so.
    """

    cause: Cause
    reason: str
    transient: bool = False
    retry_after: float | None = None
    token_rate: int = 0
    change: WantedChange | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as its provider lists it. Sizes that are not stated are 0, unstated levels ().

    `window` and `max_output` are in tokens; `levels` are names from `catalogue.model_info.EFFORTS`.
    """

    id: str
    window: int = 0
    max_output: int = 0
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a provider's list. `rest` is the query that fetches the next part; {} at the end.

    `unusable_ids` counts the models whose ids cannot be used in a configuration file.
    """

    models: tuple[ServedModel, ...]
    rest: Mapping[str, str] = field(default_factory=dict)
    unusable_ids: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """How a provider lists its models.

    `endpoint` makes the list's endpoint from a base URL; `query` fetches its first part. `parse`
    raises ValueError for a body that is not such a list.
    """

    endpoint: Callable[[str], Endpoint]
    parse: Callable[[bytes], Page]
    classify: Callable[[int, bytes], Failure]
    query: Mapping[str, str] = field(default_factory=dict)


class Codec(Protocol):
    """One body format, bound to one model. Every method is pure."""

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """Return the body of `request`; `bare` rebuilds every message from its canonical form."""
        ...

    def decode(self, body: bytes) -> Decoded:
        """Decode the body of a 200 answer. Raises ValueError if it is not an answer."""
        ...

    def classify(self, status: int, body: bytes) -> Failure:
        """Return what an answer with a status other than 200 means; its body may be anything."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One row of the table. `api` is the name of its wire, `scheme` of how it authenticates.

    `auth_headers` are the headers that only `auth` may set, `headers` further ones that every
    request has. `key_env` and `url_env` are the names used in messages and settings.
    `key_optional` says that the server may need no key. If `base_url` is "" and there is no
    `locate`, a base URL must be configured. `locate` makes the base URL from the configured one (""
    if none), a project and a location or region. `listing` is None if the provider has no list of
    its models; with `has_plain_names` its models have the same names with all providers, so their
    entries in the catalogue need not name it. `is_any_server`: its servers are of many makers, and
    not all can call tools. `keeps_cache_without_tools`: see `Model`. `advice` says what
    a refusal means with this provider and what to do, where that differs from the usual.
    `takes_region` and `takes_version`: an operator may set them. `traced_as` is OpenTelemetry's
    name for it, "" if that is its own.
    """

    codec: Callable[[Target], Codec]
    endpoint: Callable[..., Endpoint]
    auth: Callable[..., httpx.Auth]
    api: str = ""
    scheme: str = ""
    auth_headers: frozenset[str] = frozenset()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_url: str = ""
    key_env: str = ""
    url_env: str = ""
    key_optional: bool = False
    keeps_cache_without_tools: bool = True
    has_plain_names: bool = False
    is_any_server: bool = False
    takes_region: bool = False
    takes_version: bool = False
    locate: Callable[[str, str, str], str] | None = None
    advice: Mapping[Cause, tuple[str, str]] = field(default_factory=dict)
    listing: Listing | None = None
    traced_as: str = ""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """What an operator says of a provider; "" stands for what the table says.

    `api` and `auth` are keys of `table.APIS`; `key_env` is the variable that holds the key.
    """

    api: str = ""
    auth: str = ""
    key_env: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    project: str = ""
    location: str = ""
    region: str = ""
    api_version: str = ""
