"""Which jobs of each project the bot has run again, in a store.

retries/{project_id}.json     a ProjectRetries
"""

import time
from collections.abc import Callable, Iterator

from worker.sessions.layout import RETRIES, name_retries, parse_retries
from worker.sessions.objects import Objects
from worker.sessions.parsed import Kind, ParsedRecords
from worker.sessions.recent import make_filter
from worker.verdict.retries import (
    ProjectRetries,
    RetriedJob,
    RetrySum,
    dump_retries,
    load_retries,
    sum_retries,
)

MAX_BYTES = 2 * 1024 * 1024


class RetryStore:
    """What was run again. All methods raise StoreError."""

    def __init__(self, objects: Objects, now: Callable[[], float] = time.time) -> None:
        self._objects, self._records = objects, ParsedRecords(objects, now)

    def read(self, project_id: int) -> ProjectRetries | None:
        """Read what was run again in a project, None if nothing was."""
        return self._records.read(name_retries(project_id), _KIND)

    def read_all(self) -> Iterator[ProjectRetries]:
        """Read what was run again in each project."""
        for name in list(self._objects.list_names(RETRIES)):
            if found := self._records.read(name, _KIND):
                yield found

    def count(self, since: float, project: str) -> RetrySum:
        """Count what was run again `since` a time in the projects that match an operator's
        argument."""
        matches = make_filter(project)
        found = (each for each in self.read_all() if matches(each.project_id, each.project))
        return sum_retries(found, since)

    def claim(self, project_id: int, project: str, job: RetriedJob, since: float, most: int) -> str:
        """Write down that a job is about to run again, and return ""; or return why it must not
        (see `ProjectRetries.claim`). Of two workers at once, one gets ""."""
        refusal = ""

        def change(stored: ProjectRetries | None) -> ProjectRetries | None:
            nonlocal refusal
            claimed = (stored or ProjectRetries(project_id, project)).claim(job, since, most)
            refusal = claimed if isinstance(claimed, str) else ""
            return stored if isinstance(claimed, str) else claimed

        self._records.change(name_retries(project_id), _KIND, change)
        return refusal

    def change(
        self, project_id: int, change: Callable[[ProjectRetries], ProjectRetries]
    ) -> ProjectRetries | None:
        """Replace what is known of a project, if anything is; one without a job is removed."""

        def change_stored(stored: ProjectRetries | None) -> ProjectRetries | None:
            changed = change(stored) if stored else None
            return changed if changed and changed.jobs else None

        return self._records.change(name_retries(project_id), _KIND, change_stored)


def _load(name: str, data: bytes) -> ProjectRetries:
    """Raises ValueError, also for what was another project's."""
    found = load_retries(data)
    if found.project_id != parse_retries(name):
        raise ValueError(f"what was run again in project {found.project_id}")
    return found


_KIND = Kind(_load, dump_retries, MAX_BYTES)
