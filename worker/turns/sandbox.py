"""A turn's sandbox: a new one with the stored files, or the one that a dead worker left.

Lost files are reported to the model, at the end of its next request, and in the note.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from sandbox.background import StartState, replace_in_background, start_in_background
from sandbox.base import Sandbox, SandboxError, SandboxLimit
from worker.conversation.context import Context, SessionKey, find_last_tool_turn
from worker.conversation.events import Stage, Watcher
from worker.conversation.plan import PlannedFile
from worker.errors import HandedOver, StoreError, TurnTaken
from worker.safety.untrusted import one_line
from worker.tools.source import Toolbox
from worker.turns.parts import Deps, Terms, Toolset
from worker.turns.sandbox_files import FoldedResults, Prefetch

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
        if self._begun:
            unknown = damaged and not start.archive_number
            return self._tell_taken_over(start) if self._worked or unknown else ""
        if damaged and start.archive_number:
            return _OLDER.format(self._stored[start.archive_number - 1])
        return _DAMAGED if damaged else ""

    def _tell_taken_over(self, start: StartState) -> str:
        if start.is_adopted:
            return ""
        if start.archive_number and self._stored[start.archive_number - 1] == self._turn:
            return _TAKEN_OVER.format(_KEPT)
        since = "since the last turn" if start.archive_number else "until now"
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
            if start is not None or isinstance(error, StoreError):
                self.losses = (*self.losses, self._describe_loss(error))
            return
        if self._left_out:
            reason = one_line(self._deps.runtime.redact(self._left_out), _MAX_REASON)
            self.losses = (*self.losses, f"{_UNKEPT_SOME}: {reason}")

    def _describe_loss(self, error: SandboxError | StoreError) -> str:
        """Say that the files were not stored, and which limit was exceeded, if one was."""
        loss = _UNKEPT_NEWEST if self._saved else _UNKEPT
        if not isinstance(error, SandboxLimit):
            return loss
        return f"{loss}: {one_line(self._deps.runtime.redact(str(error)), _MAX_REASON)}"

    def _store_files(self) -> None:
        self._left_out = ""
        files = self.sandbox.export(self._note_left_out)
        size = self._deps.storage.sessions.write_files(self._key, self._turn, files)
        self._watch(Stage(f"sandbox files stored: {size} bytes"))

    def _note_left_out(self, what: str) -> None:
        self._left_out = what

    def close(self) -> None:
        """End the sandbox. Never raises."""
        if self._prefetch:
            self._prefetch.close()
        self.sandbox.close()


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
