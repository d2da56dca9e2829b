"""A writer that checks every body before it is posted."""

from collections.abc import Callable

from worker.answer.finish import add_subject_hosts, finish_body
from worker.conversation.context import NoteRef, Subject
from worker.gitlab.ports import NoteWriter
from worker.verdict.diffs import Position


class CheckedNoteWriter:
    """Writes through `notes`; parts that are not allowed in a note become plain text, or a sentence
    in place of a secret.

    `hosts` are the places that links may lead to, besides the merge request's project; a part that
    `redact` would change is refused.
    """

    def __init__(
        self, notes: NoteWriter, hosts: frozenset[str], redact: Callable[[str], str]
    ) -> None:
        self._notes = notes
        self._hosts = hosts
        self._redact = redact
        self.find_note, self.list_own_notes = notes.find_note, notes.list_own_notes
        self.remove_copies, self.resolve_thread = notes.remove_copies, notes.resolve_thread

    def post_note(
        self,
        subject: Subject,
        body: str,
        discussion_id: str,
        *,
        thread: bool = False,
        at: Position | None = None,
        internal: bool = False,
    ) -> NoteRef:
        """See NoteWriter."""
        text = self._finish_body(subject, body)
        return self._notes.post_note(
            subject, text, discussion_id, thread=thread, at=at, internal=internal
        )

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """See NoteWriter."""
        self._notes.edit_note(subject, note, self._finish_body(subject, body), hurried=hurried)

    def _finish_body(self, subject: Subject, body: str) -> str:
        return finish_body(body, add_subject_hosts(subject, self._hosts), self._redact).body
