"""The lines of a cleaned log are those that GitLab's job page shows and numbers."""

import random
import time
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from worker.logs import trace
from worker.logs.excerpt import preview_log
from worker.logs.trace import Timeline

STAMP = "2025-03-01T10:00:00.000001Z 01O"


def stamped(*lines: str) -> bytes:
    return "".join(f"{STAMP} {line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        pytest.param(b"one\ntwo\n", ["one", "two"], id="plain lines stay"),
        pytest.param(b"one\n\n\ntwo", ["one", "two"], id="empty lines are not numbered"),
        pytest.param(b"one\n  \ntwo", ["one", "  ", "two"], id="a line of blanks is"),
        pytest.param(b"one\r\ntwo\r\r\n", ["one", "two"], id="line ends of Windows"),
        pytest.param(b" 10%\r 50%\r100%\n", ["100%"], id="progress shows its end"),
        pytest.param(b"gone\r\nkept\rover\n", ["gone", "over"], id="overwritten text is gone"),
        pytest.param(b"gone\r\x1b[K\nnext\n", ["next"], id="a cleared line is no line"),
        pytest.param(b"\x1b[31;1mred\x1b[0m text\n", ["red text"], id="colours"),
        pytest.param(b"\x1b[0;m\n\x1b[32mok\x1b[0m\n", ["ok"], id="a line of colours is no line"),
        pytest.param(b"\x1b]0;title\x07text\n", ["text"], id="a window title"),
        pytest.param(b"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b\n", ["alinkb"], id="hyperlinks"),
        pytest.param(b"a\x00b\x07c\x7fd\te\n", ["abcd\te"], id="control characters but the tab"),
        pytest.param(b"caf\xc3\xa9 \xff\n", ["caf\xe9 \ufffd"], id="what is not UTF-8"),
        pytest.param("a\u200bb\u202ec\U000e0041d\n".encode(), ["abcd"], id="unseen characters"),
        pytest.param("a\u2028b\x85c\n".encode(), ["a b c"], id="other line ends are blanks"),
        pytest.param(
            b"a\n\x1b[31mb\r\x1b[0m\nc\n", ["a", "b", "c"], id="a colour's end overwrites none"
        ),
        pytest.param(b"1%\r2%\r\x1b[39m\x1b[0m\r\n", ["2%"], id="nor does it after progress"),
        pytest.param(b"\x1b[1m\r\x1b[0m\na\n", ["a"], id="nor is it a line"),
        pytest.param(b"a\r\x1b[0mb\n", ["b"], id="a text after it does overwrite"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"\n\r\n\x1b[0m\n", [], id="nothing to see"),
    ],
)
def test_a_trace_is_cleaned_as_the_job_page_shows_it(raw: bytes, lines: list[str]) -> None:
    assert trace.split_lines(trace.clean_trace(raw)) == lines


def test_a_section_keeps_its_header_and_breaks_the_line_it_begins_on() -> None:
    raw = (
        b"before\n\x1b[0Ksection_start:1700000000:get_sources[collapsed=true]\r\x1b[0K"
        b"\x1b[0K\x1b[36;1mGetting source\x1b[0;m\nFetching\n"
        b"\x1b[0Ksection_end:1700000001:get_sources\r\x1b[0K"
        b"\x1b[0Ksection_start:1700000001:step_script\r\x1b[0K\x1b[0KExecuting\n$ make\n"
        b"inline section_end:1700000002:step_script\r\x1b[0Kafter\n"
    )
    assert trace.split_lines(trace.clean_trace(raw)) == [
        "before",
        "Getting source",
        "Fetching",
        "Executing",
        "$ make",
        "inline ",
        "after",
    ]


def test_the_end_of_a_section_that_never_began_breaks_nothing() -> None:
    raw = b"Hello section_end:1700000002:nobody\r\x1b[0Kworld\n"
    assert trace.split_lines(trace.clean_trace(raw)) == ["Hello world"]


def test_timestamps_go_and_continued_lines_are_joined() -> None:
    raw = stamped("Running", "half of", "", "last") + f"{STAMP}+ and more\n".encode()
    assert trace.split_lines(trace.clean_trace(raw)) == ["Running", "half of", "last and more"]


def test_a_timestamp_the_job_wrote_itself_stays_where_the_runner_wrote_none() -> None:
    raw = f"Running\n{STAMP} mine\n".encode()
    assert trace.split_lines(trace.clean_trace(raw)) == ["Running", f"{STAMP} mine"]


def test_a_very_long_line_is_cut_and_says_so() -> None:
    raw = b"x" * 20_000 + b": errSecInternalComponent\nnext\n"
    line = trace.split_lines(trace.clean_trace(raw))[0]
    assert len(line) <= trace.MAX_LINE
    head, _, rest = line.partition(" [")
    count, _, tail = rest.partition(" characters cut] ")
    assert tail.endswith("x: errSecInternalComponent")
    assert int(count) + len(head) + len(tail) == len(raw) - len("\nnext\n")


