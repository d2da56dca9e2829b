"""A turn's sandbox: a new one with the stored files, or the one that a dead worker left. What the
model was told is there is put into it: announced documents, folded results.

Lost files are reported to the model, at the end of its next request, and in the note.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial

from sandbox.background import replace_in_background, start_in_background
from sandbox.base import Sandbox, SandboxError, SandboxGone, SandboxLimit, SandboxNotStarted
from worker.conversation.context import Context, SessionKey, find_last_tool_turn
from worker.conversation.events import Stage, Watcher
from worker.conversation.folds import list_missing_files
from worker.conversation.messages import ToolCall
from worker.conversation.plan import FETCH, PlannedFile
from worker.errors import HandedOver, SandboxLost, StoreError, TurnTaken
from worker.safety.untrusted import one_line, parse_object
from worker.tools.source import Toolbox
from worker.turns.parts import Deps, Terms, Toolset

log = logging.getLogger("sandpiper.turn")

_TAKEN_OVER = "(The worker that ran this turn was replaced by another one, which goes on here. {})"
_KEPT = (
    "Your files in /tmp/data and /tmp/_out have been restored as they were last saved; what was "
    "written since, and whatever else was in /tmp, is gone."
)
_GONE = (
    "The sandbox is a new one: what was fetched and written {} is gone. Fetch again what you "
    "still need."
)
_DAMAGED = (
    "(The sandbox's saved files could not be restored, whatever was said above: /tmp/data and "
    "/tmp/_out are empty. Fetch again what you need.)"
)
_OLDER = (
    "(The newest of the sandbox's saved files could not be restored, whatever was said above: "
    "/tmp/data and /tmp/_out are as turn {} has left them. Fetch again what is missing there.)"
)
_REPLACED = (
    "(The sandbox died: {error}. A new one has started{files}. Documents that were fetched since "
    "lie in their files again. What else commands wrote is gone; don't repeat the command that it "
    "died of.)"
)
_MOST_REPLACED = 2
"""The most times that a turn's sandbox is replaced."""

_SAVE_SECONDS = 60.0
"""A long turn stores its files after new results, at most once in so many seconds."""

_UNKEPT = "the sandbox's files could not be stored, a reply begins without them"
_UNKEPT_NEWEST = (
    "the newest of the sandbox's files could not be stored, a reply begins with older ones"
)
_UNKEPT_SOME = "of the sandbox's files some could not be stored"
_MAX_REASON = 300
_UNRESTORED = "the sandbox's files of earlier turns could not be restored"
_UNRESTORED_NEWEST = "the newest of the sandbox's files could not be restored, but older ones"

WORKERS = 4

PATIENCE = 60.0
"""Seconds that commands wait for files; then they run, and the model is told what is missing."""


