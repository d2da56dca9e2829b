"""What is shown of a long output fits, and says what is missing."""

import json
import random

import pytest

from worker.logs.preview import LIMIT, head_and_tail, most_shown


def test_what_fits_is_shown_as_it_is() -> None:
    assert head_and_tail("one\ntwo\n") == "one\ntwo\n"
    assert head_and_tail("x" * LIMIT) == "x" * LIMIT


def test_a_remainder_of_a_quarter_is_shown_too() -> None:
    assert most_shown(LIMIT) == 5120
    assert head_and_tail("x" * 5120) == "x" * 5120
    assert 4000 < len(head_and_tail("x" * 5121)) <= LIMIT


def test_a_long_text_keeps_whole_lines_of_its_head_and_tail() -> None:
    text = "".join(f"line {number:05}\n" for number in range(5_000))
    head, _, tail = head_and_tail(text).partition("[…")
    assert text.startswith(head)
    assert head.endswith("\n")
    tail = tail.split("\n", 1)[1]
    assert text.endswith(tail)
    assert tail.startswith("line ")
    assert len(head) > 1_800
    assert len(tail) > 1_800


def test_the_mark_counts_the_bytes_and_lines_that_are_not_shown() -> None:
    text = "".join(f"line {number:05}\n" for number in range(5_000))
    shown = head_and_tail(text)
    mark = next(line for line in shown.split("\n") if line.startswith("[…"))
    shown_lines = shown.count("line ")
    assert (
        mark
        == f"[… {55_000 - 11 * shown_lines:,} bytes, {5_000 - shown_lines:,} lines not shown …]"
    )


def test_a_document_on_one_line_is_cut_inside_it() -> None:
    document = json.dumps([{"name": f"job {number}"} for number in range(2_000)])
    head, mark, tail = head_and_tail(document).split("\n")
    assert document.startswith(head)
    assert document.endswith(tail)
    assert mark.startswith("[…")
    assert "lines" not in mark


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert head_and_tail(b"a\xffb") == "a\ufffdb"


@pytest.mark.parametrize("limit", [256, 1_000, LIMIT])
def test_a_preview_keeps_to_its_limit_whatever_the_output(limit: int) -> None:
    seeded = random.Random(limit)
    bits = [b"\n", b"x" * 700, "é€😀".encode(), b"\xff" * 40, b"word "]
    for _ in range(300):
        output = b"".join(seeded.choices(bits, k=60))
        shown = head_and_tail(output, limit)
        whole = shown == output.decode("utf-8", "replace")
        assert len(shown.encode()) <= (most_shown(limit) if whole else limit)
