"""What is shown of an output."""

import random
import re

import pytest

from sandbox.image.preview import PREVIEW, cut_head, cut_tail, is_binary, make_preview, most_shown

MOST = most_shown(PREVIEW)


def of(output: bytes) -> str:
    """The preview of a whole output, as the runner makes it."""
    return make_preview(output[:MOST], output[-MOST:], len(output), output.count(b"\n"))


@pytest.mark.parametrize("output", [b"", b"x", b"line\n", "ü✓🐦\n".encode(), b"x" * 5120])
def test_a_short_output_is_shown_whole(output: bytes) -> None:
    assert of(output) == output.decode()


def test_more_than_a_quarter_over_the_limit_is_cut_to_the_limit() -> None:
    assert MOST == 5120
    shown = of(b"x" * 5121)
    assert " not shown …]" in shown
    assert PREVIEW - 200 < len(shown) <= PREVIEW


def test_head_and_tail_end_on_lines() -> None:
    output = b"".join(b"line %06d\n" % n for n in range(10_000))
    shown = of(output)
    head, mark, tail = re.split(r"(\[….*…\]\n)", shown)
    assert output.startswith(head.encode())
    assert output.endswith(tail.encode())
    assert head.endswith("\n")
    assert tail.startswith("line ")
    hidden = len(output) - len(head) - len(tail)
    assert mark == f"[… {hidden:,} of 120,000 bytes, {hidden // 12:,} lines not shown …]\n"
    assert PREVIEW - 200 < len(shown.encode()) <= PREVIEW


def test_the_cut_says_where_the_whole_is_and_fits_with_the_longest_figures() -> None:
    path, size = "/tmp/_out/1000.err.txt", 1 << 50
    shown = make_preview(b"x\n" * 2560, b"x\n" * 2560, size, size // 2, path=path)
    assert f" of {size:,} bytes, " in shown
    assert f" lines not shown: see {path} …]" in shown
    assert len(shown.encode()) <= PREVIEW


def test_one_long_line_is_cut_between_characters() -> None:
    shown = of("🐦".encode() * 5000)
    assert "\ufffd" not in shown
    assert ", 0 lines not shown" in shown
    assert PREVIEW - 200 < len(shown.encode()) <= PREVIEW


def test_a_short_first_line_does_not_hide_a_long_second() -> None:
    shown = of(b"short\n" + b"x" * 100_000 + b"\nlast\n")
    assert shown.startswith("short\nxxxx")
    assert shown.endswith("xxxx\nlast\n")


def test_bytes_that_grow_when_they_are_replaced_still_fit() -> None:
    for output in (b"\xff" * MOST, b"\xff" * 100_000, b"a\xff" * 2048, b"\xff" * 1800):
        assert len(of(output).encode()) <= PREVIEW


def test_the_count_of_hidden_bytes_is_right_for_any_output() -> None:
    chance = random.Random(7)
    letters = [b"a", b"\n", "ü".encode(), "🐦".encode(), b"\xff", b"word "]
    for size in (4000, 4096, 5120, 5121, 9000, 50_000):
        output = b"".join(chance.choices(letters, k=size))
        shown = of(output)
        mark = re.search(r"\n?\[… ([\d,]+) of [\d,]+ bytes, ([\d,]+) lines not shown …\]\n", shown)
        assert len(shown.encode()) <= (PREVIEW if mark else MOST)
        if mark is None:
            assert shown == output.decode("utf-8", "replace")
            continue
        hidden = int(mark[1].replace(",", ""))
        assert 0 < hidden < len(output)


@pytest.mark.parametrize(
    ("raw", "size", "head"),
    [
        (b"ab\ncd\nef", 7, b"ab\ncd\n"),
        (b"a\nbcdefgh", 6, b"a\nbcde"),
        ("aü".encode(), 2, b"a"),
        ("aü".encode(), 3, "aü".encode()),
        ("a🐦".encode(), 4, b"a"),
        ("a🐦".encode(), 5, "a🐦".encode()),
        (b"a\x80\x80\x80\x80", 5, b"a\x80\x80\x80\x80"),
        (b"", 5, b""),
    ],
)
def test_a_head_is_cut_on_a_line_or_a_character(raw: bytes, size: int, head: bytes) -> None:
    assert cut_head(raw, size) == head


@pytest.mark.parametrize(
    ("raw", "size", "tail"),
    [
        (b"ab\ncd\nef", 6, b"cd\nef"),
        (b"abcdef\ng", 6, b"cdef\ng"),
        ("üa".encode(), 2, b"a"),
        ("🐦a".encode(), 4, b"a"),
        (b"abc", 0, b""),
        (b"", 5, b""),
    ],
)
def test_a_tail_is_cut_on_a_line_or_a_character(raw: bytes, size: int, tail: bytes) -> None:
    assert cut_tail(raw, size) == tail


@pytest.mark.parametrize(
    ("sample", "binary"),
    [
        (b"", False),
        (b"text\n", False),
        (b"\x1b[31mred\x1b[0m\r\n" * 20, False),
        ("日本語".encode() * 50, False),
        ("äöü".encode("latin-1") * 50, True),
        ("für viele Leute".encode("latin-1") * 50, False),
        (b"a\0b", True),
        (b"\xff\xfe", False),
        (bytes(range(1, 256)), True),
        (random.Random(1).randbytes(4000), True),
    ],
)
def test_binary_is_told_from_text(sample: bytes, binary: bool) -> None:
    assert is_binary(sample) == binary
