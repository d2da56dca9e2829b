"""Puts into the sandbox what the model was told is there: announced documents, folded results."""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context

from sandbox.base import Sandbox, SandboxError, SandboxGone, SandboxNotStarted
from worker.conversation.context import Context
from worker.conversation.folds import list_missing_files
from worker.conversation.messages import ToolCall
from worker.conversation.plan import FETCH, PlannedFile
from worker.errors import SandboxLost
from worker.safety.untrusted import one_line, parse_object
from worker.tools.source import Toolbox

log = logging.getLogger("sandpiper.turn")

WORKERS = 4

PATIENCE = 60.0
"""Seconds that commands wait for files; then they run, and the model is told what is missing."""

_MOST_REASON = 300


class Prefetch:
    """Saves files in the background. Existing files are never overwritten.

    The model's own tool saves them, so that they are read, redacted and stored as if it had asked.
    """

    def __init__(
        self,
        files: Sequence[PlannedFile],
        toolbox: Toolbox,
        sandbox: Sandbox,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._files, self._toolbox, self._sandbox = files, toolbox, sandbox
        self._saving: dict[str, Future[str]] = {}
        self._told: set[str] = set()
        self._late: set[str] = set()
        self._patience, self._closed = patience, threading.Event()

    def begin(self) -> None:
        """Begin to save missing files; call it again for a new sandbox. Raises nothing."""
        self._told.clear()
        if not self._files or self._closed.is_set():
            return
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="prefetch")
        self._saving = {
            each.path: pool.submit(copy_context().run, self._save, each) for each in self._files
        }
        pool.shutdown(wait=False)

    def _save(self, file: PlannedFile) -> str:
        """Save one file; return why that was not possible, or ""."""
        try:
            if self._closed.is_set() or self._is_there(file.path):
                return ""
            call = ToolCall(f"prefetch {file.path}", FETCH, file.write_arguments())
            (ran,) = self._toolbox.run([call], 0)
        except (SandboxError, SandboxLost) as error:
            log.info("%s was not saved: %s", file.path, error)
            return ""  # the run notices by itself that its sandbox failed
        return _read_failure(ran.result.content) if ran.result.is_error else ""

    def _is_there(self, path: str) -> bool:
        try:
            self._sandbox.get(path, limit=1)
        except FileNotFoundError:
            return False
        return True

    def wait(self) -> None:
        """Wait until all files are saved, or the patience is over."""
        wait(self._saving.values(), self._patience)
        self._late = {path for path, saving in self._saving.items() if not saving.done()}

    def tell_news(self) -> str:
        """Return a line for each file that could not be saved or is late; report each only once."""
        return "\n".join(self._list_news())

    def _list_news(self) -> Iterator[str]:
        for path, saving in self._saving.items():
            late = path in self._late and not saving.done()
            if path in self._told or not (saving.done() or late):
                continue
            self._told.add(path)
            if reason := "it takes too long" if late else saving.result():
                yield f"({path} could not be saved: {one_line(reason, _MOST_REASON)})"

    def close(self) -> None:
        """Begin to save no further file. Saves in progress end with the sandbox."""
        self._closed.set()
        for saving in self._saving.values():
            saving.cancel()


def _read_failure(content: str) -> str:
    """Return why a source had no document, from the tool's result."""
    fields = parse_object(content)
    return str(fields.get("unavailable") or fields.get("error") or content)


class FoldedResults:
    """Writes the folded results that are in no file into the sandbox, before it is used.

    This is not done when the fold is made: the sandbox need not be running then, and one that is
    adopted or restored may lack the files of earlier folds.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._written: set[str] = set()

    def write_missing(self, context: Context) -> None:
        """Write the results that this run has not written yet. Raises SandboxLost."""
        if not context.folds:
            return
        for path, content in list_missing_files(context.messages, context.folds):
            if path not in self._written:
                self._written.add(path)
                self._write(path, content)

    def _write(self, path: str, content: str) -> None:
        try:
            self._sandbox.put(path, [content.encode(errors="replace")])
        except SandboxGone as error:
            has_run = not isinstance(error, SandboxNotStarted)
            raise SandboxLost(str(error), has_run=has_run) from error
        except (SandboxError, ValueError) as error:
            log.warning("%s not written: %s", path, error)
