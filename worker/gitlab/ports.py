"""The boundaries to GitLab: what a job reads there, and what it writes, in small groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.conversation.context import NoteRef, Subject
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.safety.marker import Marker
from worker.verdict.diffs import Changes, Position


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


class PipelineReader(Protocol):
    """Reads which pipelines failed, and their merge requests, with the read token.

    All raise SourceError.
    """

    def find_failed_subject(self, trigger: PipelineFailed) -> Subject | str:
        """Find the merge request of a failed pipeline, or say why there is nothing to do."""
        ...

    def find_named_subject(
        self, project: str, mr_iid: int, pipeline_id: int | None
    ) -> Subject | str:
        """Like `find_failed_subject`, for a merge request that a human named.

        Without `pipeline_id`, its newest failed pipeline is taken. `project` is a path, or an id as
        text. It must match `gitlab.projects` if that is not empty. The bot need not be a member of
        it, because somebody who may ask has asked.
        """
        ...

    def find_passed_subject(self, trigger: PipelinePassed) -> Subject | str:
        """Find the merge request whose newest pipeline has passed, or say why there is none."""
        ...

    def find_failed_pipelines(self, since: float) -> Iterator[PipelineFailed | str]:
        """Find failed newest pipelines of open merge requests updated `since` (epoch seconds).

        It looks at the configured projects, or at all that the token is a member of, and yields
        the reason for each part that cannot be read. Bounded, and slow on purpose. Raises nothing.
        """
        ...

    def list_same_commit(self, subject: Subject) -> Sequence[int]:
        """List other pipelines of the merge request on the same commit, newest first; one that has
        failed may have passed since."""
        ...

    def find_end_time(self, trigger: PipelineFailed) -> float:
        """Find when the pipeline ended, in epoch seconds; 0.0 if GitLab does not say."""
        ...

    def explain_superseded(self, subject: Subject) -> str:
        """Say why the subject's pipeline is out of date, or "" if it is not. Raises nothing."""
        ...


class MergeRequestReader(Protocol):
    """Reads what a session is about, and what people wrote and changed there, with the read token.
    All raise SourceError."""

    def confirm_subject(self, subject: Subject) -> Subject | str:
        """Read again what a stored subject says of its merge request and pipeline, or say why the
        pipeline is not the merge request's."""
        ...

    def read_thread(self, project_id: int, mr_iid: int, discussion_id: str) -> Sequence[ThreadNote]:
        """Read the notes of a thread, oldest first."""
        ...

    def read_changes(self, subject: Subject) -> Changes | str:
        """Read the merge request's diff if the subject is still its head, or say why not."""
        ...

    def list_changed_paths(self, subject: Subject, new_sha: str) -> tuple[str, ...]:
        """List the files that differ between the subject's commit and another one."""
        ...

    def list_changes_since(self, subject: Subject) -> Sequence[str]:
        """List what has changed on the merge request since the session last looked, one line each.

        Raises nothing.
        """
        ...


class Permissions(Protocol):
    """Reads who may ask and who may read the answer, with the read token. All raise SourceError."""

    def may_command(self, project_id: int, user_id: int) -> bool:
        """Whether the user is a member of the project at or above `reply_min_access`."""
        ...

    def may_choose_tier(self, project_id: int, user_id: int) -> bool:
        """Whether the user is a member of the project at or above `tier_min_access`."""
        ...

    def is_members(self, subject: Subject) -> bool:
        """Whether the author is a member, by `fork_min_access`, and the branch is in no fork."""
        ...

    def is_bot(self, user_id: int) -> bool:
        """Whether GitLab says that the account is a bot's."""
        ...

    def explain_unserved(self, project_id: int) -> str:
        """Say why a project is not served (not listed, or no list and no membership), else ""."""
        ...

    def needs_internal_note(self, subject: Subject) -> bool:
        """Whether more people can read the merge request than may open its job logs."""
        ...


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
