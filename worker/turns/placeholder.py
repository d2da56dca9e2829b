"""The note of a turn while it runs, and if it ends without a result.

A separate thread keeps the placeholder up to date: an edit may take GitLab seconds, and the loop
must not wait for it. Only the newest state is written, with pauses and a maximum number of edits; a
write that fails is not repeated. When the run is over, the thread is joined, so that late progress
does not overwrite the result. A turn that ends without a result says why, instead of promising one.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from worker.answer.note import note
from worker.answer.note.note import WAITING, Progress, write_progress
from worker.answer.note.older_note import fold_earlier
from worker.conversation.context import Context, Subject
from worker.conversation.events import (
    Answered,
    Asking,
    Event,
    Milestone,
    NotePlaced,
    Stage,
    Watcher,
)
from worker.errors import ForgeError, Postponed
from worker.safety.markdown import Marker
from worker.turns.parts import Deps


def write_end(marker: Marker, subject: Subject, reason: str, earlier: str = "") -> str:
    """Return the body of a note that says why there is no result, with the `earlier` note below."""
    return fold_earlier(note.write_failure(marker, subject, reason, None), earlier)


class UnfinishedNote:
    """Watches a run for its placeholder; `watch` passes every event on to `watcher`."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._placed: NotePlaced | None = None

    def watch(self, event: Event) -> None:
        """Remember the placeholder, until the result is in its place."""
        if isinstance(event, NotePlaced):
            self._placed = event
        elif isinstance(event, Stage) and event.milestone is Milestone.NOTE:
            self._placed = None
        self._watcher(event)

    @property
    def session_id(self) -> str:
        """The session of the placeholder, "" while there is none."""
        return self._placed.marker.session_id if self._placed else ""

    def write_reason(self, reason: str, deps: Deps, *, restores: bool = False) -> None:
        """Write why there will be no result into the placeholder, if there is one; with `restores`,
        the note that stood in its place comes back instead.

        Raises nothing: where GitLab takes no note now, `sandpiper sweep` writes it later.
        """
        placed = self._placed
        if placed is None:
            return
        said = deps.runtime.redact(reason)
        body = write_end(placed.marker, placed.subject, said, placed.earlier)
        if restores and placed.earlier:
            body = placed.earlier
        try:
            deps.gitlab.notes.edit_note(placed.subject, placed.note, body)
        except ForgeError as error:
            log.warning("note %d still promises a result: %s", placed.note.note_id, error)


log = logging.getLogger("sandpiper.progress")

MOST = 40
"""The most edits of one turn; the pause between them grows by its first length every ten."""

FAILURES = 2
"""Failed edits after which the rest of the turn is not reported."""

LAST_EDIT = 10.0
"""Seconds to wait at the end for an edit in progress."""


@contextmanager
def keep_note_up_to_date(
    marker: Marker, context: Context, deps: Deps, watch: Watcher, sure: Callable[[], bool]
) -> Iterator[Watcher]:
    """Yield `watch`, extended to keep the note of `context` up to date until the block ends.

    If the run is postponed, the note says that it waits. Nothing is written unless `sure` says that
    the turn is still ours: a worker that was suspended and resumes would otherwise overwrite the
    finding of the worker that took over.
    """
    posted, started = context.note, deps.runtime.clock.monotonic()
    if posted is None or deps.options.note.progress <= 0:
        yield watch
        return

    def write(line: str) -> None:
        if not sure():
            return
        body = note.write_placeholder(
            marker,
            context.subject,
            resumed=not context.is_look,
            progress=line,
            earlier=context.earlier_note,
            on_request=context.on_request,
        )
        deps.gitlab.notes.edit_note(context.subject, posted, body, hurried=True)

    def edit(seen: Progress) -> None:
        write(write_progress(seen, deps.runtime.clock.monotonic() - started, deps.runtime.redact))

    progress = ProgressNote(edit, deps.options.note.progress)
    try:
        yield progress.wrap_watcher(watch)
    except Postponed:
        progress.close()
        with suppress(ForgeError):
            write(WAITING)
        raise
    finally:
        progress.close()


class ProgressNote:
    """Calls `edit` with the newest state in a separate thread, at most once in `every` seconds."""

    def __init__(self, edit: Callable[[Progress], None], every: float) -> None:
        self._edit, self._every = edit, every
        self._due = time.monotonic() + every
        self._seen: Progress | None = None
        self._shown: Progress | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="sandpiper-progress", daemon=True)
        self._thread.start()

    def wrap_watcher(self, watch: Watcher) -> Watcher:
        """Return a watcher that calls `watch` first: if that ends the run, nothing is written."""

        def watch_and_show(event: Event) -> None:
            watch(event)
            if isinstance(event, Asking):
                self._write_note(Progress(event.iteration, event.max_iterations))
            elif isinstance(event, Answered) and self._seen:
                self._write_note(Progress(self._seen.iteration, self._seen.most, event.calls))

        return watch_and_show

    def close(self) -> None:
        """Begin no further edit, and wait for one in progress."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(LAST_EDIT)
        if self._thread.is_alive():
            log.warning("an edit of the progress did not end within %.0f s", LAST_EDIT)

    def _write_note(self, seen: Progress) -> None:
        with self._changed:
            self._seen = seen
            self._changed.notify()

    def _run(self) -> None:
        failures = 0
        for number in range(MOST):
            seen = self._take_next()
            if seen is None:
                return
            try:
                self._edit(seen)
            except ForgeError as error:
                log.warning("progress not told: %s", error)
                failures += 1
                if failures == FAILURES or not error.transient:
                    return
            self._due = time.monotonic() + self._every * (1 + number // 10)

    def _take_next(self) -> Progress | None:
        """Wait for the newest state to be due and new, and return it; None when the run is over."""
        with self._changed:
            while not self._closed:
                wait = self._due - time.monotonic()
                if self._seen != self._shown and wait <= 0:
                    self._shown = self._seen
                    return self._seen
                self._changed.wait(wait if wait > 0 else None)
            return None
