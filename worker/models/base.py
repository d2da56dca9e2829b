"""What a provider is made of: a wire codec, an endpoint, and a way to authenticate.

A codec is pure: the same request gives the same bytes. It knows one body format and nothing of
addresses, keys or time. Vertex AI is another endpoint and another `httpx.Auth`, not another codec.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

import httpx

from worker.core.messages import ToolCall, Usage
from worker.core.ports import Request, StopReason

MAX_TOKENS = 21_000
"""The longest answer asked for without streaming: above it an idle connection is cut before the
answer comes (wire-models 1.4)."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `head` are the body's fields that depend on the endpoint."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    head: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """What a codec must know of the model it writes for.

    `origin` is the model's full name: verbatim wire parts go back to it and to no other.
    """

    origin: str
    max_tokens: int
    head: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fragment:
    """One message's share of the body: JSON values joined by commas, without brackets.

    `mark_at` is the offset inside the last value that can carry a cache mark where the mark goes,
    or None if no value can.
    """

    json: bytes
    mark_at: int | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """An answer in canonical form. `wire` is the JSON text of its content, to be sent back.

    `dropped` counts calls that were cut off; `thought` says that `wire` holds signed thinking.
    """

    text: str
    calls: tuple[ToolCall, ...]
    wire: str
    stop: StopReason
    usage: Usage
    detail: str = ""
    dropped: int = 0
    thought: bool = False


class Cause(Enum):
    """Why a provider refused, as far as it changes what to do."""

    BAD_KEY = auto()
    BILLING = auto()
    FORBIDDEN = auto()
    NOT_FOUND = auto()
    TOO_LARGE = auto()
    OVERFLOW = auto()
    SPEND_LIMIT = auto()
    RATE_LIMIT = auto()
    OVERLOADED = auto()
    INVALID = auto()
    BOUND = auto()
    """A verbatim part was made under another prefix, model or account: send the request bare."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is not 200. `reason` is the provider's own text, hostile and uncut.

    `retry_after` is in seconds where the body says so; the headers are the client's business.
    """

    cause: Cause
    reason: str
    transient: bool = False
    retry_after: float | None = None


class Codec(Protocol):
    """One body format, bound to one model. Every method is pure."""

    def encode(self, request: Request, *, bare: bool = False) -> bytes:
        """The body of `request`. `bare` rebuilds every message from its canonical form."""
        ...

    def decode(self, body: bytes) -> Decoded:
        """The answer in a 200 body. Raises ValueError if the body is not an answer."""
        ...

    def classify(self, status: int, body: bytes) -> Failure:
        """What a body with another status means; the body may be anything."""
        ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One row of the table. `key_env` and `url_env` are names for messages and for settings."""

    codec: Callable[[Target], Codec]
    endpoint: Callable[[str, str], Endpoint]
    auth: Callable[[str], httpx.Auth]
    base_url: str
    key_env: str
    url_env: str
