"""Sources of other packages: the entry points of the group `sandpiper.sources`.

Their contract is in `worker.gitlab.read.base`. A broken plug-in is reported at the start, not in a
run.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from worker.conversation import context
from worker.errors import UNFORESEEN, ConfigError, SourceError
from worker.gitlab.read import base, evidence, session_reader
from worker.gitlab.read.base import RawDocument, SourceDef
from worker.gitlab.read.session_reader import Reader
from worker.tools import arguments, source
from worker.tools.arguments import Arguments

GROUP = "sandpiper.sources"

_RESERVED = ("gitlab_", "konflux_", "testing_farm_", "sandbox_", "fetch_")

FORMER = {
    "worker.arguments": arguments,
    "worker.core.conversation.context": context,
    "worker.core.ports": source,
    "worker.core.ports.tools": source,
    "worker.sources.base": base,
    "worker.sources.evidence": evidence,
    "worker.sources.session_reader": session_reader,
}
"""The modules of the contract by the names that they had when older plug-ins were written."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")


def load_plugins(points: Iterable[EntryPoint] | None = None) -> tuple[SourceDef[Any], ...]:
    """Load all installed plug-ins, by entry point name. Raises ConfigError for a bad one."""
    found = entry_points(group=GROUP) if points is None else points
    rows = sorted(found, key=lambda each: each.name)
    if rows:
        _accept_former_names()
    return tuple(row for point in rows for row in _load_rows(point))


def _accept_former_names() -> None:
    """Let modules be imported by their former names too, from now on: a plug-in may import when it
    is called. Where there is no plug-in, nothing is found by these names."""
    sys.modules.update(FORMER)
    for name, module in FORMER.items():
        parent, _, last = name.rpartition(".")
        if parent in sys.modules and parent not in FORMER:
            setattr(sys.modules[parent], last, module)


def _load_rows(point: EntryPoint) -> list[SourceDef[Any]]:
    where = f"the plug-in {point.name!r} ({point.value}) of {GROUP}"
    try:
        loaded = point.load()
    except UNFORESEEN as error:
        raise ConfigError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    rows = list(loaded) if isinstance(loaded, Sequence) else [loaded]
    for row in rows:
        if problem := _find_problem(row):
            raise ConfigError(f"{where}: {problem} (see worker/gitlab/read/base.py)")
    return [replace(row, fetch=partial(_fetch_raw, row.fetch, row.name)) for row in rows]


def _find_problem(row: object) -> str:
    if not isinstance(row, SourceDef):
        return f"{row!r:.100} is not a SourceDef"
    if not (_NAME.fullmatch(row.name) and len(row.name) <= 64):
        return f"{row.name!r:.100} is not a name like weather_get_forecast"
    if row.name.startswith(_RESERVED):
        return f"{row.name} begins with a word that is taken ({', '.join(_RESERVED)})"
    args: object = row.args
    if not (isinstance(args, type) and issubclass(args, Arguments)):
        return f"the args of {row.name} are not a subclass of worker.tools.arguments.Arguments"
    functions: tuple[object, ...] = (row.fetch, row.applies)
    if not all(map(callable, functions)):
        return f"fetch and applies of {row.name} are not both functions"
    if not (row.description and row.note):
        return f"{row.name} has no description or no note"
    return "" if row.timeout > 0 and row.cap > 0 else f"{row.name} has no time-out or no cap"


def _fetch_raw(
    fetch: Callable[[Any, Reader], object], name: str, args: Any, reader: Reader
) -> RawDocument:
    """Call `fetch` of a plug-in. Raises SourceError if it returns anything but a RawDocument."""
    raw = fetch(args, reader)
    if not isinstance(raw, RawDocument):
        raise SourceError(f"{name} failed: it gave {type(raw).__name__}, not a RawDocument")
    return raw
