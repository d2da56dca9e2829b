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
from worker.models.catalogue import ModelInfo

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
class Decoded:
    """An answer in canonical form."""

    text: str
    calls: tuple[ToolCall, ...]
    wire: str
    """The JSON text of its content, to be sent back."""
    stop: StopReason
    usage: Usage
    detail: str = ""
    dropped_calls: int = 0
    """How many calls were left out."""
    thought: bool = False
    """`wire` holds signed thinking."""
    max_retries: int = 0
    """How often the same request may be sent again after a broken answer."""
    needs_bare_request: bool = False
    """The model refused a verbatim part, but may answer a bare request."""
    continuation_fields: Mapping[str, Any] = field(default_factory=dict)
    """The top-level fields that are added to the same request to get the rest of an interrupted
    answer; `wire` is then a JSON array."""


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
    """One row of the table: a wire, where it is spoken, and how requests authenticate."""

    codec: Callable[[Target], Codec]
    endpoint: Callable[..., Endpoint]
    auth: Callable[..., httpx.Auth]
    api: str = ""
    """The name of its wire."""
    scheme: str = ""
    """The name of how it authenticates."""
    auth_headers: frozenset[str] = frozenset()
    """The headers that only `auth` may set."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further ones that every request has."""
    base_url: str = ""
    """If this is "" and there is no `locate`, a base URL must be configured."""
    key_env: str = ""
    """The variable of the key, as messages and settings name it."""
    url_env: str = ""
    key_optional: bool = False
    """The server may need no key."""
    keeps_cache_without_tools: bool = True
    """See `Model`."""
    has_plain_names: bool = False
    """Its models have the same names with all providers, so their entries in the catalogue need not
    name it."""
    is_any_server: bool = False
    """Its servers are of many makers, and not all can call tools."""
    takes_region: bool = False
    """An operator may set a region."""
    takes_version: bool = False
    """An operator may set the version of the API."""
    locate: Callable[[str, str, str], str] | None = None
    """Makes the base URL from the configured one ("" if none), a project and a location or
    region."""
    advice: Mapping[Cause, tuple[str, str]] = field(default_factory=dict)
    """What a refusal means with this provider and what to do, where that differs from the usual."""
    listing: Listing | None = None
    """None if the provider has no list of its models."""
    traced_as: str = ""
    """OpenTelemetry's name for it, "" if that is its own."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """What an operator says of a provider; "" stands for what the table says."""

    api: str = ""
    """A key of `kinds.APIS`."""
    auth: str = ""
    """A key of that row of `kinds.APIS`, or of `kinds.ANYWHERE`."""
    key_env: str = ""
    """The variable that holds the key."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    project: str = ""
    location: str = ""
    region: str = ""
    api_version: str = ""
