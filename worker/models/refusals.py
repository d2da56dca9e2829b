"""Error messages about a provider: which one, what happened, the status, what to do.

No message ever holds the key or a header that we sent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from worker.errors import ContextOverflow, ModelError
from worker.models.base import Cause, Failure, Provider, WantedChange
from worker.models.refusal_words import StatedSize, read_stated_size

_MAX_REASON = 300
_SHORTEST_KEY = 8
_TOKEN = re.compile(r"ya29\.[A-Za-z0-9_.-]+|(?i:(?<=x-amz-security-token:)\S+)")
"""Google's access tokens, and Amazon's as its refusals of a signature repeat them."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REQUEST_IDS = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id")
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
    Cause.UNWANTED: ("the server wants the request to be another", ""),
    Cause.NO_TOOLS: ("{model} is served without native tools", "its calls are asked for as text"),
}


def clean_text(text: str, keys: Iterable[str] = ()) -> str:
    """Return foreign text on one line: printable, cut, and without `keys` and access tokens."""
    line = "".join(char for char in " ".join(text.split()) if char.isprintable())
    for key in keys:
        if len(key) >= _SHORTEST_KEY:
            line = line.replace(key, "[key]")
    line = _TOKEN.sub("[token]", line)
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


_STREAM = re.compile(rb"\s*(?:(?:data|event|id|retry):|:)")
_PAGE = re.compile(rb"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)


def name_foreign_form(headers: Mapping[str, str], body: bytes) -> str:
    """Return what an answer is that is not the JSON that was asked for, and what to do; "" if that
    cannot be told."""
    kind, start = headers.get("content-type", "").lower(), body[:400]
    if "event-stream" in kind or _STREAM.match(start):
        return "an event stream, though none was asked for: switch streaming off at {host}"
    if "ndjson" in kind or "json-seq" in kind:
        return "a stream of JSON lines, though none was asked for: switch streaming off at {host}"
    if "text/html" in kind or _PAGE.match(start):
        return "a page of HTML: check {url_env}, and what stands before {host}"
    return ""


class BoundElsewhere(ModelError):
    """The provider refused a verbatim part of the history; a bare request may be accepted."""


class ChangeWanted(ModelError):
    """The provider wants a field of the request to be another; a changed request may be
    accepted."""

    def __init__(self, message: str, change: WantedChange, kind: str) -> None:
        super().__init__(message, kind=kind)
        self.change = change


class ErrorWriter:
    """Makes the errors of one model. `host` is shown, so it must not hold credentials; `keys` are
    taken out of what is shown."""

    def __init__(self, name: str, provider: Provider, host: str, keys: Sequence[str]) -> None:
        self._who, _, model = name.partition("/")
        self.host = host
        self._keys = keys
        self._advice = {**_ADVICE, **provider.advice}
        self._fields = {
            "who": self._who,
            "model": model,
            "host": host,
            "key_env": provider.key_env,
            "url_env": provider.url_env,
        }

    def make_refusal(
        self, status: int, headers: Mapping[str, str], failure: Failure, retry_after: float | None
    ) -> ModelError:
        """Return the error for an answer other than 200."""
        what, advice = self._advice[failure.cause]
        if failure.change:
            advice = failure.change.advice
        what, advice = (part.format(**self._fields) for part in (what, advice))
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
        if failure.change:
            return ChangeWanted(text, failure.change, kind)
        return ModelError(text, transient=failure.transient, retry_after=retry_after, kind=kind)

    def make_failure(
        self, what: str, *, transient: bool = True, kind: str = "failed"
    ) -> ModelError:
        """Return the error for a request without a usable answer."""
        return ModelError(f"{self._who}: {what}", transient=transient, kind=kind)

    def make_unread(self, headers: Mapping[str, str], body: bytes, reason: str) -> ModelError:
        """Return the error for an answer that cannot be read for this `reason`.

        A stream is what the server always answers: it would only be paid for once more.
        """
        text, form = self.quote_text(reason), name_foreign_form(headers, body)
        what = (
            f"the answer is {form.format(**self._fields)}"
            if form
            else (f"the answer cannot be read: {text}")
        )
        return self.make_failure(what, transient="stream" not in form, kind="unread")

    def quote_text(self, text: str) -> str:
        """Return foreign text on one line: printable, cut, and without the key."""
        return clean_text(text, self._keys)

    @staticmethod
    def _make_reference(status: int, headers: Mapping[str, str]) -> str:
        request_id = next(filter(None, map(headers.get, _REQUEST_IDS)), "")
        return f"{status}, {request_id}" if _REQUEST_ID.fullmatch(request_id) else str(status)
