"""Logging to stderr, one record a line, as text or as JSON, with secrets redacted.

The fields of a record (trigger, session, project) are bound where the work begins, and every record
of that thread has them, whichever module writes it.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from time import localtime, strftime
from typing import Literal

_CHATTY = (
    "httpx",
    "httpcore",
    "urllib3",
    "botocore",
    "docker",
    "celery",
    "kombu",
    "opentelemetry",
)

_bound_fields: ContextVar[Mapping[str, str | int]] = ContextVar("sandpiper_log", default={})  # noqa: B039


@contextmanager
def bind_log_fields(**fields: str | int) -> Iterator[None]:
    """Add `fields` to every record of this thread until the block ends."""
    token = _bound_fields.set({**_bound_fields.get(), **fields})
    try:
        yield
    finally:
        _bound_fields.reset(token)


def configure(
    redact: Callable[[str], str],
    *,
    quiet: bool = False,
    form: Literal["text", "json"] = "text",
    level: str = "info",
) -> None:
    """Send records to stderr through `redact`, tracebacks included; with `quiet`, only warnings."""
    lowest = logging.getLevelNamesMapping()[level.upper()]
    lowest = max(lowest, logging.WARNING) if quiet else lowest
    handler = logging.StreamHandler()
    handler.setFormatter(_Json(redact) if form == "json" else _Plain(redact))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(lowest)
    logging.captureWarnings(True)
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(lowest, logging.WARNING))


class _Formatter(logging.Formatter):
    """What both forms share. `redact` removes secrets from a text."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def _format_trace(self, record: logging.LogRecord) -> str:
        parts = [self.formatException(record.exc_info)] if record.exc_info else []
        parts += [self.formatStack(record.stack_info)] if record.stack_info else []
        return "\n".join(parts)


class _Plain(_Formatter):
    """`time level logger: message [session=… trigger=…]`; further lines only for tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        time = f"{_format_second(int(record.created))},{record.msecs:03.0f}"
        bound = " ".join(f"{name}={value}" for name, value in _bound_fields.get().items())
        text = record.getMessage()
        # A message is one line, as libraries do not always write theirs.
        message = _one_line(self._redact(" ".join(text.split()) if "\n" in text else text))
        line = f"{time} {record.levelname} {record.name}: {message}"
        line += f" [{_one_line(self._redact(bound))}]" if bound else ""
        if not (trace := self._redact(self._format_trace(record))):
            return line
        # Indented, so that text quoted in an error does not look like a separate record.
        return "\n".join([line, *(f"  {_one_line(each)}" for each in trace.splitlines())])


class _Json(_Formatter):
    """One object: ts (RFC 3339, UTC), level, logger, msg, the bound fields, exc if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, str | int] = {
            "ts": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **_bound_fields.get(),
        }
        if trace := self._format_trace(record):
            fields["exc"] = trace
        # Redact before encoding: JSON escapes would hide a secret that contains a quote.
        return json.dumps(
            {
                name: self._redact(value) if isinstance(value, str) else value
                for name, value in fields.items()
            }
        )


@lru_cache(1)  # a busy webhook receiver writes thousands of lines a second
def _format_second(at: int) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(at))


def _one_line(text: str) -> str:
    """Return `text` with control characters and line breaks escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
