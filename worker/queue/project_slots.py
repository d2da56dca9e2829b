"""One project's failures don't starve another's: how many of them are looked at at a time.

slots/{project_id}.json      who looks into a project's failures now, of all workers

A failure over its project's cap is held in the journal, and its message is done with. Whenever a
run of the project ends, and at every look of the rescuer, as many are queued again as may begin:
of each merge request the newest first, so that the older ones are found superseded by then.
What people ask for in comments is never held: somebody waits for it, and it may be a `stop`.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from worker.core.records import RECORD, Records
from worker.core.triggers import PipelineFailed, Trigger, trigger_id
from worker.errors import QueueError, StoreError
from worker.queue.journal import FOLDER, Entry, Journal, State, project_of
from worker.queue.leases import Leases

log = logging.getLogger("sandpiper.fair")

SLOTS = "slots/"
MOST_READ = 200
"""Entries that are read to find one that may begin."""

_ROUNDS = 8


class Gate:
    """Lets at most `cap` runs of one project in, over all workers on one store.

    `publish` puts a trigger on the queue that was accepted at a time (epoch seconds).
    """

    def __init__(
        self,
        records: Records,
        journal: Journal,
        leases: Leases,
        publish: Callable[[Trigger, float], None],
        cap: int,
    ) -> None:
        self._records, self._journal, self._leases = records, journal, leases
        self._publish, self._cap = publish, max(1, cap)

    @contextmanager
    def entered(self, entry: Entry) -> Iterator[bool]:
        """A slot of the entry's project until the block ends; False if it is held instead.

        The entry's owner must be alive for as long. Raises StoreError.
        """
        if not isinstance(entry.trigger, PipelineFailed):
            yield True
            return
        project = project_of(entry.trigger)
        if not self._take(project, entry.owner):
            self._journal.hold(entry, f"{self._cap} runs of project {project} are at work")
            # One of them may have ended before this was held.
            self._next(project)
            yield False
            return
        try:
            yield True
        finally:
            self._leave(project, entry.owner)
            self._next(project)

    def admit(self, project_id: int) -> int:
        """Queue as many of a project's held triggers as may begin. Raises StoreError, QueueError.

        Many may do so at once: what is queued for want of a better knowledge is held again.
        """
        free, admitted = self._free(project_id), 0
        names = self._journal.names(project_id) if free > 0 else ()
        for name in _in_order(names, project_id)[:MOST_READ]:
            if admitted >= free:
                break
            noted = self._journal.read(name)
            if noted and noted.entry.state is State.HELD and self._journal.admit(noted):
                self._publish(noted.entry.trigger, noted.entry.accepted_at)
                log.info("trigger %s may begin now", trigger_id(noted.entry.trigger))
                admitted += 1
        return admitted

    def _next(self, project_id: int) -> None:
        try:
            self.admit(project_id)
        except (StoreError, QueueError) as error:
            log.warning("the next one of project %d is left to the rescuer: %s", project_id, error)

    def _free(self, project_id: int) -> int:
        stored = self._records.read(_slots(project_id), RECORD)
        taken = owners(stored.content) if stored else []
        return self._cap - sum(map(self._leases.alive, taken))

    def _take(self, project_id: int, owner: str) -> bool:
        def with_it(taken: list[str]) -> list[str] | None:
            if owner in taken:
                return taken
            if len(taken) >= self._cap:
                taken = [each for each in taken if self._leases.alive(each)]
            return [*taken, owner] if len(taken) < self._cap else None

        return self._change(project_id, with_it)

    def _leave(self, project_id: int, owner: str) -> None:
        """Give the slot up; where that fails it is free once this worker looks for one, or ends."""
        try:
            self._change(project_id, lambda taken: [each for each in taken if each != owner])
        except StoreError as error:
            log.warning("a slot of project %d stays taken for now: %s", project_id, error)

    def _change(self, project_id: int, made: Callable[[list[str]], list[str] | None]) -> bool:
        """Whether `made` gave who is in from now on, rather than None."""
        name = _slots(project_id)
        # Each round is lost to one who got in or out, and no more than `cap` are in.
        for _ in range(_ROUNDS + 2 * self._cap):
            stored = self._records.read(name, RECORD)
            inside = made(owners(stored.content) if stored else [])
            if inside is None:
                return False
            content = json.dumps({"owners": inside}).encode()
            if stored is None:
                if self._records.create(name, content):
                    return True
            elif stored.content == content or self._records.replace(name, content, stored.version):
                return True
        raise StoreError(f"too many contend for {self._records.place(name)}", transient=True)


def _slots(project_id: int) -> str:
    return f"{SLOTS}{project_id}.json"


def owners(content: bytes) -> list[str]:
    """Who is in, by a record of slots; a damaged one says nobody, which costs a run too many."""
    try:
        found = json.loads(content)["owners"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _in_order(names: Iterable[str], project_id: int) -> list[str]:
    """The journal's failures of a project: the merge request that waits longest first, and its
    newest pipeline before its older ones. Without a merge request each stands for itself."""
    found = []
    for name in names:
        mr, _, leaf = name.removeprefix(f"{FOLDER}{project_id}/").partition("/")
        number = leaf.removeprefix("pipeline").partition("-")[0]
        if leaf.startswith("pipeline") and number.isdecimal():
            found.append((mr if mr != "0" else name, int(number), name))
    oldest: dict[str, int] = {}
    for whose, pipeline, _ in found:
        oldest[whose] = min(pipeline, oldest.get(whose, pipeline))
    return [each[2] for each in sorted(found, key=lambda each: (oldest[each[0]], -each[1]))]
