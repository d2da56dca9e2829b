"""The key of a failure is the failure: the same again has it, one with more or another has not."""

import pytest

from tests.unit.logs.failure_pairs import TOOLS, Pair, pairs
from worker.logs import trace
from worker.logs.excerpt import preview_log
from worker.logs.signature import make_signature
from worker.verdict.jobs import TOLD

PAIRS = tuple(pairs())


def _key(log: str) -> str:
    return make_signature(preview_log(trace.clean_trace(log.encode()), TOLD).split("\n")).key


def test_the_table_has_pairs_enough_of_each_kind() -> None:
    assert len(PAIRS) >= 60
    assert sum(tool.mixed != "" for tool in TOOLS) >= 10


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_two_logs_have_one_key_only_if_they_failed_for_the_same_reason(pair: Pair) -> None:
    one = _key(pair.one)
    assert one
    assert (one == _key(pair.other)) is pair.same


def test_the_text_names_the_failed_test_and_what_it_says() -> None:
    log = next(tool.log for tool in TOOLS if tool.name == "go")
    text = make_signature(log.split("\n")).text
    assert "TestTotal" in text
    assert "got 41, want 42" in text
