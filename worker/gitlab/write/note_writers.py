"""Writers of notes that are not GitLab's API: one checks every body before it is posted, the one of
`--dry-run` posts nothing."""

from collections.abc import Callable, Iterator
from itertools import count

from worker.answer.finish import add_subject_hosts, finish_body
from worker.conversation.context import NoteRef, Subject
from worker.errors import ForgeError
from worker.gitlab.ports import NoteWriter, OwnNote, Votes
from worker.safety.markdown import Marker, find_marker
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


class DryRunWriter:
    """Keeps notes in memory."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._bodies: dict[int, str] = {}
        self._refs: dict[tuple[int, int, str], list[NoteRef]] = {}

    def get_user_id(self) -> int:
        """Return 0: no user of GitLab has this id."""
        return 0

    def get_user_name(self) -> str:
        """Return "": nobody can mention a dry run."""
        return ""

    def find_note(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """Return the note kept here that begins with `marker`."""
        for ref in self._refs.get(_make_key(subject, discussion_id), []):
            if find_marker(self._bodies[ref.note_id]) == marker:
                return ref
        return None

    def list_own_notes(self, subject: Subject) -> Iterator[OwnNote]:
        """Yield the notes kept here, newest first; a dry run changes no notes on GitLab."""
        for ref in reversed(self._refs.get(_make_key(subject, ""), [])):
            if marker := find_marker(self._bodies[ref.note_id]):
                yield OwnNote(ref, marker, self._bodies[ref.note_id])

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
        """Keep a note."""
        ref = NoteRef(next(self._numbers), discussion_id, internal=internal)
        self._refs.setdefault(_make_key(subject, discussion_id), []).append(ref)
        self._bodies[ref.note_id] = body
        return ref

    def remove_copies(
        self, subject: Subject, marker: Marker, kept: NoteRef, *, older: bool = False
    ) -> int:
        """Return 0: no note is kept here twice."""
        return 0

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """Replace a note's body. Raises ForgeError if it was not posted here."""
        if note.note_id not in self._bodies:
            text = f"note {note.note_id}: not found among the notes of this dry run"
            raise ForgeError(text, status=404)
        self._bodies[note.note_id] = body

    def resolve_thread(self, subject: Subject, note: NoteRef) -> None:
        """Do nothing: a dry run begins no threads."""

    def acknowledge_note(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Do nothing: a dry run leaves no reaction."""

    def read_votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """Return None: nobody sees the notes of a dry run."""
        return None

    def remove_acknowledgement(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Do nothing: there is no reaction to remove."""

    def get_body(self, note: NoteRef) -> str:
        """Return the current body of a note."""
        return self._bodies[note.note_id]


def _make_key(subject: Subject, discussion_id: str) -> tuple[int, int, str]:
    return subject.project_id, subject.mr_iid, discussion_id
