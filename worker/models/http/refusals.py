"""Error messages about a provider: which one, what happened, the status, what to do.

No message ever holds the key or a header that we sent.
"""

import re
from collections.abc import Mapping

from worker.errors import ContextOverflow, ModelError
from worker.models.base import Cause, Failure, Provider
from worker.models.codec.length_refusals import StatedSize, read_stated_size

_MAX_REASON = 300
_SHORTEST_KEY = 8
_GOOGLE_TOKEN = re.compile(r"ya29\.[A-Za-z0-9_.-]+")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOO_LONG = frozenset({Cause.OVERFLOW, Cause.TOO_LARGE, Cause.RATE_TOO_LOW})

_ADVICE = {
    Cause.BAD_KEY: ("the API key was refused", "set {key_env}"),
    Cause.BILLING: ("the account has a billing problem", "settle it with the provider"),
    Cause.FORBIDDEN: ("the key may not use {model}", "allow it, or choose another model"),
    Cause.NOT_FOUND: ("{model} is not served at {host}", "check the model's name and {url_env}"),
    Cause.TOO_LARGE: ("the request has more bytes than the API takes", "shorten the conversation"),
    Cause.OVERFLOW: ("the conversation is longer than the context window", "use a larger model"),
    Cause.SPEND_LIMIT: ("the spend limit is reached", "raise it, or wait for the next period"),
    Cause.QUOTA: ("the quota is used up", "raise it, or wait until it is renewed"),
    Cause.RATE_LIMIT: ("too many requests", "try again later"),
    Cause.OVERLOADED: ("the API is overloaded or failing", "try again later"),
    Cause.RATE_TOO_LOW: (
        "the request has more tokens than the account may use in a minute, so waiting is no help",
        "ask the provider for a higher limit, or use another model",
    ),
    Cause.INVALID: ("the request was refused", ""),
    Cause.BOUND: ("an earlier answer was refused when sent back", "start a new session"),
    Cause.NO_TOOLS: ("{model} is served without native tools", "its calls are asked for as text"),
}


def clean_text(text: str, key: str = "") -> str:
    """Return foreign text on one line: printable, cut, and without `key` or Google's tokens."""
    line = "".join(char for char in " ".join(text.split()) if char.isprintable())
    if len(key) >= _SHORTEST_KEY:
        line = line.replace(key, "[key]")
    line = _GOOGLE_TOKEN.sub("[token]", line)
    return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]}…"


def _read_size(failure: Failure) -> StatedSize:
    if failure.cause is Cause.TOO_LARGE:  # its numbers are bytes
        return StatedSize()
    return read_stated_size(failure.reason)


class RefusedForLength(ContextOverflow):
    """A ContextOverflow with all that the provider states, as it states it."""

    def __init__(self, message: str, kind: str, size: StatedSize) -> None:
        super().__init__(message, kind=kind, limit=size.limit, count=size.count)
        self.size = size


class RateLimited(ModelError):
    """The account has used up `token_rate`, its input tokens of a minute; or the request alone has
    more of them."""

    def __init__(self, message: str, kind: str, retry_after: float | None, token_rate: int) -> None:
        super().__init__(message, transient=True, retry_after=retry_after, kind=kind)
        self.token_rate = token_rate


class BoundElsewhere(ModelError):
    """The provider refused a verbatim part of the history; a bare request may be accepted."""


class ErrorWriter:
    """Makes the errors of one model. `host` is shown, so it must not hold credentials."""

    def __init__(self, name: str, provider: Provider, host: str, key: str) -> None:
        self._who, _, model = name.partition("/")
        self.host = host
        self._key = key
        self._advice = {**_ADVICE, **provider.advice}
        self._fields = {
            "model": model,
            "host": host,
            "key_env": provider.key_env,
            "url_env": provider.url_env,
        }

    def make_refusal(
        self, status: int, headers: Mapping[str, str], failure: Failure, retry_after: float | None
    ) -> ModelError:
        """Return the error for an answer other than 200."""
        what, advice = (part.format(**self._fields) for part in self._advice[failure.cause])
        text = f"{self._who}: {what} ({self._make_reference(status, headers)})"
        text += f": {advice}" if advice else ""
        # The answer often quotes a part of the refused key.
        if failure.reason and failure.cause is not Cause.BAD_KEY:
            text += f"; the API says: {self.quote_text(failure.reason)}"
        kind = failure.cause.name.lower()
        if failure.cause in _TOO_LONG:
            size = _read_size(failure)
            if failure.cause is not Cause.RATE_TOO_LOW or size.limit:
                return RefusedForLength(text, kind, size)
        if failure.cause is Cause.BOUND:
            return BoundElsewhere(text, kind=kind)
        if failure.token_rate and failure.transient:
            return RateLimited(text, kind, retry_after, failure.token_rate)
        return ModelError(text, transient=failure.transient, retry_after=retry_after, kind=kind)

    def make_failure(
        self, what: str, *, transient: bool = True, kind: str = "failed"
    ) -> ModelError:
        """Return the error for a request without a usable answer."""
        return ModelError(f"{self._who}: {what}", transient=transient, kind=kind)

    def quote_text(self, text: str) -> str:
        """Return foreign text on one line: printable, cut, and without the key."""
        return clean_text(text, self._key)

    @staticmethod
    def _make_reference(status: int, headers: Mapping[str, str]) -> str:
        request_id = headers.get("request-id") or headers.get("x-request-id", "")
        return f"{status}, {request_id}" if _REQUEST_ID.fullmatch(request_id) else str(status)
