"""Notes in GitLab, and what writes them: the bot's account, its notes, the emoji on notes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from worker.conversation.context import NoteRef, Subject
from worker.safety.markdown import Marker
from worker.verdict.diffs import Position


@dataclass(frozen=True, slots=True)
class ThreadNote:
    """One note of a thread.

    `written_at` is in epoch seconds by GitLab's clock; `author` is the user name of `author_id`.
    """

    note_id: int
    author_id: int
    body: str
    system: bool = False
    internal: bool = False
    written_at: float = 0.0
    author: str = ""


@dataclass(frozen=True, slots=True)
class OwnNote:
    """One of the bot's own notes. `in_open_thread` says that its thread is not resolved."""

    ref: NoteRef
    marker: Marker
    body: str
    in_open_thread: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Votes:
    """People's 👍 (True) and 👎 on one of the bot's notes: each user's newest vote, by user id."""

    marker: Marker
    by_user: Mapping[int, bool]


class BotAccount(Protocol):
    """The user that owns the write token. All raise ForgeError."""

    def get_user_id(self) -> int:
        """Return the bot's own user id."""
        ...

    def get_user_name(self) -> str:
        """Return the bot's own user name, by which it is mentioned; "" if nobody can."""
        ...


class NoteWriter(Protocol):
    """The bot's own notes, with the write token. All raise ForgeError."""

    def find_note(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """Find the bot's own note with `marker`, even if the answer to `post_note` was lost."""
        ...

    def list_own_notes(self, subject: Subject) -> Iterator[OwnNote]:
        """List the bot's own notes on the merge request that begin with a marker, newest first.

        Bounded: only the newest notes of the merge request are read.
        """
        ...

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
        """Post a new note, in the thread `discussion_id` unless it is "".

        `thread` starts a resolvable thread with the note, `at` one on a line of the diff.
        `internal` is for a note outside threads, and starts none. If GitLab makes such a note
        public, that raises ForgeError.
        """
        ...

    def remove_copies(
        self, subject: Subject, marker: Marker, kept: NoteRef, *, older: bool = False
    ) -> int:
        """Remove the bot's notes with `marker` that are newer than `kept`, with `older` also those
        that are not, and return how many.

        GitLab may carry out a POST long after its client has given up on it and posted anew.
        """
        ...

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """Replace a note's body. `hurried` gives up after one attempt of a few seconds.

        Raises ForgeError with status 404 if the note is gone.
        """
        ...

    def resolve_thread(self, subject: Subject, note: NoteRef) -> None:
        """Resolve the thread that `note`, one of the bot's own, started. This is idempotent."""
        ...


class Reactions(Protocol):
    """The emoji on notes, with the write token. All raise ForgeError."""

    def acknowledge_note(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Show on somebody's note that it was seen. This is idempotent."""
        ...

    def remove_acknowledgement(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """Remove the acknowledgement, if it is there."""
        ...

    def read_votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """Read the votes on a note, without the bot's; None if the note is gone, or not the bot's.

        Bounded: only a limited number of reactions is read.
        """
        ...