@pytest.mark.parametrize("stamp", ["", f"{STAMP} "])
@pytest.mark.parametrize(
    "lines",
    [
        ["Get-Item : cannot find path", "", "error: E4"],
        ["erreur : \u00e9chec \u00e0 la ligne 4", "\u00e9 encore", "\u201eerror\u201c"],
        ["error: \u30d5\u30a1\u30a4\u30eb\u304c\u3042\u308a\u307e\u305b\u3093: E4.cs"],
        ["\u30a8\u30e9\u30fc", "\u30a8\u30e9\u30fc: error E4"],
    ],
)
def test_utf_16_inside_a_log_is_read(stamp: str, lines: list[str]) -> None:
    wide = "\r\n".join([*lines, ""]).encode("utf-16")
    raw = b"before\n" + wide + b"after, in eight bits again\n"
    raw = b"".join(stamp.encode() + line + b"\n" for line in raw.removesuffix(b"\n").split(b"\n"))
    shown = trace.split_lines(trace.clean_trace(raw))
    assert [line for line in shown if line] == [
        "before", *filter(None, lines), "after, in eight bits again"
    ]  # fmt: skip
    assert len(shown) == raw.count(b"\n")


def test_a_file_in_utf_16_is_read_in_pieces() -> None:
    raw = "".join(f"line {number}: error\n" for number in range(100_000)).encode("utf-16")
    pieces = (raw[at : at + 99_999] for at in range(0, len(raw), 99_999))
    lines = b"".join(trace.clean_pieces(pieces)).decode().split("\n")
    assert lines[0] == "line 0: error"
    assert lines[99_999] == "line 99999: error"


def test_cleaning_twice_changes_nothing() -> None:
    seeded = random.Random(5)
    bits = [
        b"\x1b[0m",
        b"\r",
        b"\n",
        b"word",
        b"\xff",
        b"\0w\0i\0d\0e",
        b"section_start:1:a\r\x1b[0K",
        b" ",
    ]
    for _ in range(300):
        once = trace.clean_trace(b"".join(seeded.choices(bits, k=40)))
        assert trace.clean_trace(once) == once


def test_the_page_of_a_long_trace_numbers_only_the_lines_it_shows() -> None:
    raw = b"".join(b"line %06d\n\n" % number for number in range(60_000))
    hidden = 60_000 - trace.count_shown_lines(raw[-600_000:])
    shown = raw[-trace.PAGE_BYTES :].split(b"\n", 1)[1].lstrip(b"\n")
    assert trace.split_lines(trace.clean_trace(raw))[hidden].encode() == shown.split(b"\n", 1)[0]


