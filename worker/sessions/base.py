"""The store: sessions, what is known of failures, and the list of turns."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from worker.conversation.context import SessionKey
from worker.sessions.records import Records
from worker.stored_keys import KEY


@dataclass(frozen=True, slots=True)
class Claim:
    """Who works on a turn.

    `trigger_id` is the trigger that is served; `expires_at` is in epoch seconds. `fence` is how
    often the turn was taken over from a dead owner.
    """

    owner: str
    trigger_id: str
    expires_at: float = field(metadata={KEY: "until"})
    fence: int = 0


class SessionIndex(Protocol):
    """Lists which sessions exist, and where. All raise StoreError."""

    def find_session(self, session_id: str) -> SessionKey | None:
        """Find the key of a session by its id alone (or a unique beginning of it)."""
        ...

    def list_sessions(self, project_id: int = 0, mr_iid: int = 0) -> Iterator[SessionKey]:
        """List every stored session, or those of one project, or of one of its merge requests."""
        ...

    def find_latest_turn(self, key: SessionKey) -> int | None:
        """Find the highest turn that has a `context.json`, or None."""
        ...

    def find_last_change(self, key: SessionKey) -> float | None:
        """Find when the session's latest turn was committed, in epoch seconds.

        If no turn is committed, find when anything was last written; None if nothing was.
        """
        ...

    def describe_location(self, key: SessionKey, turn: int) -> str:
        """Say where the turn's objects are stored, for a human."""
        ...


class TurnContexts(Protocol):
    """The context of a turn: checkpoints while it runs, the commit at its end.

    All raise StoreError.
    """

    def read_context(self, key: SessionKey, turn: int) -> bytes:
        """The committed `context.json` of a turn."""
        ...

    def commit_turn(self, key: SessionKey, turn: int, context: bytes) -> None:
        """Write `context.json` if the turn has none. Raises TurnTaken if it has."""
        ...

    def write_checkpoint(self, key: SessionKey, turn: int, context: bytes) -> None:
        """Keep the unfinished turn's context, until the next one or `commit_turn`."""
        ...

    def read_checkpoint(self, key: SessionKey, turn: int) -> bytes | None:
        """The unfinished turn's last checkpoint, or None."""
        ...

    def remove_leftovers(self, key: SessionKey, turn: int) -> None:
        """Remove what is left by a worker that died right after `commit_turn`."""
        ...


class TurnFiles(Protocol):
    """What a turn's sandbox and its proofs leave for the next one. All raise StoreError."""

    def open_files(
        self, key: SessionKey, turn: int
    ) -> AbstractContextManager[Iterator[bytes]] | None:
        """The chunks of a turn's `sandbox.tar.gz`, or None if it has none."""
        ...

    def write_files(self, key: SessionKey, turn: int, chunks: Iterable[bytes]) -> int:
        """Store `sandbox.tar.gz` from a stream, before the turn is committed. Returns its bytes."""
        ...

    def write_evidence(self, key: SessionKey, turn: int, record: bytes) -> None:
        """Keep the evidence that proves quotes. Raises TurnTaken once the turn is committed."""
        ...

    def read_evidence(self, key: SessionKey, turn: int) -> bytes | None:
        """The newest evidence that `write_evidence` kept in this turn or before, or None."""
        ...


class TurnClaims(Protocol):
    """Who works on a turn, and who wants it to end. All raise StoreError."""

    def claim_turn(
        self, key: SessionKey, turn: int, claim: Claim, now: float, over: Claim | None = None
    ) -> Claim | None:
        """Take the turn for `claim.owner`; None on success, else the claim that holds it.

        A claim past its `expires_at` is taken over, and so is `over`, whose owner was found dead.
        Atomic across workers.
        """
        ...

    def find_holder(self, key: SessionKey, turn: int, now: float) -> Claim | None:
        """Find who works on the turn, or None."""
        ...

    def release_turn(self, key: SessionKey, turn: int, claim: Claim) -> None:
        """Give up the turn, if `claim` still holds it."""
        ...

    def request_stop(self, key: SessionKey, turn: int, reason: str) -> None:
        """Ask whoever works on the turn to end it. The first reason is kept."""
        ...

    def read_stop_reason(self, key: SessionKey, turn: int) -> str:
        """Read the reason given to `request_stop`, or ""."""
        ...


class TurnFollowUps(Protocol):
    """What came after a committed turn: its pipeline, and votes. All raise StoreError."""

    def write_aftermath(self, key: SessionKey, turn: int, after: bytes) -> None:
        """Keep what became of a committed turn's pipeline, as `after.json`. The first is kept."""
        ...

    def read_aftermath(self, key: SessionKey, turn: int) -> bytes | None:
        """Read what `write_aftermath` has kept, or None."""
        ...

    def read_feedback(self, key: SessionKey, turn: int) -> bytes | None:
        """Read what `change_feedback` has kept, or None."""
        ...

    def change_feedback(
        self, key: SessionKey, turn: int, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Replace a stored turn's `feedback.json` by the result of `change`, unless that is None.

        Atomic across workers: `change` is called again if another one was faster.
        """
        ...


class SessionRemoval(Protocol):
    """Removes sessions from the store. All raise StoreError."""

    def erase_session(self, key: SessionKey, before: int) -> None:
        """Remove all objects of a session except the commit of the turn `before` and its claim."""
        ...

    def remove_session(self, key: SessionKey) -> None:
        """Remove all objects of a session. The caller must hold its next turn."""
        ...


class SessionStore(
    SessionIndex, TurnContexts, TurnFiles, TurnClaims, TurnFollowUps, SessionRemoval, Protocol
):
    """Stores sessions, so that they outlive workers. All raise StoreError."""

    @property
    def records(self) -> Records:
        """The small records that all workers on this store share."""
        ...


class MemoryPart(StrEnum):
    """What is kept of a project as a whole: confirmed facts (`verdict.project_memory`), and
    the words of its known errors (`verdict.similar`)."""

    FACTS = "knowledge.md"
    WORDS = "words.index"


class KnownFailures(Protocol):
    """What is known of a project's errors, by their signatures' keys. All raise StoreError."""

    def read_entry(self, project_id: int, key: str) -> bytes | None:
        """Read the entry of an error, or None."""
        ...

    def change_entry(
        self, project_id: int, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Replace an entry by the result of `change`; None stands for no entry.

        Atomic across workers: `change` is called again if another one was faster.
        """
        ...

    def list_keys(self, project_id: int) -> tuple[str, ...]:
        """List the keys of all entries of a project, at most a few thousand."""
        ...

    def read_memory(self, project_id: int, part: MemoryPart = MemoryPart.FACTS) -> bytes | None:
        """Read a part of the project's memory, or None."""
        ...

    def change_memory(
        self,
        project_id: int,
        change: Callable[[bytes | None], bytes | None],
        part: MemoryPart = MemoryPart.FACTS,
    ) -> None:
        """Replace a part of the project's memory as `change_entry` does an entry."""
        ...


class RecentTurns(Protocol):
    """Turns by the time they began, for the operators. All raise StoreError."""

    def put_row(self, key: SessionKey, turn: int, at: float, row: bytes) -> None:
        """List a turn that began `at` (epoch seconds), or replace its row."""
        ...

    def list_newest(
        self, limit: int, before: str = "", project_id: int = 0
    ) -> Iterator[tuple[str, bytes]]:
        """List rows with their cursors, the newest first; only those after the cursor `before`.

        At most `limit` rows are read, and some thousand names.
        """
        ...
