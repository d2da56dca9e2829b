"""What a tool is: a name, a description, typed arguments, and a function."""

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any, Generic, TypeVar

from sandbox.base import Sandbox, SandboxError, SandboxGone, SandboxNotStarted
from worker.conversation.messages import ToolSpec
from worker.errors import UNFORESEEN, ArgumentError, SandboxLost, SourceError
from worker.logs.preview import LIMIT, head_and_tail
from worker.safety.untrusted import one_line
from worker.tools.arguments import A, schema
from worker.tools.source import Document, Source

MESSAGE_SHOWN = 300
"""Characters of an unexpected exception's message that the model is shown."""

REFUSAL_SHOWN = 2048
"""Bytes that it is shown of what is wrong with its arguments."""

WORKERS = 8

J = TypeVar("J")

_Key = tuple[str, str, str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result: the JSON object for the model, and the size of the output it describes."""

    content: Mapping[str, Any]
    size: int
    is_error: bool = False


class SavedDocuments:
    """The paths of saved documents by their source, its arguments, and their content.

    Safe to share between threads. An added document is found after the next `publish`, so that
    calls which are made together do not depend on each other. `exists` says whether a file is still
    there; without it nothing is found.
    """

    def __init__(self, exists: Callable[[str], bool] = lambda path: False) -> None:
        self._exists = exists
        self._paths: dict[_Key, str] = {}
        self._added: dict[_Key, str] = {}
        self._lock = threading.Lock()

    def find_path(self, source: str, arguments: Mapping[str, Any], document: Document) -> str:
        """Return the path of the same document, "" if it was not saved or has changed since."""
        with self._lock:
            path = self._paths.get(_make_key(source, arguments, document), "")
        return path if path and self._exists(path) else ""

    def add(self, source: str, arguments: Mapping[str, Any], document: Document, path: str) -> None:
        """Record that the document was saved at `path`, in place of any other one there."""
        key = _make_key(source, arguments, document)
        with self._lock:
            self._paths = _remove_overwritten(self._paths, key, path)
            self._added = _remove_overwritten(self._added, key, path)
            self._added.setdefault(key, path)

    def publish(self) -> None:
        """Make the documents that were added until now available to `find_path`."""
        with self._lock:
            self._paths = self._added | self._paths
            self._added = {}


def _remove_overwritten(paths: Mapping[_Key, str], key: _Key, path: str) -> dict[_Key, str]:
    """Return the paths without those of other documents than `key` in the file `path`."""
    file = normpath(path)
    return {each: at for each, at in paths.items() if each == key or normpath(at) != file}


def _make_key(source: str, arguments: Mapping[str, Any], document: Document) -> _Key:
    sorted_arguments = json.dumps(dict(arguments), sort_keys=True, default=str)
    digest = hashlib.sha256(document.data)
    digest.update(f"{document.lines} {document.gaps}".encode(errors="replace"))
    return source, sorted_arguments, digest.hexdigest()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools work with in one run."""

    sandbox: Sandbox
    sources: Mapping[str, Source]
    exec_timeout: float
    """The longest time for one command in seconds."""
    redact: Callable[[str], str]
    """Removes secrets from results; documents are redacted before they are written."""
    preview_bytes: int = LIMIT
    """The size of a result's preview."""
    whole_bytes: int = 1 << 20
    """The largest size of a result that is shown whole."""
    documents: SavedDocuments = field(default_factory=SavedDocuments)
    """What was saved before."""


@dataclass(frozen=True, slots=True)
class ToolDef(Generic[A]):
    """One row of the table of tools.

    `run` is given the parsed arguments, the context, and the call's number in the session, which
    names its spill file. It raises ArgumentError or SourceError with a message for the model.
    A tool that `runs_in_order` waits for earlier calls, whose effects it sees; others run in
    parallel.
    """

    name: str
    description: str
    args: type[A]
    run: Callable[[A, ToolContext, int], ToolOutput]
    runs_in_order: bool = False

    @property
    def spec(self) -> ToolSpec:
        """The tool's description for the model."""
        return ToolSpec(self.name, self.description, schema(self.args))


def catch_failure(run: Callable[[], ToolOutput], name: str) -> ToolOutput:
    """Call `run`; a failure of tool `name` becomes an error result. Raises only SandboxLost."""
    try:
        return run()
    except SandboxGone as error:
        has_run = not isinstance(error, SandboxNotStarted)
        raise SandboxLost(str(error), has_run=has_run) from error
    except SourceError as error:
        return ToolOutput({"unavailable": str(error)}, 0, is_error=True)
    except SandboxError as error:
        return ToolOutput({"error": str(error)}, 0, is_error=True)
    except ArgumentError as error:  # it quotes what the model wrote, however long that is
        return ToolOutput({"error": head_and_tail(str(error), REFUSAL_SHOWN)}, 0, is_error=True)
    except UNFORESEEN as error:
        _log.exception("%s failed", name)
        message = one_line(f"{type(error).__name__}: {error}", MESSAGE_SHOWN)
        return ToolOutput({"error": f"{name} failed: {message}"}, 0, is_error=True)


def run_in_parallel(jobs: Sequence[Callable[[], J]]) -> Iterator[J]:
    """Run the jobs on threads and yield their results in the order of the jobs.

    The first exception in that order is raised; jobs that have not begun are dropped then.
    """
    if len(jobs) == 1:
        yield jobs[0]()
        return
    with ThreadPoolExecutor(min(len(jobs), WORKERS), thread_name_prefix="tool") as pool:
        # Each job has its own copy of the context, so that its log records name the session.
        contexts = [copy_context() for _ in jobs]
        yield from pool.map(lambda context, job: context.run(job), contexts, jobs)