def test_the_lines_that_the_page_leaves_out_are_known() -> None:
    part = b"one\n\x1b[31merror: two\r\x1b[0m\nthree\n\x1b[1m\r\x1b[0m\n"
    timeline = Timeline()
    cleaned = b"".join(trace.clean_pieces([part * 2], timeline))
    assert trace.split_lines(cleaned) == ["one", "error: two", "three"] * 2
    assert timeline.unshown == [2, 5]
    end = part * (trace.PAGE_BYTES // len(part) + 9)
    page = end[-trace.PAGE_BYTES :].partition(b"\n")[2]
    assert trace.count_shown_lines(end) == page.count(b"one") + page.count(b"three")


def envelope() -> bytes:
    """A trace as a runner writes it, one minute of which passes at each mark."""
    at, lines = 1_700_000_000, list[str]()

    def line(text: str, later: int = 0) -> None:
        nonlocal at
        at += later
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000001Z 01O")
        lines.append(f"{stamp} {text}")

    line("Running with a runner")
    line(f"section_start:{at}:get_sources\r\x1b[0KGetting source")
    line("")
    line("Fetching", 20)
    line(f"section_end:{at}:get_sources\r\x1b[0K")
    line(f"section_end:{at}:nobody\r\x1b[0Kstray")
    line(f"section_start:{at}:step_script[collapsed=true]\r\x1b[0KExecuting")
    for number in range(400):
        line(f"$ step {number}", 60)
        line("done", 2)
    line(f"section_end:{at}:step_script\r\x1b[0Kbye")
    return "\n".join([*lines, ""]).encode()


def test_a_timeline_names_the_lines_of_sections_and_times_and_changes_no_line() -> None:
    timeline = Timeline()
    cleaned = b"".join(trace.clean_pieces([envelope()], timeline))
    assert cleaned == trace.clean_trace(envelope())
    lines = trace.split_lines(cleaned)
    told = [(each.name, lines[each.first - 1], lines[each.last - 1]) for each in timeline.sections]
    assert told == [
        ("get_sources", "Getting source", "Fetching"),
        ("step_script", "Executing", "done"),
    ]
    assert timeline.sections[1].end - timeline.sections[1].start == 400 * 62
    found = dict(timeline.times)
    step = lines.index("$ step 7") + 1
    assert (lines[step], found[step + 1] - found[step]) == ("done", 2)


def test_a_timeline_of_very_many_marks_stays_small() -> None:
    timeline = Timeline()
    day = "2025-03-01T{:02d}:{:02d}:{:02d}.000001Z 01O section_start:1:a{}\r\x1b[0Kx\n"
    raw = "".join(day.format(n // 3600, n // 60 % 60, n % 60, n) for n in range(40_000)).encode()
    assert b"".join(trace.clean_pieces([raw], timeline)) == trace.clean_trace(raw)
    assert len(timeline.sections) <= 2_000
    assert 2_000 < len(timeline.times) <= 5_000


def test_cleaning_takes_linear_time_for_hostile_traces() -> None:
    hostile = [
        b"\r" * 2_000_000,
        b"\r" * 2_000_000 + b"\n",
        b"\x1b[" * 1_000_000,
        b"\x1b]" * 1_000_000,
        b"section_start:1:" * 120_000,
        b"a" * 2_000_000,
        b"\n" * 2_000_000,
    ]
    started = time.process_time()
    for raw in hostile:
        trace.clean_trace(raw)
    assert time.process_time() - started < 10


# ----------------------------------------------------------------------------------- preview


def log_of(before: int, *middle: str, after: int = 0) -> bytes:
    quiet = [f"step {number} of the build compiles file_{number}.c" for number in range(before)]
    more = [f"uploading part {number}" for number in range(after)]
    return "\n".join([*quiet, *middle, *more, ""]).encode()


def test_a_log_that_fits_is_shown_whole_with_line_numbers() -> None:
    assert preview_log(b"one\ntwo\n") == "1: one\n2: two"


def test_the_error_in_the_middle_of_a_long_log_is_in_its_preview() -> None:
    cleaned = log_of(
        3_000, "main.c:41:7: error: 'total' undeclared", "   41 | total = 3;", after=900
    )
    shown = preview_log(cleaned).split("\n")
    assert "3001: main.c:41:7: error: 'total' undeclared" in shown
    assert "3002:    41 | total = 3;" in shown


def test_a_traceback_stays_whole() -> None:
    traceback = [
        "Traceback (most recent call last):",
        '  File "app.py", line 3, in <module>',
        "    main()",
        '  File "app.py", line 2, in main',
        "    return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]
    shown = preview_log(log_of(2_000, *traceback, after=300))
    assert "\n".join(f"{2001 + at}: {line}" for at, line in enumerate(traceback)) in shown


def test_repeated_lines_do_not_crowd_out_the_one_that_differs() -> None:
    noise = [f"ERROR: retry {number} of request {number * 7} failed" for number in range(500)]
    cleaned = log_of(500, *noise[:250], "FAIL: totals do not add up: 107.0 != 119.0", *noise[250:])
    assert "751: FAIL: totals do not add up: 107.0 != 119.0" in preview_log(cleaned)


def test_the_last_lines_of_the_script_are_shown_before_those_of_the_runner() -> None:
    runner = [
        "Running after_script",
        "$ ./collect.sh",
        "Uploading artifacts for failed job",
        *[f"found {number} matching files" for number in range(200)],
        "ERROR: Job failed: exit code 1",
    ]
    script = 'Executing "step_script" stage of the job script'
    cleaned = log_of(2_000, script, *[f"quiet {n}" for n in range(900)], "the end", *runner)
    assert "2902: the end" in preview_log(cleaned)


def test_summaries_without_failures_do_not_count_as_failures() -> None:
    calm = [f"suite {number}: 12 passed, 0 failed, 0 errors" for number in range(400)]
    cleaned = log_of(10, *calm[:200], "suite 7b: cannot open port 80", *calm[200:], after=400)
    assert "suite 7b: cannot open port 80" in preview_log(cleaned)


def test_gaps_are_marked_and_lines_stay_in_order() -> None:
    shown = preview_log(log_of(1_000, "error: first", after=1_000)).split("\n")
    numbers = [int(line.split(":")[0]) for line in shown if line != "…"]
    assert numbers == sorted(numbers)
    for line, following in pairwise(shown):
        if "…" not in (line, following):
            assert int(following.split(":")[0]) == int(line.split(":")[0]) + 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", [200, 1_000, 4_096])
def test_a_preview_keeps_to_its_limit_whatever_the_log(limit: int) -> None:
    seeded = random.Random(limit)
    words = ["error", "é" * 50, "failed", "x" * 3_000, "warning", "ok", "", "…", "Traceback"]
    for _ in range(15):
        lines = [" ".join(seeded.choices(words, k=4)) for _ in range(300)]
        cleaned = trace.clean_trace("\n".join(lines).encode())
        assert len(preview_log(cleaned, limit).encode()) <= limit


def test_a_preview_takes_bounded_time_for_hostile_logs() -> None:
    hostile = [
        b"error\n" * 400_000,
        b"error " + b"*** [ " * 20_000,
        (b"error " + b"x" * 900 + b"\n") * 2_000,
        (b"error " + b"a.b" * 300 + b"\n") * 2_000,
    ]
    started = time.process_time()
    for cleaned in hostile:
        preview_log(cleaned)
    assert time.process_time() - started < 15
