"""What is written to GitLab, and what writes it: the bot's account, its notes, the emoji on notes,
its issues, and jobs that run again; and what a list tells of a branch's pipeline."""

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


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A pipeline of a branch that has ended, as a list tells of it."""

    project_id: int
    branch: str
    pipeline_id: int
    sha: str
    has_passed: bool
    updated_at: str
    """GitLab's own text, "" if it says none."""


@dataclass(frozen=True, slots=True)
class EndedPipeline:
    """A pipeline of a project that has ended, as a list tells of it."""

    project_id: int
    project: str
    """The project's path."""
    pipeline_id: int
    sha: str
    source: str
    created_at: float
    """In epoch seconds."""
    updated_at: str
    """GitLab's own text, "" if it says none."""
    ref: str = ""
    status: str = ""
    default_branch: str = ""
    """The project's."""


@dataclass(frozen=True, slots=True)
class IssueText:
    """What one of the bot's issues is to say."""

    marker: Marker
    """What it is known by: `body` begins with it."""
    title: str
    """For a new issue; whoever changes it later is not corrected."""
    body: str
    page: str = ""
    """The project's page: links may lead below it."""
    is_over: bool = False
    began_at: float = 0.0
    """When the trouble began that it tells of (epoch seconds): a person who closed the issue before
    did not mean this trouble."""
    is_confidential: bool = False
    """Whether members alone may read it."""


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


class IncidentWriter(Protocol):
    """What is written about a red branch besides notes, with the write token: jobs that run again,
    and the bot's own issues. All raise ForgeError."""

    def retry_job(self, project_id: int, job_id: int) -> int | str:
        """Run a job again: return the id of the new job, or why GitLab does not do it.

        Nothing is sent a second time, unless GitLab has refused it for its rate. The caller has
        asked GitLab whether the job may run again, and keeps count.
        """
        ...

    def put_issue(self, project_id: int, issue: IssueText, iid: int = 0) -> int:
        """Make the bot's issue with this marker what `issue` says, and return its number.

        `iid` is its number if that is known; without it the issue is looked for, and made if it is
        not there and not over: 0 is returned if there is none. This may be repeated: nothing is
        written that stands there, and of several issues with the marker the oldest stays. An issue
        that a person has closed, moved or taken over by removing the marker is left to them.
        """
        ...
