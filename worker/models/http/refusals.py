"""What went wrong with a provider, for a human: who, what, the status, what to do.

No text here ever holds the key or a header we sent.
"""

import re
from collections.abc import Mapping

from worker.errors import ContextOverflow, ModelError
from worker.models.base import Cause, Failure, Provider

_MAX_REASON = 300
_SHORTEST_KEY = 8
_GOOGLE_TOKEN = re.compile(r"ya29\.[A-Za-z0-9_.-]+")
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

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
    Cause.INVALID: ("the request was refused", ""),
    Cause.BOUND: ("an earlier answer was refused when sent back", "start a new session"),
}


def one_line(text: str, key: str = "") -> str:
    """Foreign text in one line, printable, cut, without `key` and without Google's tokens."""
    line = "".join(char for char in " ".join(text.split()) if char.isprintable())
    if len(key) >= _SHORTEST_KEY:
        line = line.replace(key, "[key]")
    line = _GOOGLE_TOKEN.sub("[token]", line)
    return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]}…"


class BoundElsewhere(ModelError):
    """A verbatim part of the history is refused here; a bare request may be taken."""


class Spokesman:
    """Words the errors of one model. `host` is shown, so it must not carry credentials."""

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

    def refused(
        self, status: int, headers: Mapping[str, str], failure: Failure, retry_after: float | None
    ) -> ModelError:
        """The error of an answer that is not 200."""
        what, advice = (part.format(**self._fields) for part in self._advice[failure.cause])
        text = f"{self._who}: {what} ({self._reference(status, headers)})"
        text += f": {advice}" if advice else ""
        # A refused key is often quoted in the answer, in part.
        if failure.reason and failure.cause is not Cause.BAD_KEY:
            text += f"; the API says: {self.quoted(failure.reason)}"
        kind = failure.cause.name.lower()
        if failure.cause is Cause.OVERFLOW:
            return ContextOverflow(text, kind=kind)
        if failure.cause is Cause.BOUND:
            return BoundElsewhere(text, kind=kind)
        return ModelError(text, transient=failure.transient, retry_after=retry_after, kind=kind)

    def failed(self, what: str, *, transient: bool = True, kind: str = "failed") -> ModelError:
        """The error of a request that got no usable answer."""
        return ModelError(f"{self._who}: {what}", transient=transient, kind=kind)

    def quoted(self, text: str) -> str:
        """Foreign text in one line, printable, cut, and without the key."""
        return one_line(text, self._key)

    @staticmethod
    def _reference(status: int, headers: Mapping[str, str]) -> str:
        request_id = headers.get("request-id") or headers.get("x-request-id", "")
        return f"{status}, {request_id}" if _REQUEST_ID.fullmatch(request_id) else str(status)