class Workspace:
    """The sandbox of turn `turn`, which starts in the background.

    It gets the files of the first of the turns `files_of` whose archive is intact. `begun` says
    that another worker began this turn, and `worked` that tools had run in it. `at_first_use`
    starts the sandbox only for the first call of a tool.
    """

    def __init__(
        self,
        key: SessionKey,
        turn: int,
        files_of: Sequence[int],
        deps: Deps,
        watch: Watcher,
        *,
        begun: bool,
        worked: bool,
        at_first_use: bool = False,
    ) -> None:
        self._key, self._turn, self._deps, self._watch = key, turn, deps, watch
        self._begun, self._worked = begun, worked
        self._told, self._replaced, self._news = False, 0, ""
        self._saved, self._saved_at = 0, deps.runtime.clock.monotonic()
        self._left_out = ""
        self.losses: tuple[str, ...] = ()
        turns = [*([turn] if begun else []), *files_of]
        opened = {number: deps.storage.sessions.open_files(key, number) for number in turns}
        self._stored = [number for number, archive in opened.items() if archive]
        archives = [_open_archive(archive) for archive in opened.values() if archive]
        self._starting = "sandbox starting" + (", its files are restored" if archives else "")
        self.sandbox = start_in_background(
            deps.runtime.sandboxes, key.session_id, archives, adopt=begun, at_first_use=True
        )
        self._folded = FoldedResults(self.sandbox)
        self._prefetch: Prefetch | None = None
        if not at_first_use:
            self._start()

    def _start(self) -> None:
        if self._starting:
            self._watch(Stage(self._starting))
            self._starting = ""
            self.sandbox.begin()

    @property
    def running_sandbox(self) -> Sandbox | None:
        """The sandbox, unless it waits for the first call of a tool."""
        return None if self._starting else self.sandbox

    def save_documents(self, files: Sequence[PlannedFile], toolbox: Toolbox) -> None:
        """Save the files that were announced to the model in the background. Raises nothing."""
        if files:
            self._prefetch = Prefetch(files, toolbox, self.sandbox)
            self._prefetch.begin()

    def prepare_tools(self, context: Context) -> None:
        """Start the sandbox, and provide announced files and folded results. Raises SandboxLost."""
        self._start()
        if self._prefetch:
            self._prefetch.wait()
        self._folded.write_missing(context)

    def save_now_and_then(self, context: Context) -> None:
        """Store the files at most once a minute, in case the sandbox dies. Raises TurnTaken."""
        now = self._deps.runtime.clock.monotonic()
        if now - self._saved_at < _SAVE_SECONDS:
            return
        self._saved_at = now
        try:
            self._store_files()
            self._saved = len(context.messages)
        except TurnTaken:
            raise
        except (SandboxError, StoreError) as error:
            log.warning("session %s: files not kept for now: %s", self._key.session_id, error)

    def replace_sandbox(self, error: str) -> int | None:
        """Replace a sandbox that died; return how many of the session's messages its files cover.

        Returns None after too many replacements, or if the new sandbox did not start. It has the
        files that were saved last; the model is told what is missing. Raises HandedOver if this
        worker ends: whoever goes on starts one.
        """
        if self._deps.queue.leases.is_stopping:
            raise HandedOver(f"session {self._key.session_id} is handed over: this worker ends")
        if self._replaced >= _MOST_REPLACED:
            return None
        self._replaced += 1
        self._watch(Stage("sandbox lost, another one is starting"))
        log.warning("session %s: the sandbox was lost: %s", self._key.session_id, error)
        driver = self._deps.runtime.sandboxes
        replace_in_background(self.sandbox, driver, self._key.session_id, self._open_stored)
        self._folded = FoldedResults(self.sandbox)
        start = self.sandbox.get_start_state(wait=True)
        restored = bool(start and start.archive_number)
        files = " with the files that were saved last" if restored else ", and it is empty"
        reason = one_line(self._deps.runtime.redact(error), _MAX_REASON)
        self._news = _REPLACED.format(error=reason, files=files)
        if start is None:
            return None
        if self._prefetch:
            self._prefetch.begin()
        return self._saved if start.archive_number == 1 else 0

    def _open_stored(self) -> Sequence[AbstractContextManager[Iterable[bytes]]]:
        """Open what was saved, the newest first; errors of the store become SandboxError."""
        sessions = self._deps.storage.sessions
        own = [self._turn] if self._saved and self._turn not in self._stored else []
        try:
            opened = [sessions.open_files(self._key, number) for number in (*own, *self._stored)]
        except StoreError as error:
            raise SandboxError(str(error)) from error
        return [_open_archive(archive) for archive in opened if archive]

    def tell_news(self) -> str:
        """Return news of the sandbox for the model, as soon as they are known, and only once."""
        news, self._news = self._news, ""
        unsaved = self._prefetch.tell_news() if self._prefetch else ""
        return "\n".join(filter(None, (news or self._tell_start(), unsaved)))

    def _tell_start(self) -> str:
        start = None if self._told else self.sandbox.get_start_state(wait=self._begun)
        if start is None:
            return ""
        self._told = True
        damaged = start.failures and not start.is_adopted
        if damaged:
            self.losses = (_UNRESTORED_NEWEST if start.archive_number else _UNRESTORED,)
        restored = self._stored[start.archive_number - 1] if start.archive_number else None
        if not self._begun:
            if damaged and restored is not None:
                return _OLDER.format(restored)
            return _DAMAGED if damaged else ""
        unknown = damaged and restored is None
        if start.is_adopted or not (self._worked or unknown):
            return ""
        if restored == self._turn:
            return _TAKEN_OVER.format(_KEPT)
        since = "until now" if restored is None else "since the last turn"
        return _TAKEN_OVER.format(_GONE.format(since))

    def save_files(
        self,
        context: Context,
        patiently: Callable[[Callable[[], None]], None] = lambda task: task(),
    ) -> None:
        """Store the files; if that fails, the note says so, and a reply continues without them.

        A turn that has used no tool, by its `context`, has changed no files, so those that are
        stored stay the newest. `patiently` repeats its task while the store is unavailable. Raises
        TurnTaken.
        """
        if find_last_tool_turn(context) < context.turn:
            return
        start = self.sandbox.get_start_state(wait=self._begun)
        if self._begun and self._worked and not self._told and not (start and start.is_adopted):
            # Nothing was done here since the turn was taken over, so the stored files are kept.
            return
        try:
            patiently(self._store_files)
        except TurnTaken:
            raise
        except (SandboxError, StoreError) as error:
            log.warning("session %s: files not kept: %s", self._key.session_id, error)
            loss = _UNKEPT_NEWEST if self._saved else _UNKEPT
            if isinstance(error, SandboxLimit):
                loss = f"{loss}: {one_line(self._deps.runtime.redact(str(error)), _MAX_REASON)}"
            if start is not None or isinstance(error, StoreError):
                self.losses = (*self.losses, loss)
            return
        if self._left_out:
            reason = one_line(self._deps.runtime.redact(self._left_out), _MAX_REASON)
            self.losses = (*self.losses, f"{_UNKEPT_SOME}: {reason}")

    def _store_files(self) -> None:
        left_out = [""]
        files = self.sandbox.export(left_out.append)
        size = self._deps.storage.sessions.write_files(self._key, self._turn, files)
        self._left_out = left_out[-1]
        self._watch(Stage(f"sandbox files stored: {size} bytes"))

    def close(self) -> None:
        """End the sandbox. Never raises."""
        if self._prefetch:
            self._prefetch.close()
        self.sandbox.close()


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
            if self._closed.is_set():
                return ""
            with suppress(FileNotFoundError):
                self._sandbox.get(file.path, limit=1)
                return ""  # it is there
            call = ToolCall(f"prefetch {file.path}", FETCH, file.write_arguments())
            (ran,) = self._toolbox.run([call], 0)
        except (SandboxError, SandboxLost) as error:
            log.info("%s was not saved: %s", file.path, error)
            return ""  # the run notices by itself that its sandbox failed
        fields = parse_object(ran.result.content) if ran.result.is_error else {}
        failure = fields.get("unavailable") or fields.get("error") or ran.result.content
        return str(failure) if ran.result.is_error else ""

    def wait(self) -> None:
        """Wait until all files are saved, or the patience is over."""
        wait(self._saving.values(), self._patience)
        self._late = {path for path, saving in self._saving.items() if not saving.done()}

    def tell_news(self) -> str:
        """Return a line for each file that could not be saved or is late; report each only once."""
        lines = []
        for path, saving in self._saving.items():
            late = path in self._late and not saving.done()
            if path in self._told or not (saving.done() or late):
                continue
            self._told.add(path)
            if reason := "it takes too long" if late else saving.result():
                lines.append(f"({path} could not be saved: {one_line(reason, _MAX_REASON)})")
        return "\n".join(lines)

    def close(self) -> None:
        """Begin to save no further file. Saves in progress end with the sandbox."""
        self._closed.set()
        for saving in self._saving.values():
            saving.cancel()


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
            if path in self._written:
                continue
            self._written.add(path)
            try:
                self._sandbox.put(path, [content.encode(errors="replace")])
            except SandboxGone as error:
                has_run = not isinstance(error, SandboxNotStarted)
                raise SandboxLost(str(error), has_run=has_run) from error
            except (SandboxError, ValueError) as error:
                log.warning("%s not written: %s", path, error)


@contextmanager
def _open_archive(archive: AbstractContextManager[Iterator[bytes]]) -> Iterator[Iterable[bytes]]:
    """Open an archive; errors of the store become SandboxError."""
    try:
        with archive as chunks:
            yield chunks
    except StoreError as error:
        raise SandboxError(str(error)) from error


def remove_sandbox(session: str, deps: Deps) -> None:
    """Close the sandbox that a dead worker left for this session, if there is one."""
    try:
        sandbox = deps.runtime.sandboxes.adopt(session)
    except SandboxError as error:
        log.warning("session %s: %s", session, error)
        return
    if sandbox is not None:
        sandbox.close()


def open_toolset(key: SessionKey, context: Context, terms: Terms, deps: Deps) -> Toolset:
    """Return the tools and sources of a turn, which store their evidence with its session."""
    toolset = deps.runtime.toolset(context.subject, terms.workflow)
    toolset.keep_evidence(
        partial(deps.storage.sessions.read_evidence, key, context.turn),
        partial(deps.storage.sessions.write_evidence, key, context.turn),
    )
    return toolset
