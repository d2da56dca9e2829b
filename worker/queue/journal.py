"""Keeps every accepted trigger until it has ended, so that none is lost with a worker or a broker.

journal/{project_id}/{mr_iid}/{kind}{number}-{trigger_id}.json

A trigger of no merge request, or of one that is not known yet, is at `mr_iid` 0. An entry is
created before the trigger is accepted, and removed when its run has ended in a note or
a stated reason. A trigger that cannot end stays as a parked entry until somebody looks at it. An
entry names the worker that runs the trigger; if that worker dies, another one takes the trigger
over. A trigger is given up once the blame for such deaths comes to MOST_BLAME.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from worker.clock import Clock
from worker.conversation.triggers import (
    BranchEnded,
    PipelineFailed,
    Reacted,
    Replied,
    Trigger,
    from_message,
    to_message,
    trigger_id,
)
from worker.errors import StoreError, Unreadable
from worker.queue.leases import Leases
from worker.sessions import checked
from worker.sessions.objects import RECORD, Records, Stored
from worker.stored_keys import KEY, from_stored, pick_known, to_stored

log = logging.getLogger("sandpiper.journal")

FOLDER = "journal/"
MOST_BLAME = 3.0
"""The blame for deaths of workers with which a trigger is given up: its next run only reports that.
The death of a worker that ran nothing else is a blame of 1."""

LEAST_BLAME = 0.375
"""The blame of each run for a death that many share: nobody knows which of them it was, but eight
such deaths are no chance."""

DOUBT = 600.0
"""Seconds for which an answer that ends a trigger, and may pass, has to stay the same."""

LEAST_LOOKS = 3
"""How many runs must have got it before: a clock that jumps ahead proves nothing."""

_ROUNDS = 8
_SCHEMA, _FIRST_SCHEMA = 2, 1
"""Entries of earlier kinds are written as before: an earlier version works on them. It leaves those
of later kinds alone, which it would take for damaged ones otherwise."""


class _NewerSchema(ValueError):
    """An entry was written by a newer version."""


class NotTaken(Exception):
    """A trigger is not to run now; says why."""


class State(StrEnum):
    """The state of a trigger."""

    OPEN = "open"
    WAITING = "waiting"
    HELD = "held"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class Entry:
    """One trigger. Times are in epoch seconds by the writer's clock."""

    trigger: Trigger
    state: State
    owner: str = ""
    """The worker that runs it, or if it is WAITING, the one that will begin it again at `due`; ""
    is nobody. A HELD one begins when its project has a free slot."""
    deaths: int = 0
    """How many owners died; a run that an unexpected exception ended counts as a death."""
    blame: float = 0.0
    """This trigger's share in these deaths."""
    tries: int = 0
    """How many runs ended in a transient error."""
    requeues: int = field(default=0, metadata={KEY: "queued"})
    """How often recovery has queued it again."""
    accepted_at: float = 0.0
    due: float = 0.0
    reason: str = ""
    """Why it waits, is held or is parked."""
    broke: str = ""
    """The last unexpected exception that ended a run."""
    doubts: int = 0
    """How many runs since `doubted_at` all ended in an answer that may pass."""
    doubted_at: float = 0.0

    def has_to_give_up(self) -> bool:
        """Whether no further try is made, but for a run that only reports why."""
        return self.blame >= MOST_BLAME

    def has_given_up(self) -> bool:
        """Whether the run that was to report why has died as well."""
        return self.blame >= MOST_BLAME + 1.0

    def count_death(self, runs: int) -> "Entry":
        """Return the entry after the death of its owner, which had so many runs."""
        blame = self.blame + max(1.0 / max(1, runs), LEAST_BLAME)
        return replace(self, deaths=self.deaths + 1, blame=blame)

    def is_begun(self) -> bool:
        """Whether a worker has begun it and not ended: if that one is dead, it died at it."""
        return self.state is State.OPEN and bool(self.owner)

    def is_confirmed(self, now: float) -> bool:
        """Whether GitLab or the store has answered so for so long that it is true."""
        return self.doubts >= LEAST_LOOKS and now - self.doubted_at >= DOUBT


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it was read from the store, and the version that a replacement must find."""

    name: str
    entry: Entry
    version: str


class Journal:
    """The journal among a store's records. All methods raise StoreError."""

    def __init__(self, records: Records, leases: Leases, clock: Clock) -> None:
        self._records, self._leases, self._clock = records, leases, clock

    def add_trigger(self, trigger: Trigger) -> None:
        """Add a trigger that is about to be queued, unless it has an entry.

        An entry that was parked for an error begins afresh, as the error may be fixed by now. One
        whose workers died stays parked.
        """
        entry, name = Entry(trigger, State.OPEN, accepted_at=self._clock.now()), name_entry(trigger)
        if self._records.create(name, encode_entry(entry)):
            return
        stored = self.read_entry(name)
        if stored and stored.entry.state is State.PARKED and not stored.entry.deaths:
            self._replace_entry(stored, entry)

    def take_trigger(self, trigger: Trigger, owner: str, waited: float = 0.0) -> Entry:
        """Make `owner` the owner of a trigger, and return its entry. Raises NotTaken, too.

        A trigger without an entry gets one that was accepted `waited` seconds ago.
        """
        name = name_entry(trigger)
        for _ in range(_ROUNDS):
            stored = self.read_entry(name)
            if stored is None:
                accepted_at = self._clock.now() - waited
                entry = Entry(trigger, State.OPEN, owner, accepted_at=accepted_at)
                if self._records.create(name, encode_entry(entry)):
                    return entry
                continue
            taken = self._take_over(stored.entry, owner)
            if self._replace_entry(stored, taken):
                return taken
        place = self._records.describe_place(name)
        raise StoreError(f"too many contend for {place}, or a newer worker has it", transient=True)

    def remove_trigger(self, trigger: Trigger) -> None:
        """Remove the entry of a trigger that has ended."""
        self._records.delete(name_entry(trigger))

    def postpone_entry(self, entry: Entry, seconds: float, reason: str, *, failed: bool) -> None:
        """Record that this worker will begin the trigger again in `seconds` seconds."""
        tries = entry.tries + int(failed)
        due, timer = self._clock.now() + seconds, self._leases.get_timer_owner()
        self._update_owned(
            entry,
            State.WAITING,
            owner=timer,
            due=due,
            tries=tries,
            reason=reason[:1000],
            doubts=0,
            doubted_at=0.0,
        )

    def doubt_entry(self, entry: Entry, seconds: float, reason: str) -> None:
        """Record that a run ended in an answer that may pass, and is looked at again in `seconds`
        seconds. The first such look is remembered, whoever takes the next ones."""
        now, timer = self._clock.now(), self._leases.get_timer_owner()
        since = entry.doubted_at if entry.doubts else now
        self._update_owned(
            entry,
            State.WAITING,
            owner=timer,
            due=now + seconds,
            reason=reason[:1000],
            doubts=entry.doubts + 1,
            doubted_at=since,
        )

    def record_unexpected_error(self, entry: Entry, error: str) -> None:
        """Record that an unexpected exception ended the run; the entry stays open for recovery."""
        self._update_owned(entry, State.OPEN, broke=error)

    def release_entry(self, entry: Entry) -> None:
        """Give the trigger up between two steps of its run; any worker may continue it."""
        self._update_owned(entry, State.OPEN, owner="")

    def hold_entry(self, entry: Entry, reason: str) -> None:
        """Hold the trigger back until its project has a free slot."""
        self._update_owned(entry, State.HELD, owner="", reason=reason)

    def open_held_entry(self, stored: StoredEntry) -> bool:
        """Open a held entry. Of several callers, only the one to queue it gets True."""
        return self._replace_entry(
            stored, replace(stored.entry, state=State.OPEN, owner="", reason="")
        )

    def park_entry(self, entry: Entry, reason: str) -> None:
        """Record that the trigger cannot end and somebody must look at it."""
        log.error("trigger %s is parked: %s", trigger_id(entry.trigger), reason)
        self._update_owned(entry, State.PARKED, owner="", reason=reason[:1000])

    def reopen_entry(self, stored: StoredEntry, runs: int = 1) -> bool:
        """Open an abandoned entry, whose owner had so many runs when it died.

        Of several callers, only the one to queue it gets True.
        """
        entry = stored.entry
        if entry.is_begun():
            entry = entry.count_death(runs)
        requeues = entry.requeues + 1
        open_again = replace(entry, state=State.OPEN, owner="", requeues=requeues)
        return self._replace_entry(stored, open_again)

    def reopen_doubted(self, stored: StoredEntry) -> bool:
        """Open an entry that was parked for an answer that may have passed by now. Of several
        callers, only the one to queue it gets True."""
        fresh = replace(
            stored.entry, state=State.OPEN, owner="", reason="", doubts=0, doubted_at=0.0
        )
        return self._replace_entry(stored, fresh)

    def list_names(self, project_id: int = 0, mr_iid: int | None = None) -> Iterator[str]:
        """Yield the names of all entries, of a project's, or of a merge request's; of those that
        name no merge request, with 0."""
        place = f"{FOLDER}{project_id}/" if project_id else FOLDER
        return self._records.list_names(place if mr_iid is None else f"{place}{mr_iid}/")

    def read_entry(self, name: str) -> StoredEntry | None:
        """Read an entry; None if there is none that can be read.

        A damaged one stays, and is set aside if a second look, minutes later, finds the same (see
        `sessions.checked`). One of a newer version is left to the workers of that version: during
        an update, both run.
        """
        try:
            stored = self._records.read(name, RECORD)
            return self._decode_stored(name, stored) if stored else None
        except _NewerSchema as error:
            log.warning("%s is left alone: %s", self._records.describe_place(name), error)
        except Unreadable as error:
            log.warning("%s", error)
        return None

    def _decode_stored(self, name: str, stored: Stored) -> StoredEntry | None:
        """Decode an entry; None if it was set aside. Raises Unreadable before that."""
        try:
            return StoredEntry(name, decode_entry(stored.content), stored.version)
        except _NewerSchema:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            now = self._clock.now()
            checked.confirm_damage(self._records, name, stored.content, str(error)[:200], now)
            log.error("%s is damaged and set aside", self._records.describe_place(name))
            checked.set_aside(self._records, name, stored)
            return None

    def list_set_aside(self, project_id: int = 0, mr_iid: int = 0) -> Iterator[str]:
        """Yield the names of the damaged entries that were set aside, of all or of a merge
        request."""
        under = f"{project_id}/{mr_iid}/" if project_id else ""
        return checked.list_set_aside(self._records, f"{FOLDER}{under}")

    def bring_back(self, kept: str) -> bool:
        """Put an entry that was set aside back; False if it is not there, or another one is."""
        return checked.bring_back(self._records, kept, RECORD)

    def find_parked(self, most: int | None = None) -> Iterator[StoredEntry]:
        """Yield the parked entries among the first `most` entries."""
        for name in islice(self.list_names(), most):
            stored = self.read_entry(name)
            if stored and stored.entry.state is State.PARKED:
                yield stored

    def retry_parked(self, start: str) -> Trigger | None:
        """Open the parked trigger whose id begins with `start`; None unless there is exactly
        one."""
        matches = [
            each for each in self.find_parked() if trigger_id(each.entry.trigger).startswith(start)
        ]
        if len(matches) != 1 or not start:
            return None
        (stored,) = matches
        fresh = Entry(stored.entry.trigger, State.OPEN, accepted_at=self._clock.now())
        return fresh.trigger if self._replace_entry(stored, fresh) else None

    def has_pipeline(self, trigger: PipelineFailed | BranchEnded) -> bool:
        """Whether the pipeline has an entry of this kind, with or without a merge request."""
        named = name_entry(trigger).rpartition("-")[0]
        unnamed = f"{FOLDER}{trigger.project_id}/0/{trigger.kind}{trigger.pipeline_id}"
        return any(
            True for prefix in (named, unnamed) for _ in self._records.list_names(f"{prefix}-")
        )

    def has_earlier_reply(self, trigger: Replied) -> bool:
        """Whether an earlier comment of the same thread has not been answered yet."""
        prefix = f"{FOLDER}{trigger.project_id}/{trigger.mr_iid}/"
        for name in self._records.list_names(f"{prefix}reply"):
            number = name.removeprefix(f"{prefix}reply").partition("-")[0]
            if not number.isdecimal() or int(number) >= trigger.note_id:
                continue
            stored = self.read_entry(name)
            if stored is None or stored.entry.state is State.PARKED:
                continue
            earlier = stored.entry.trigger
            if isinstance(earlier, Replied) and earlier.discussion_id == trigger.discussion_id:
                return True
        return False

    def _take_over(self, entry: Entry, owner: str) -> Entry:
        if entry.state is State.PARKED:
            raise NotTaken(f"it is parked: {entry.reason}")
        if entry.is_begun():
            if self._leases.is_alive(entry.owner):
                raise NotTaken("it is being worked on already")
            entry = entry.count_death(1)
        return replace(entry, state=State.OPEN, owner=owner)

    def _update_owned(self, entry: Entry, state: State, **changes: Any) -> None:
        """Change an entry, unless another worker has taken it over."""
        stored = self.read_entry(name_entry(entry.trigger))
        if stored and stored.entry.owner == entry.owner:
            self._replace_entry(stored, replace(entry, state=state, **changes))

    def _replace_entry(self, stored: StoredEntry, entry: Entry) -> bool:
        return self._records.replace(stored.name, encode_entry(entry), stored.version)


