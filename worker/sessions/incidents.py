"""What is known of watched branches and of the merge requests into them, in a store.

incidents/{project_id}/{branch}.json            a BranchRecord
incidents/{project_id}/{branch}/{mr_iid}.json   a RequestRecord
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from worker.incidents.record import BranchRecord, RequestRecord, name_branch
from worker.incidents.record_json import (
    MAX_BRANCH,
    MAX_REQUEST,
    RecordError,
    dump_branch,
    dump_request,
    load_branch,
    load_request,
)
from worker.sessions.layout import INCIDENTS, name_branch_record, parse_branch_record
from worker.sessions.objects import Objects
from worker.sessions.parsed import Kind, ParsedRecords

MOST_REQUESTS = 500
"""The most merge requests into a branch that are read: the newest ones."""

_READERS = 8
"""How many records are read at the same time: a bucket answers each of them after a while."""


class IncidentStore:
    """The branches' and merge requests' records in a store. All methods raise StoreError.

    A branch is given by its own name. One that is damaged is read as None, and logged; whoever
    would change it has to wait (Unreadable) until a second look sets it aside. What is
    `read_only` stores nothing, for dry runs: a change is computed and returned.
    """

    def __init__(
        self,
        objects: Objects,
        now: Callable[[], float] = time.time,
        *,
        read_only: bool = False,
    ) -> None:
        self._objects, self._read_only = objects, read_only
        self._records = ParsedRecords(objects, now, read_only=read_only)

    def read_branch(self, project_id: int, branch: str) -> BranchRecord | None:
        """Read what is known of a branch, or None."""
        return self._read_branch(name_branch_record(project_id, branch))

    def change_branch(
        self,
        project_id: int,
        branch: str,
        change: Callable[[BranchRecord | None], BranchRecord | None],
    ) -> BranchRecord | None:
        """Replace what is known of a branch by what `change` returns; None stands for nothing.

        Atomic across workers: `change` is called again if another one was faster. Returns what now
        stands: without the oldest, if it was too large. Raises RecordError if `change` returns the
        record of another branch.
        """
        name = name_branch_record(project_id, branch)
        return self._records.change(name, _BRANCH, change)

    def list_branches(self, project_id: int = 0) -> Iterator[BranchRecord]:
        """Read what is known of all branches, or of those of one project."""
        places = ((name, parse_branch_record(name)) for name in list(self._list_names(project_id)))
        names = iter([name for name, place in places if place and not place.mr_iid])
        with ThreadPoolExecutor(_READERS, "incidents") as readers:
            # A few at a time: records can be large.
            while some := list(islice(names, _READERS)):
                yield from filter(None, readers.map(self._read_branch, some))

    def read_request(self, project_id: int, branch: str, mr_iid: int) -> RequestRecord | None:
        """Read what is known of a merge request into a branch, or None."""
        return self._read_request(name_branch_record(project_id, branch, mr_iid))

    def find_request(self, name: str) -> RequestRecord | None:
        """Read the record of a merge request by its object's name; None for another object's."""
        place = parse_branch_record(name)
        return self._read_request(name) if place and place.mr_iid else None

    def change_request(
        self,
        project_id: int,
        branch: str,
        mr_iid: int,
        change: Callable[[RequestRecord | None], RequestRecord | None],
    ) -> RequestRecord | None:
        """As `change_branch`, for a merge request into the branch."""
        name = name_branch_record(project_id, branch, mr_iid)
        return self._records.change(name, _REQUEST, change)

    def list_requests(self, project_id: int, branch: str) -> tuple[RequestRecord, ...]:
        """Read what is known of the merge requests into a branch, the newest first."""
        prefix = name_branch_record(project_id, branch).removesuffix(".json") + "/"
        places = ((name, parse_branch_record(name)) for name in self._objects.list_names(prefix))
        found = sorted(((place.mr_iid, name) for name, place in places if place), reverse=True)
        with ThreadPoolExecutor(_READERS, "incidents") as readers:
            names = (name for _, name in found[:MOST_REQUESTS])
            return tuple(filter(None, readers.map(self._read_request, names)))

    def forget_request(self, project_id: int, mr_iid: int) -> int:
        """Remove what is known of a merge request, into whatever branch; return how many records
        that were."""
        places = ((name, parse_branch_record(name)) for name in list(self._list_names(project_id)))
        names = [name for name, place in places if place and place.mr_iid == mr_iid]
        for name in names if mr_iid and not self._read_only else ():
            self._objects.delete(name)
        return len(names) if mr_iid else 0

    def _list_names(self, project_id: int) -> Iterator[str]:
        return self._objects.list_names(f"{INCIDENTS}{project_id}/" if project_id else INCIDENTS)

    def _read_branch(self, name: str) -> BranchRecord | None:
        return self._records.read(name, _BRANCH)

    def _read_request(self, name: str) -> RequestRecord | None:
        return self._records.read(name, _REQUEST)


def _load_branch_of(name: str, data: bytes) -> BranchRecord:
    """Raises RecordError, also for the record of another branch than lay there."""
    record, place = load_branch(data), parse_branch_record(name)
    if place is None or (record.project_id, name_branch(record.branch)) != (
        place.project_id,
        place.branch,
    ):
        raise RecordError(f"the record of another branch: {record.project_id} {record.branch:.100}")
    return record


def _load_request_of(name: str, data: bytes) -> RequestRecord:
    """Raises RecordError, also for the record of another merge request than lay there."""
    record, place = load_request(data), parse_branch_record(name)
    if place is None or record.mr_iid != place.mr_iid:
        raise RecordError(f"the record of another merge request: !{record.mr_iid}")
    return record


_BRANCH = Kind(_load_branch_of, dump_branch, MAX_BRANCH)
_REQUEST = Kind(_load_request_of, dump_request, MAX_REQUEST)
