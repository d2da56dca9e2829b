"""What is loaded is checked against where it lay, and records of a wrong shape count as damaged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import HandClock
from worker.conversation.context import SessionKey
from worker.conversation.tiers import Preference
from worker.errors import StoreError, Unreadable
from worker.queue.project_slots import decode_owners
from worker.sessions.checked import SECOND_LOOK, list_set_aside, mark_place, remove_place
from worker.sessions.folder import Folder
from worker.sessions.projects import dump_preference, load_preference
from worker.sessions.store import SessionStore
from worker.turns.day_budget import Day, DayBudget, decode_day, encode_day

KEY = SessionKey(7, 42, "0123456789abcdef0123")


class Stored:
    """A store in a folder, with a clock that is moved by hand, and its files."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock()
        self.folder = folder
        self.store = SessionStore(Folder(folder, 1.0), self.clock.now)
        self.records = self.store.records

    def put(self, name: str, content: bytes) -> None:
        """Put a file there behind the store's back."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def get(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


KNOWN = "0123456789abcdef"
MOVES: list[tuple[str, str, bytes]] = [
    ("workers/one.json", "workers/two.json", b'{"worker": "one", "beat": 7}'),
    ("slots/7.json", "slots/8.json", b'{"owners": ["one/7"]}'),
    ("spend/7/2026-11-28.json", "spend/8/2026-11-28.json", encode_day(Day({"s/1": 2.5}))),
    ("preferences/7/3.json", "preferences/8/3.json", dump_preference(Preference("deep"))),
    (f"known/7/{KNOWN}.json", f"known/8/{KNOWN}.json", b'{"key": "0123456789abcdef"}'),
    ("known/7/knowledge.md", "known/8/knowledge.md", b"- 2026-11-22 1x ... | fact\n"),
    (
        f"sessions/7/42/{KEY.session_id}/0001/claim.json",
        f"sessions/8/42/{KEY.session_id}/0001/claim.json",
        b'{"owner": "one"}',
    ),
]


@pytest.mark.attack("memory")
@pytest.mark.parametrize(("name", "elsewhere", "content"), MOVES)
def test_a_record_that_lies_in_another_s_place_is_damaged(
    name: str, elsewhere: str, content: bytes, stored: Stored
) -> None:
    assert stored.records.create(name, content)
    read = stored.records.read(name, 65_536)
    assert read
    assert read.content == content, "its reader sees what its writer has written"
    stored.put(elsewhere, stored.get(name))
    with pytest.raises(Unreadable, match=f"it is of {name}"):
        stored.records.read(elsewhere, 65_536)
    stored.clock.sleep(SECOND_LOOK + 1)
    assert stored.records.read(elsewhere, 65_536) is None
    assert [each.partition("~")[0] for each in list_set_aside(stored.records)] == [elsewhere]
    assert stored.records.read(name, 65_536), "the other one is as it was"


@pytest.mark.parametrize(("name", "elsewhere", "content"), MOVES)
def test_a_record_of_an_earlier_version_is_believed_and_names_its_place_when_it_is_written_again(
    name: str, elsewhere: str, content: bytes, stored: Stored
) -> None:
    stored.put(name, content)
    read = stored.records.read(name, 65_536)
    assert read
    assert read.content == content
    assert stored.records.replace(name, content, read.version)
    assert stored.get(name) == mark_place(name, content) != content
    again = stored.records.read(name, 65_536)
    assert again
    assert again.content == content
    stored.records.write(name, content)
    assert stored.get(name) == mark_place(name, content), "it is named once"
    assert elsewhere not in stored.get(name).decode()


def test_an_object_without_fields_and_other_objects_stay_as_they_are() -> None:
    for name, content in (("slots/7.json", b"{}"), ("recent/1/x.json", b'{"a": 1}')):
        assert mark_place(name, content) == remove_place(name, content) == content


SLOTS: list[object] = [{}, {"owners": "one"}, {"owners": [1]}, {"owner": []}]
DAYS: list[object] = [
    {},
    {"turns": [], "older": 0, "told": []},
    {"turns": {"s/1": "2"}, "older": 0, "told": []},
    {"turns": {"s/1": -1}, "older": 0, "told": []},
    {"turns": {"s/1": True}, "older": 0, "told": []},
    {"turns": {"s/1": float("nan")}, "older": 0, "told": []},
    {"turns": {}, "older": None, "told": []},
    {"turns": {}, "older": 0, "told": {"1": 1}},
]
CHOICES: list[object] = [
    {"tier": 1},
    {"models": []},
    {"models": {"deep": "model"}},
    {"models": {"deep": {}}},
    {"set_at": "now"},
    {"forced": "yes"},
]
WRONG = [
    *[("slots/7.json", fields) for fields in SLOTS],
    *[("spend/7/2026-11-28.json", fields) for fields in DAYS],
    *[("preferences/7/3.json", fields) for fields in CHOICES],
]


@pytest.mark.attack("memory")
@pytest.mark.parametrize(("name", "fields"), WRONG)
def test_json_of_the_wrong_shape_is_damaged_and_said_not_empty(
    name: str, fields: object, stored: Stored
) -> None:
    stored.put(name, json.dumps(fields).encode())
    with pytest.raises(Unreadable, match="its fields are not those of such a record"):
        stored.records.read(name, 65_536)


def test_a_budget_whose_record_is_damaged_is_not_taken_for_an_unspent_one(stored: Stored) -> None:
    budget = DayBudget(stored.records, stored.clock, 5.0)
    budget.add_cost(7, "s", 1, 6.0)
    (name,) = [path for path in (stored.folder / "spend/7").iterdir()]
    name.write_bytes(b'{"turns": 6}')
    with pytest.raises(StoreError, match="is damaged"):
        budget.explain_used_up(7)


ROUND_TRIPS: list[tuple[str, bytes, Callable[[bytes], object]]] = [
    ("slots/7.json", b'{"owners": []}', decode_owners),
    ("spend/7/2026-11-28.json", encode_day(Day({"s/1": 2}, 0.5, (3,))), decode_day),
    ("spend/7/2026-11-28.json", encode_day(Day()), decode_day),
    ("preferences/7/3.json", b"{}", lambda data: load_preference(data, "here")),
    (
        "preferences/7/project.json",
        dump_preference(Preference("deep", is_forced=True, set_at=12)),
        lambda data: load_preference(data, "here"),
    ),
]


@pytest.mark.parametrize(("name", "content", "load"), ROUND_TRIPS)
def test_what_the_product_writes_is_of_the_right_shape(
    name: str, content: bytes, load: Callable[[bytes], object], stored: Stored
) -> None:
    stored.records.write(name, content)
    read = stored.records.read(name, 65_536)
    assert read
    assert load(read.content) == load(content)
