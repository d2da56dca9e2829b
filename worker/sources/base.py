"""A source as a row of the table, and how its documents are written.

A source of your own is an installed package with an entry point in the group `sandpiper.sources`:

    [project.entry-points."sandpiper.sources"]
    weather = "our_package.sources:ROWS"

that names one SourceDef or a sequence of them. What a SourceDef promises, yours too:

- `name` is `[a-z][a-z0-9_]*`, at most 64 characters, not taken, and begins with a word of its own
  (`weather_get_forecast`); a workflow offers it once its `tools:` names it (`weather_*`).
- `args` is a subclass of worker.arguments.Arguments; each field has a description. No argument
  names a project, host or URL: what is read is bound to `reader.subject` on the host (law 2).
- `fetch(args, reader)` only reads. It ends within about `timeout` seconds: it gives its own HTTP
  calls time-outs, refuses redirects, and is called by several threads at once.
- It returns a Document. What is not in it, and why, stands in `missing`. If there is nothing at
  all (expired, no permission, rate limit), it raises worker.errors.SourceError saying so in words
  for the model; ArgumentError for arguments that cannot be right. Anything else that it raises is
  taken for a SourceError.
- What it returns is redacted and cut to `cap` bytes by the house, unless `redacted`: then `fetch`
  has called `reader.redact` itself, as a stream must.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from worker.arguments import Arguments
from worker.core.context import Subject
from worker.core.hostile import UNSEEN
from worker.core.ports import Document
from worker.sources.reader import Reader

A = TypeVar("A", bound=Arguments)

TIMEOUT = 60.0
"""Seconds of one call. A request that is under way may take its own time-out more."""

CAP = 32 * 1024 * 1024
"""Bytes of one document in memory."""


def always(subject: Subject) -> bool:
    """A source for every session."""
    return True


@dataclass(frozen=True, slots=True)
class SourceDef(Generic[A]):
    """One read-only source.

    `args` never holds a project (law 2). `fetch` raises SourceError. `note` is its line in the
    system prompt. `redacted` says that what `fetch` gives was cleaned of secrets already.
    `timeout` is in seconds, `cap` in bytes. It is offered to the sessions that it `applies` to.
    """

    name: str
    description: str
    args: type[A]
    fetch: Callable[[A, Reader], Document]
    note: str
    redacted: bool = False
    timeout: float = TIMEOUT
    cap: int = CAP
    applies: Callable[[Subject], bool] = always


class NoArguments(Arguments):
    """For sources that are fully bound to the session."""


def to_json(value: Mapping[str, Any]) -> bytes:
    """Compact JSON in the given order, one line per item of its lists: made for grep and sed.

    Strings lose what is never seen in them.
    """
    lines = [f"{json.dumps(key)}:{_value(item)}" for key, item in value.items()]
    text = ("{" + ",\n".join(lines) + "}\n").encode(errors="replace").decode()
    return UNSEEN.sub("", text).encode()


def _value(item: Any) -> str:
    if isinstance(item, list) and item:
        return "[\n" + ",\n".join(map(_compact, item)) + "\n]"
    return _compact(item)


def _compact(item: Any) -> str:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False)


def present(**fields: Any) -> dict[str, Any]:
    """The fields that say something: None, "", False and empty lists are left out, 0 is not."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ("", [])
    }