def name_entry(trigger: Trigger) -> str:
    """Return the name of a trigger's entry; a merge request's entries have a common prefix."""
    number = trigger.note_id if isinstance(trigger, Replied | Reacted) else trigger.pipeline_id
    mr_iid = 0 if isinstance(trigger, BranchEnded) else trigger.mr_iid
    place = f"{FOLDER}{get_project_id(trigger)}/{mr_iid}/"
    return f"{place}{trigger.kind}{number}-{trigger_id(trigger)}.json"


def get_project_id(trigger: Trigger) -> int:
    """Return the merge request's project, or the pipeline's if that is not known."""
    if isinstance(trigger, Replied | Reacted | BranchEnded):
        return trigger.project_id
    return trigger.mr_project_id or trigger.project_id


def encode_entry(entry: Entry) -> bytes:
    """Return the bytes of a record."""
    schema = _SCHEMA if isinstance(entry.trigger, BranchEnded) else _FIRST_SCHEMA
    fields = to_stored(entry) | {"trigger": to_message(entry.trigger), "schema": schema}
    return json.dumps(fields, sort_keys=True).encode()


def decode_entry(content: bytes) -> Entry:
    """Return the entry of a record. Raises ValueError, TypeError or RecursionError."""
    fields = json.loads(content)
    if not isinstance(fields, dict) or not isinstance(fields.get("trigger"), dict):
        raise ValueError("it is not an object with a trigger")
    if fields.get("schema", 0) > _SCHEMA:
        raise _NewerSchema(f"its schema is newer than {_SCHEMA}")
    trigger, state = from_message(fields["trigger"]), State(str(fields.get("state")))
    fields.setdefault("blame", fields.get("deaths", 0.0))
    return from_stored(Entry, pick_known(Entry, fields) | {"trigger": trigger, "state": state})
