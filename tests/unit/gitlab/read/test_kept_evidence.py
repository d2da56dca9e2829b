"""What systems beside GitLab have said is kept, packed, for as long as the session."""

import base64
import json
import os
import zlib

import pytest

from worker.errors import SourceError, StoreError
from worker.gitlab.read import evidence
from worker.gitlab.read.evidence import Evidence
from worker.safety.redacted_values import redact_bytes
from worker.verdict.finding import RequestFile, TaskStep

SCAN, OUTPUT = TaskStep("app-scan", "scan"), RequestFile("0a1b", "work/output.txt")


class Shelf:
    """A store that can be away."""

    def __init__(self) -> None:
        self.record: bytes | None = None
        self.away = False
        self.reads = 0

    def read(self) -> bytes | None:
        self.reads += 1
        return self._there(self.record)

    def write(self, record: bytes) -> None:
        self.record = self._there(record)

    def _there(self, record: bytes | None) -> bytes | None:
        if self.away:
            raise StoreError("away")
        return record


def attached(shelf: Shelf, max_kept: int = evidence.MAX_KEPT) -> Evidence:
    made = Evidence(max_kept)
    made.attach(shelf.read, shelf.write)
    return made


def keep(kept: Evidence, place: evidence.KeptPlace, text: bytes) -> None:
    kept.keep(place, redact_bytes(text, bytes), "https://x.example")


def test_what_was_kept_is_there_for_the_next_worker_and_turn() -> None:
    shelf = Shelf()
    keep(attached(shelf), SCAN, b"one\ntwo\n")
    later = attached(shelf)
    keep(later, OUTPUT, b"three\n")
    last = attached(shelf)
    assert (last.read_lines(SCAN), last.read_lines(OUTPUT)) == (["one", "two"], ["three"])
    assert last.link_lines(SCAN) == "https://x.example"
    assert shelf.reads == 3
    with pytest.raises(SourceError, match="not fetched in this session"):
        last.read_lines(TaskStep("app-scan", "other"))


def test_nothing_is_read_before_it_is_needed() -> None:
    shelf = Shelf()
    attached(shelf)
    assert shelf.reads == 0


def test_the_newest_document_of_a_place_counts() -> None:
    shelf = Shelf()
    for text in (b"one\n", b"one\ntwo\n"):
        keep(attached(shelf), SCAN, text)
    assert attached(shelf).read_lines(SCAN) == ["one", "two"]


def test_a_store_that_is_away_costs_only_the_turns_after() -> None:
    shelf = Shelf()
    keep(attached(shelf), SCAN, b"one\n")
    kept = attached(shelf)
    shelf.away = True
    keep(kept, OUTPUT, b"two\n")
    assert kept.read_lines(OUTPUT) == ["two"]
    shelf.away = False
    assert attached(shelf).read_lines(SCAN) == ["one"]
    assert kept.read_lines(SCAN) == ["one"]


def test_the_oldest_documents_go_where_there_are_too_many() -> None:
    kept = attached(Shelf(), 5_000)
    for number in range(4):
        keep(kept, TaskStep(f"task-{number}", "s"), base64.b64encode(os.urandom(1_500)))
    keep(kept, TaskStep("huge", "s"), os.urandom(6_000))
    for gone in ("task-0", "huge"):
        with pytest.raises(SourceError):
            kept.read_lines(TaskStep(gone, "s"))
    assert kept.read_lines(TaskStep("task-3", "s"))


def stored(data: str) -> bytes:
    return json.dumps({"documents": [{"place": "konflux app-scan scan", "data": data}]}).encode()


@pytest.mark.parametrize(
    "record",
    [b"", b"{", b"[]", stored("%%"), stored(base64.b64encode(b"no zlib").decode()), b"\xff"],
)
def test_a_damaged_record_is_no_evidence(record: bytes) -> None:
    shelf = Shelf()
    shelf.record = record
    with pytest.raises(SourceError):
        attached(shelf).read_lines(SCAN)


def test_a_record_that_unpacks_without_end_is_cut() -> None:
    shelf = Shelf()
    bomb = zlib.compress(b"x" * (evidence.MAX_DOCUMENT + 1_000_000))
    shelf.record = stored(base64.b64encode(bomb).decode())
    (line,) = attached(shelf).read_lines(SCAN)
    assert len(line) == evidence.MAX_DOCUMENT
