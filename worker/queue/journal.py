"""Every accepted trigger until it has ended, so that none is lost with a worker or a broker.

journal/{project_id}/{mr_iid}/{kind}{number}-{trigger_id}.json

A record is created before the trigger's work begins and removed when that has ended in a note or a
stated reason; what cannot be ended stays, parked, until somebody looks. Who works on it is named in
it, and may be taken for dead by `leases`: then the next one begins, and after MOST_DEATHS nobody.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from worker.core.ports import Clock
from worker.core.records import RECORD, Records
from worker.core.triggers import Reacted, Replied, Trigger, from_message, to_message, trigger_id
from worker.errors import StoreError
from worker.queue.leases import Leases

log = logging.getLogger("sandpiper.journal")

FOLDER = "journal/"
MOST_DEATHS = 3
"""Workers that a trigger may outlive; then its last run only says so."""

_ROUNDS = 8
_SCHEMA = 1


class State(StrEnum):
    """What is the matter with a trigger."""

    OPEN = "open"
    WAITING = "waiting"
    HELD = "held"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class Entry:
    """One trigger. Times are epoch seconds of whoever wrote them.

    `owner` works on it, or where it is WAITING has promised to begin it again at `due`; "" is
    nobody. HELD ones are begun when their project's turn comes. `deaths` counts owners that died,
    `tries` runs that ended in a passing error, `queued` how often it was put on the queue again.
    `broke` names the last error that nobody has foreseen; a run that it ends counts as a death.
    """

    trigger: Trigger
    state: State
    owner: str = ""
    deaths: int = 0
    tries: int = 0
    queued: int = 0
    accepted_at: float = 0.0
    due: float = 0.0
    reason: str = ""
    broke: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """An entry as it stands in the journal."""

    name: str
    entry: Entry
    version: str


class Journal:
    """The journal in a store's records. All methods raise StoreError."""

    def __init__(self, records: Records, leases: Leases, clock: Clock) -> None:
        self._records, self._leases, self._clock = records, leases, clock

    def accept(self, trigger: Trigger) -> None:
        """Note a trigger that is about to be queued."""
        entry = Entry(trigger, State.OPEN, accepted_at=self._clock.now())
        self._records.create(name_of(trigger), encode(entry))

    def begin(self, trigger: Trigger, owner: str, waited: float = 0.0) -> Entry | str:
        """Take the trigger for `owner`; its entry, or why there is nothing to do for it now.

        It was accepted `waited` seconds ago, unless the journal knows better.
        """
        name = name_of(trigger)
        for _ in range(_ROUNDS):
            noted = self.read(name)
            if noted is None:
                accepted_at = self._clock.now() - waited
                entry = Entry(trigger, State.OPEN, owner, accepted_at=accepted_at)
                if self._records.create(name, encode(entry)):
                    return entry
                continue
            taken = self._taken(noted.entry, owner)
            if isinstance(taken, str) or self._swap(noted, taken):
                return taken
        raise StoreError(f"too many contend for {self._records.place(name)}", transient=True)

    def settle(self, trigger: Trigger) -> None:
        """It has ended."""
        self._records.delete(name_of(trigger))

    def wait(self, entry: Entry, seconds: float, reason: str, *, failed: bool) -> None:
        """Its run ended for now; this worker's timer begins it again."""
        tries = entry.tries + int(failed)
        due, timer = self._clock.now() + seconds, self._leases.timer()
        self._own(entry, State.WAITING, owner=timer, due=due, tries=tries, reason=reason[:1000])

    def break_off(self, entry: Entry, error: str) -> None:
        """Its run is ended by an error that nobody has foreseen; who finds it begins it again."""
        self._own(entry, State.OPEN, broke=error)

    def hand_over(self, entry: Entry) -> None:
        """Its run ended between two steps; anybody may go on."""
        self._own(entry, State.OPEN, owner="")

    def hold(self, entry: Entry, reason: str) -> None:
        """It has to wait until others of its project have ended."""
        self._own(entry, State.HELD, owner="", reason=reason)

    def admit(self, noted: Noted) -> bool:
        """Open what is held, to be queued; True for the one of many callers who has to."""
        return self._swap(noted, replace(noted.entry, state=State.OPEN, owner="", reason=""))

    def park(self, entry: Entry, reason: str) -> None:
        """It cannot be ended; a human has to look."""
        log.error("trigger %s is parked: %s", trigger_id(entry.trigger), reason)
        self._own(entry, State.PARKED, owner="", reason=reason[:1000])

    def revive(self, noted: Noted) -> bool:
        """Make it nobody's, to be queued again; True for the one of many callers who has to."""
        entry = noted.entry
        died = entry.state is State.OPEN and bool(entry.owner)
        open_again = replace(
            *(entry,), state=State.OPEN, owner="", queued=entry.queued + 1,
            deaths=entry.deaths + int(died),
        )  # fmt: skip
        return self._swap(noted, open_again)

    def names(self, project_id: int = 0, mr_iid: int = 0) -> Iterator[str]:
        """The names of all entries, of a project's, or of one of its merge requests'."""
        place = f"{FOLDER}{project_id}/" if project_id else FOLDER
        return self._records.names(f"{place}{mr_iid}/" if project_id and mr_iid else place)

    def read(self, name: str) -> Noted | None:
        """One entry. One that is damaged is removed, for nothing can be made of it."""
        stored = self._records.read(name, RECORD)
        if stored is None:
            return None
        try:
            return Noted(name, decode(stored.content), stored.version)
        except (ValueError, RecursionError, OverflowError) as error:
            log.error("%s is damaged and removed: %s", self._records.place(name), error)
            self._records.delete(name)
            return None

    def parked(self, most: int | None = None) -> Iterator[Noted]:
        """The entries that a human has to look at, of the first `most`."""
        for name in islice(self.names(), most):
            noted = self.read(name)
            if noted and noted.entry.state is State.PARKED:
                yield noted

    def retry(self, start: str) -> Trigger | None:
        """Open the parked trigger whose id begins so; None if there is no such one, or several."""
        found = [one for one in self.parked() if trigger_id(one.entry.trigger).startswith(start)]
        if len(found) != 1 or not start:
            return None
        (noted,) = found
        fresh = Entry(noted.entry.trigger, State.OPEN, accepted_at=self._clock.now())
        return fresh.trigger if self._swap(noted, fresh) else None

    def before(self, trigger: Replied) -> bool:
        """Whether an older comment of the same thread has not been dealt with yet."""
        prefix = f"{FOLDER}{trigger.project_id}/{trigger.mr_iid}/"
        for name in self._records.names(f"{prefix}reply"):
            number = name.removeprefix(f"{prefix}reply").partition("-")[0]
            if not number.isdecimal() or int(number) >= trigger.note_id:
                continue
            noted = self.read(name)
            if noted and _ahead(noted.entry, trigger):
                return True
        return False

    def _taken(self, entry: Entry, owner: str) -> Entry | str:
        if entry.state is State.PARKED:
            return f"it is parked: {entry.reason}"
        died = entry.state is State.OPEN and bool(entry.owner)
        if died and self._leases.alive(entry.owner):
            return "it is being worked on already"
        return replace(entry, state=State.OPEN, owner=owner, deaths=entry.deaths + int(died))

    def _own(self, entry: Entry, state: State, **changes: Any) -> None:
        """Change an entry that is ours; if it was taken from us it is not ours to change."""
        noted = self.read(name_of(entry.trigger))
        if noted and noted.entry.owner == entry.owner:
            self._swap(noted, replace(entry, state=state, **changes))

    def _swap(self, noted: Noted, entry: Entry) -> bool:
        return self._records.replace(noted.name, encode(entry), noted.version)


