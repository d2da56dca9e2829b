"""The note of a turn that may end without a result: then it says why, instead of promising one."""

import logging

from worker.answer.note import note
from worker.answer.note.older_note import fold_earlier
from worker.conversation.context import Subject
from worker.conversation.events import Event, Milestone, NotePlaced, Stage, Watcher
from worker.errors import ForgeError
from worker.safety.marker import Marker
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.turn")


def is_unfinished(body: str) -> bool:
    """Whether a note of ours still promises a result."""
    return note.is_placeholder(body)


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
