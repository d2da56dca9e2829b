"""Limits how many failures of one project run at the same time, so that other projects get workers.

slots/{project_id}.json          the owners of the runs of a project's failures, of all workers
slots/{project_id}-branch.json   the owner of the run that may pay for a look at one of its branches

A failure over its project's limit is held in the journal and needs no message. Whenever a run of
the project ends, and each time recovery runs, as many held failures are queued again as may begin.
The newest failure of a merge request comes first, so that older ones turn out to be superseded.
Comments are never held: somebody waits for the answer, and the comment may be a `stop`. Nor is the
end of a branch's pipeline: hundreds of merge requests' failures may wait for what it says. Only the
analysis of a branch costs like that of a failure; a project has one at a time, beside its others.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from worker.conversation.triggers import PipelineFailed, Trigger, trigger_id
from worker.errors import QueueError, StoreError, Unreadable
from worker.queue.journal import FOLDER, Entry, Journal, State, get_project_id, name_entry
from worker.queue.leases import Leases
from worker.sessions.objects import RECORD, Records, update_record

log = logging.getLogger("sandpiper.slots")

SLOTS = "slots/"
MOST_READ = 200
"""The most entries that are read to find those that may begin."""

_ROUNDS = 8


class ProjectSlots:
    """Allows `cap` runs of a project's failures at the same time, over all workers on one store.

    `publish` queues a trigger; it also takes the time when that was accepted (epoch seconds).
    """

    def __init__(
        self,
        records: Records,
        journal: Journal,
        leases: Leases,
        publish: Callable[[Trigger, float], None],
        cap: int,
        most_read: int = MOST_READ,
    ) -> None:
        self._records, self._journal, self._leases = records, journal, leases
        self._publish, self._cap = publish, max(1, cap)
        self._most_read = most_read
        self._parked: dict[int, set[str]] = {}
        """The names that were parked when they were read, which need not be read at every look."""

    @contextmanager
    def hold_slot(self, entry: Entry) -> Iterator[bool]:
        """Take a slot of the entry's project until the block ends.

        Yields False if there is none; the entry is held then. The entry's owner must stay alive
        until the end of the block. Raises StoreError.
        """
        if not isinstance(entry.trigger, PipelineFailed):
            yield True
            return
        project = get_project_id(entry.trigger)
        if not self._take_slot_or_hold(entry, project):
            # A slot may have become free before the entry was held.
            self._queue_next(project)
            yield False
            return
        try:
            yield True
        finally:
            self._give_back(_record_name(project), entry.owner, self._cap)
            self._queue_next(project)

    @contextmanager
    def hold_branch_slot(self, entry: Entry) -> Iterator[bool]:
        """Take the project's one slot for the analysis of a branch until the block ends.

        Yields False if another run has it; nothing is held back then. The entry's owner must stay
        alive until the end of the block. Raises StoreError; the entry is released then.
        """
        name = f"{SLOTS}{get_project_id(entry.trigger)}-branch.json"
        try:
            is_taken = self._take_slot(name, entry.owner, 1)
        except StoreError:
            self._release(entry)
            raise
        try:
            yield is_taken
        finally:
            if is_taken:
                self._give_back(name, entry.owner, 1)

    def queue_held(self, project_id: int) -> int:
        """Queue as many of a project's held triggers as may begin, and return how many.

        Several workers may do so at once: a trigger over the limit is held again. Raises StoreError
        or QueueError.
        """
        stored, admitted = None, 0
        with suppress(Unreadable):
            stored = self._records.read(_record_name(project_id), RECORD)
        owners = decode_owners(stored.content) if stored else []
        free = self._cap - sum(map(self._leases.is_alive, owners))
        if free <= 0:
            return 0
        # Entries that are known to be parked stay for weeks and would keep the later ones from
        # being read.
        parked = self._parked.get(project_id, set())
        failures = _sort_failures(self._journal.list_names(project_id), project_id)
        names = [name for name in failures if name not in parked]
        for name in names[: self._most_read]:
            if admitted >= free:
                return admitted
            admitted += self._queue_if_held(name, project_id)
        if len(names) <= self._most_read:
            # All were read, so there is time to read the parked ones again: one may be open by now.
            self._parked.pop(project_id, None)
        return admitted

    def _take_slot_or_hold(self, entry: Entry, project_id: int) -> bool:
        """Take a slot, or hold the entry if there is none. Raises StoreError: the entry is released
        then, because an owner without a run would count as a dead one."""
        try:
            if self._take_slot(_record_name(project_id), entry.owner, self._cap):
                return True
            self._journal.hold_entry(entry, f"{self._cap} runs of project {project_id} are at work")
        except StoreError:
            self._release(entry)
            raise
        self._parked.get(project_id, set()).discard(name_entry(entry.trigger))
        return False

    def _release(self, entry: Entry) -> None:
        with suppress(StoreError):
            self._journal.release_entry(entry)

    def _take_slot(self, name: str, owner: str, cap: int) -> bool:
        """Whether `owner` has one of the `cap` slots of a record now."""

        def add_owner(owners: list[str]) -> list[str] | None:
            if owner in owners:
                return owners
            if len(owners) >= cap:
                owners = [each for each in owners if self._leases.is_alive(each)]
            return [*owners, owner] if len(owners) < cap else None

        return self._update_owners(name, cap, add_owner)

    def _give_back(self, name: str, owner: str, cap: int) -> None:
        try:
            self._update_owners(name, cap, lambda owners: [x for x in owners if x != owner])
        except StoreError as error:  # it becomes free when this run's owner is dead
            log.warning("a slot of %s stays taken for now: %s", name, error)

    def _queue_if_held(self, name: str, project_id: int) -> bool:
        """Queue an entry if it is held and no other worker is faster."""
        stored = self._journal.read_entry(name)
        if stored and stored.entry.state is State.PARKED:
            self._parked.setdefault(project_id, set()).add(name)
        if (
            stored is None
            or stored.entry.state is not State.HELD
            or not self._journal.open_held_entry(stored)
        ):
            return False
        self._publish(stored.entry.trigger, stored.entry.accepted_at)
        log.info("trigger %s may begin now", trigger_id(stored.entry.trigger))
        return True

    def _queue_next(self, project_id: int) -> None:
        try:
            self.queue_held(project_id)
        except (StoreError, QueueError) as error:
            log.warning("the next one of project %d is left to recovery: %s", project_id, error)

    def _update_owners(
        self, name: str, cap: int, change: Callable[[list[str]], list[str] | None]
    ) -> bool:
        """Write the owners that `change` returns for the present ones; False if it returns None."""
        is_changed = True

        def change_stored(content: bytes | None) -> bytes | None:
            nonlocal is_changed
            owners = change(decode_owners(content) if content else [])
            is_changed = owners is not None
            return json.dumps({"owners": owners}).encode() if is_changed else content

        # A round fails only if another owner came or went, and there are at most `cap` owners.
        rounds = _ROUNDS + 2 * cap
        try:
            update_record(self._records, name, change_stored, rounds=rounds)
        except Unreadable as error:
            # Too many runs for some minutes are better than none; and nothing is written over it.
            log.warning("the slots of %s are not counted: %s", name, error)
        return is_changed


def _record_name(project_id: int) -> str:
    return f"{SLOTS}{project_id}.json"


def decode_owners(content: bytes) -> list[str]:
    """Return the owners in a record of slots; none if it is damaged, which allows too many runs."""
    try:
        owners = json.loads(content)["owners"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    return [each for each in owners if isinstance(each, str)] if isinstance(owners, list) else []


def _sort_failures(names: Iterable[str], project_id: int) -> list[str]:
    """Sort the names of a project's failures: the merge request that waits longest comes first, and
    its newest pipeline before its older ones. A failure without merge request counts as its own."""
    failures = []
    for name in names:
        mr, _, leaf = name.removeprefix(f"{FOLDER}{project_id}/").partition("/")
        number = leaf.removeprefix("pipeline").partition("-")[0]
        if leaf.startswith("pipeline") and number.isdecimal():
            failures.append((mr if mr != "0" else name, int(number), name))
    oldest: dict[str, int] = {}
    for mr_name, pipeline, _ in failures:
        oldest[mr_name] = min(pipeline, oldest.get(mr_name, pipeline))
    return [each[2] for each in sorted(failures, key=lambda each: (oldest[each[0]], -each[1]))]
