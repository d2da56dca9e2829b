"""Which known errors resemble another one."""

from worker.verdict.jobs import FailingJob, Group, Hit, RuleMatch, Survey
from worker.verdict.known import (
    MAX_AGE,
    MOST_ENTRIES,
    ErrorWords,
    add_words,
    dump_words,
    find_similar,
    list_unexplained,
    load_words,
    read_group_words,
)

TICK = "TimeoutError: the ferry clock did not tick within the harbour limit"
NOW = 1_000_000_000.0


def read_words(text: str) -> frozenset[str]:
    return read_group_words(group("f", text))


def entry(key: str, text: str, seen_at: float = NOW) -> ErrorWords:
    return ErrorWords(key * 16, read_words(text), seen_at)


def group(key: str, text: str, **changes: object) -> Group:
    return Group(key * 16, text, (FailingJob(7, "unit"),), **changes)  # type: ignore[arg-type]


INDEX = [
    entry("a", TICK),
    entry("b", "AssertionError: the invoice total differs from the ledger"),
    entry("c", "ConnectionError: no route to the mirror host"),
]


def test_an_error_that_shares_most_of_its_rare_words_is_similar() -> None:
    other = read_words("TimeoutError: the ferry clock did not tick before the harbour closed")
    assert find_similar(other, INDEX) == ("a" * 16,)


def test_common_words_tell_nothing() -> None:
    crowd = [entry(f"{number:x}", f"{TICK} in stage{number:x}") for number in range(10, 16)]
    assert find_similar(read_words(TICK), crowd) == ()


def test_two_shared_words_are_not_enough() -> None:
    assert find_similar(read_words("ferry clock"), INDEX) == ()
    assert find_similar(read_words("ferry clock with many other rare words besides"), INDEX) == ()


def test_only_groups_of_which_nothing_is_known_are_looked_up() -> None:
    hit = Hit(1, NOW, NOW, NOW, "flaky", "It waits.", "", "")
    ruled = RuleMatch("disk-full", "infrastructure", "The disk is full.", "Retry.", 3, "text", True)
    known = (
        group("a", TICK, hit=hit),
        group("b", TICK, rule_match=ruled),
        Group("", "", (FailingJob(9, "lint"),)),
    )
    assert list_unexplained(Survey(known)) == ()
    assert list_unexplained(Survey((*known, group("c", TICK)))) == (group("c", TICK),)


def test_an_index_survives_the_store_and_drops_what_is_old() -> None:
    old = entry("d", TICK, NOW - MAX_AGE - 1)
    index = add_words([old, *INDEX], [group("e", TICK), group("a", TICK)], NOW + 5)
    assert [each.key[0] for each in index] == ["e", "a", "b", "c"]
    assert load_words(dump_words(index)) == tuple(index)


def test_an_index_fits_into_a_record_whatever_was_seen() -> None:
    words = " ".join(f"word_{number}_{'x' * 40}" for number in range(100))
    index = [ErrorWords(f"{number:064x}", read_words(words), NOW) for number in range(500)]
    data = dump_words(add_words(index, [], NOW))
    assert data
    assert len(data) < 64 * 1024
    assert len(load_words(data)) == MOST_ENTRIES


def test_what_is_no_index_is_read_as_none() -> None:
    for data in (
        None,
        b"",
        b"[",
        b"[]",
        b'{"a": 1}',
        b'{"aaaaaaaa": ["x", []]}',
        b'{"../x": [1, []]}',
    ):
        assert load_words(data) == ()