def name_of(trigger: Trigger) -> str:
    """Where a trigger's entry lies; those of a merge request are neighbours."""
    number = trigger.note_id if isinstance(trigger, Replied | Reacted) else trigger.pipeline_id
    place = f"{FOLDER}{project_of(trigger)}/{trigger.mr_iid}/"
    return f"{place}{trigger.kind}{number}-{trigger_id(trigger)}.json"


def project_of(trigger: Trigger) -> int:
    """The merge request's project; where that is not known, the pipeline's."""
    if isinstance(trigger, Replied | Reacted):
        return trigger.project_id
    return trigger.mr_project_id or trigger.project_id


def encode(entry: Entry) -> bytes:
    """The record's bytes."""
    fields = asdict(entry) | {"trigger": to_message(entry.trigger), "schema": _SCHEMA}
    return json.dumps(fields, sort_keys=True).encode()


def decode(content: bytes) -> Entry:
    """The entry in a record. Raises ValueError, or what hostile JSON makes of it."""
    fields = json.loads(content)
    if not isinstance(fields, dict) or not isinstance(fields.get("trigger"), dict):
        raise ValueError("it is not an object with a trigger")
    return Entry(
        trigger=from_message(fields["trigger"]),
        state=State(str(fields.get("state"))),
        owner=str(fields.get("owner", "")),
        deaths=_count(fields, "deaths"),
        tries=_count(fields, "tries"),
        queued=_count(fields, "queued"),
        accepted_at=float(_number(fields, "accepted_at")),
        due=float(_number(fields, "due")),
        reason=str(fields.get("reason", "")),
        broke=str(fields.get("broke", "")),
    )


def _count(fields: Mapping[str, Any], name: str) -> int:
    return int(_number(fields, name))


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number")
    return value


def _ahead(entry: Entry, trigger: Replied) -> bool:
    same = isinstance(entry.trigger, Replied) and (
        entry.trigger.discussion_id == trigger.discussion_id
    )
    return same and entry.state is not State.PARKED
