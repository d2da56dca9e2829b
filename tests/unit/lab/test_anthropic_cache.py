"""The simulated prompt cache against the rules of prompt caching."""

from typing import Any

import pytest

from tests.fakes import HandClock
from worker.lab.anthropic.protocol import PrefixCache

MARK = {"cache_control": {"type": "ephemeral"}}
LONG = "x" * 4000


def text(words: str, *, mark: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": words, **(MARK if mark else {})}


def body(*messages: tuple[str, list[dict[str, Any]]], **fields: Any) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-5-5",
        "system": fields.pop("system", "S"),
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "messages": [{"role": role, "content": content} for role, content in messages],
        **fields,
    }


def turns(count: int, *marks: int, block: str = LONG) -> dict[str, Any]:
    """`count` messages of one block each, marked at these positions."""
    roles = ("user", "assistant")
    return body(*((roles[n % 2], [text(f"{n}{block}", mark=n in marks)]) for n in range(count)))


@pytest.fixture
def cache() -> PrefixCache:
    return PrefixCache(now=HandClock().now)


def test_what_stands_behind_the_last_mark_is_not_written(cache: PrefixCache) -> None:
    billed = cache.account_body(turns(2, 0))

    assert billed.uncached_tokens > 1000
    assert billed.written_tokens > 1000


def test_a_prefix_below_the_minimum_is_silently_uncached(cache: PrefixCache) -> None:
    cache.account_body(turns(1, 0, block="short"))

    assert cache.account_body(turns(1, 0, block="short")).read_tokens == 0


def test_a_read_looks_back_twenty_positions_and_no_further(cache: PrefixCache) -> None:
    cache.account_body(turns(1, 0))

    assert (
        PrefixCache(now=cache.now, _entries=dict(cache._entries))
        .account_body(turns(20, 19))
        .read_tokens
        > 0
    )
    assert cache.account_body(turns(21, 20)).read_tokens == 0


def test_a_run_of_results_is_one_position(cache: PrefixCache) -> None:
    uses = [{"type": "tool_use", "id": f"c{n}", "name": "look", "input": {}} for n in range(40)]
    results: list[dict[str, Any]]
    results = [{"type": "tool_result", "tool_use_id": f"c{n}"} for n in range(40)]
    results[-1] |= MARK
    cache.account_body(turns(1, 0))
    wide = body(("user", [text(f"0{LONG}")]), ("assistant", uses), ("user", results))

    assert cache.account_body(wide).read_tokens > 0


@pytest.mark.parametrize(
    "change",
    [
        {"system": "other"},
        {"tools": []},
        {"model": "claude-opus-5-5"},
        {"tool_choice": {"type": "none"}},
    ],
)
def test_a_change_before_the_messages_loses_them(
    cache: PrefixCache, change: dict[str, Any]
) -> None:
    cache.account_body(turns(1, 0))

    assert cache.account_body({**turns(1, 0), **change}).read_tokens == 0


def test_tool_choice_loses_the_messages_but_not_the_system_text(cache: PrefixCache) -> None:
    request = {**turns(1, 0), "system": [text(LONG, mark=True)]}
    cache.account_body(request)
    billed = cache.account_body({**request, "tool_choice": {"type": "none"}})

    assert 1000 < billed.read_tokens < billed.total - 1000


def test_an_entry_lives_five_minutes_from_its_last_use() -> None:
    clock = HandClock()
    cache = PrefixCache(now=clock.now)
    cache.account_body(turns(1, 0))
    reads = []
    for pause in (200.0, 200.0, 301.0):
        clock.sleep(pause)
        reads.append(cache.account_body(turns(1, 0)).read_tokens > 0)

    assert reads == [True, True, False]
