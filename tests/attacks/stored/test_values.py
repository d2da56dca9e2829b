"""What is read of the store is of the type that the code counts on, or it is taken for damaged."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contexts import context
from tests.fakes import HandClock
from worker.clock import SystemClock
from worker.conversation import context_json
from worker.conversation.context import CacheMark, CallCost, NoteRef
from worker.conversation.decide import decide
from worker.conversation.folds import Fold, FoldKind
from worker.conversation.limits import Limits
from worker.conversation.messages import Usage
from worker.conversation.tiers import TierChoice
from worker.conversation.triggers import Replied
from worker.errors import Unreadable
from worker.pages.render import render_page
from worker.pages.view import StoredTurn, build_page
from worker.queue.journal import Entry, State, decode_entry, encode_entry
from worker.queue.leases import Registration
from worker.queue.project_slots import decode_owners
from worker.sessions import recent
from worker.sessions.checked import SECOND_LOOK
from worker.sessions.folder import FolderStore
from worker.sessions.objects import RECORD
from worker.sessions.projects import load_preference
from worker.turns.day_budget import decode_day
from worker.verdict.aftermath import load_aftermath, load_feedback
from worker.verdict.known import (
    KnownFailure,
    PastFinding,
    Sighting,
    dump_known_failure,
    load_known_failure,
    load_words,
)

pytestmark = pytest.mark.attack("stored values")

HOSTILE: tuple[Any, ...] = (
    *(None, True, "", "x", "\ud800", "9" * 5000, [], [[]], [None], {}, {"a": {}}),
    *(0, -1, 1.5, 1e308, 10**18, 10**400, float("nan"), float("inf"), float("-inf")),
)
DEEP = (b"[" * 60_000, b'{"a":' * 12_000)

FIRST_SCHEMA = Path(__file__).parents[2] / "unit/conversation/schema_1.json"
SESSION = replace(
    context_json.load_context(FIRST_SCHEMA.read_bytes()),
    calls=(CallCost(0, "p/m", Usage(1, 2, 3, 4, 5), 0.25),),
    cache=CacheMark(3, 99.5),
    note=NoteRef(5, "d" * 40, "https://gitlab.example/x#note_5"),
    folds=(Fold(FoldKind.WINDOW, 0, 1, 1),),
    tier=TierChoice("deep", "p/m"),
)

KNOWN = KnownFailure(
    *("0123456789abcdef", 1.0, 2.0, 1, (Sighting(1, 2, 3, "unit", "abc", 1.0),)),
    PastFinding("flaky", "It raced.", "Wait.", "https://gitlab.example/x", 1, 2.0),
)


def use_session(data: bytes) -> None:
    try:
        found = context_json.load_context(data)
    except context_json.HistoryError:
        return
    if found.messages:  # what stands for a deleted session has none
        decide(found, Limits(), now=1e9)
    render_page(
        "session", page=build_page([StoredTurn(found)], Limits()), sig="", is_operator=False
    )
    context_json.dump_context(found)


def use_row(data: bytes) -> None:
    try:
        recent.dump_row(recent.load_row(data))
    except recent.RowError:
        return


def use_entry(data: bytes) -> None:
    try:
        encode_entry(decode_entry(data))
    except (TypeError, ValueError, RecursionError):
        return  # what `Journal.read_entry` takes for damaged


USES: dict[str, tuple[Callable[[bytes], object], dict[str, Any]]] = {
    "session": (use_session, json.loads(context_json.dump_context(SESSION))),
    "row": (use_row, json.loads(recent.dump_row(recent.make_row(context())))),
    "trigger": (use_entry, json.loads(encode_entry(Entry(Replied(7, 3, "d", 9), State.OPEN)))),
    "aftermath": (
        load_aftermath,
        {"became": "fixed", "pipeline_id": 3, "sha": "abc", "at": 1.0, "changed": ["a"]},
    ),
    "votes": (load_feedback, {"votes": {"a": "up"}, "at": 1.0}),
    "known failure": (
        lambda data: load_known_failure(data, "0123456789abcdef"),
        json.loads(dump_known_failure(KNOWN)),
    ),
    "words": (load_words, {"0123456789abcdef": [1.0, ["abcd"]]}),
    "preference": (
        lambda data: load_preference(data, "here"),
        {"tier": "deep", "set_at": 1.0, "models": {"deep": {"model": "a", "reasoning": "b"}}},
    ),
    "day": (decode_day, {"turns": {"a": 1.0}, "older": 1.0, "told": [1]}),
    "owners": (decode_owners, {"owners": ["a"]}),
}


def list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within a JSON value."""
    yield place
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from list_places(inner, (*place, key))
    for index, inner in enumerate(value) if isinstance(value, list) else ():
        yield from list_places(inner, (*place, index))


def replace_at(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """A copy of `value` with `new` at a place."""
    if not place:
        return new
    made = inner = copy.deepcopy(value)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return made


@pytest.mark.parametrize("name", USES)
def test_no_value_of_a_stored_record_breaks_who_reads_it(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    use, good = USES[name]
    use(json.dumps(good).encode())
    tried = 0
    for place in list_places(good):
        for value in HOSTILE:
            use(json.dumps(replace_at(good, place, value)).encode())
            tried += 1
    for data in DEEP:
        use(data)
    record_property("tried", tried)


def test_a_session_is_what_it_was_after_the_look_at_its_types() -> None:
    assert context_json.load_context(context_json.dump_context(SESSION)) == SESSION


@pytest.mark.parametrize("content", [b"", b"null", b"[]", *DEEP])
def test_a_worker_whose_record_is_overwritten_counts_as_lost_at_the_second_look(
    tmp_path: Path, content: bytes
) -> None:
    clock = HandClock()
    records = FolderStore(tmp_path, now=clock.now).records
    ours = Registration("w1", records, SystemClock())
    stored = records.read("workers/w1.json", RECORD)
    assert stored is not None
    assert records.replace("workers/w1.json", content, stored.version)
    with pytest.raises(Unreadable):
        ours.send_heartbeat()
    assert not ours.is_lost
    clock.time += SECOND_LOOK
    ours.send_heartbeat()
    assert ours.is_lost
