"""How every store keeps what is known of failures (sessions.base.KnownFailures)."""

import json
from contextlib import suppress

import pytest

from tests.contract.places import WORKERS, Place, many
from worker.errors import StoreError

ERROR = "0123456789abcdef"
NAME = f"known/7/{ERROR}.json"


def test_an_entry_is_made_changed_and_removed(place: Place) -> None:
    assert place.store.known_failures.read_entry(7, ERROR) is None
    place.store.known_failures.change_entry(7, ERROR, lambda old: b"one" if old is None else b"?")
    assert place.store.known_failures.read_entry(7, ERROR) == b"one"
    place.store.known_failures.change_entry(7, ERROR, lambda old: (old or b"") + b" two")
    assert place.store.known_failures.read_entry(7, ERROR) == b"one two"
    assert place.names() == [NAME]
    place.store.known_failures.change_entry(7, ERROR, lambda old: None)
    assert place.store.known_failures.read_entry(7, ERROR) is None
    place.store.known_failures.change_entry(7, ERROR, lambda old: None)


def test_of_changes_at_once_none_is_lost(place: Place) -> None:
    stores = [place.store.known_failures for _ in range(WORKERS // 4)]

    def count(old: bytes | None) -> bytes:
        return json.dumps(json.loads(old or b"0") + 1).encode()

    def often(number: int) -> None:
        done = 0
        while done < 2:
            with suppress(StoreError):  # too many at once: it is tried again
                stores[number % len(stores)].change_entry(7, ERROR, count)
                done += 1

    many(often)
    assert json.loads(place.store.known_failures.read_entry(7, ERROR) or b"0") == 2 * WORKERS


def test_entries_are_listed_by_project(place: Place) -> None:
    for project, key in ((7, ERROR), (7, "f" * 16), (77, "a" * 16)):
        place.store.known_failures.change_entry(project, key, lambda old: b"x")
    place.put("known/7/not-a-key.txt", b"x")
    assert sorted(place.store.known_failures.list_keys(7)) == [ERROR, "f" * 16]
    assert place.store.known_failures.list_keys(8) == ()
    assert list(place.store.list_sessions()) == []


def test_what_is_no_key_or_too_large_is_refused(place: Place) -> None:
    for project, key in ((7, "../../etc"), (7, ""), (0, ERROR), (-1, ERROR), (7, "G" * 16)):
        with pytest.raises(StoreError):
            place.store.known_failures.read_entry(project, key)
    with pytest.raises(StoreError, match="larger than"):
        place.store.known_failures.change_entry(7, ERROR, lambda old: bytes(65 * 1024))
    place.put(NAME, bytes(70 * 1024))
    with pytest.raises(StoreError):
        place.store.known_failures.read_entry(7, ERROR)


def test_a_projects_memory_is_made_changed_and_removed_and_is_no_entry(place: Place) -> None:
    known = place.store.known_failures
    assert known.read_memory(7) is None
    known.change_memory(7, lambda old: b"- one\n" if old is None else b"?")
    known.change_memory(7, lambda old: (old or b"") + b"- two\n")
    assert known.read_memory(7) == b"- one\n- two\n"
    assert known.read_memory(77) is None
    assert place.names() == ["known/7/knowledge.md"]
    assert known.list_keys(7) == ()
    known.change_memory(7, lambda old: None)
    assert place.names() == []
    for project in (0, -1):
        with pytest.raises(StoreError):
            known.read_memory(project)


def test_of_memories_changed_at_once_none_is_lost(place: Place) -> None:
    def often(number: int) -> None:
        done = False
        while not done:
            with suppress(StoreError):  # too many at once: it is tried again
                place.store.known_failures.change_memory(
                    7, lambda old: (old or b"") + f"- {number}\n".encode()
                )
                done = True

    many(often)
    stored = place.store.known_failures.read_memory(7) or b""
    assert sorted(stored.splitlines()) == sorted(f"- {n}".encode() for n in range(WORKERS))
