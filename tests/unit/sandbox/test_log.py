"""`log`, the sandbox's reader of job logs, run as the sandbox runs it."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandbox.image import log_text
from sandbox.image.log_text import ROOM
from worker.logs.excerpt.scan import PassedLines

ROOT = str(Path(__file__).parents[3])
SHOWN = 4096


def log(*words: str, status: int = 0) -> str:
    """What `log` prints: on standard output, or where it fails on the other."""
    start = f"import sys; sys.path.insert(0, {ROOT!r}); from sandbox.image.log import main; "
    command = [sys.executable, "-ESsB", "-c", start + "sys.exit(main(sys.argv[1:]))", *words]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.returncode == status, done.stderr
    return (done.stderr if status else done.stdout).decode()


def lines_of(*words: str) -> list[str]:
    text = log(*words)
    assert len(text.encode()) <= SHOWN
    return text.removesuffix("\n").split("\n")


def build(seed: int, *, fails: bool = False) -> list[str]:
    """A job's log, every run of which differs in what does not matter."""
    chance = random.Random(seed)

    def name() -> str:
        return f"{chance.getrandbits(48):x}"

    return [
        f"Running on runner-{name()}-project-7-concurrent-{chance.randrange(9)}",
        f"$ pip install -r requirements.txt  # {chance.randrange(99)}",
        *(f"Downloading pkg-{n}.whl ({chance.random():.1f} MB) at 10:1{n % 9}" for n in range(300)),
        "$ pytest -q",
        *(f"tests/test_{n}.py::test_it PASSED in {chance.random():.2f}s" for n in range(300)),
        f"2025-03-0{seed % 9 + 1}T10:00:0{seed % 9}Z listening on 10.0.0.{seed}:{40_000 + seed}",
        f"cache key 5f2b{name()} at 0x{name()} in /tmp/build-{seed}/out/cache.db",
        *(["E   assert 107.0 == 119.0", "FAILED test_total"] if fails else ["all passed"]),
        f"finished in {chance.randrange(9)}m {chance.randrange(60)}s",
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text("\n".join([*build(3, fails=True), ""]))
    (tmp_path / "job.log.green").write_text("\n".join([*build(5), ""]))
    return path


def test_a_diff_shows_what_is_new_and_what_is_gone_and_nothing_that_differs_by_chance(
    file: Path,
) -> None:
    first, *rest = lines_of("diff", str(file))
    assert first.startswith("2 lines of 608 in ")
    assert rest == [
        "new:",
        "606: E   assert 107.0 == 119.0",
        "607: FAILED test_total",
        "gone:",
        "606: all passed",
    ]


def test_the_green_log_may_be_named_and_its_last_line_of_ours_is_not_gone(
    file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "green.log"
    trailer = "[this is the log of job 7, passed on main at abc, https://x]"
    other.write_text("\n".join([*build(5), trailer, ""]))
    assert lines_of("diff", str(file), str(other))[-2:] == ["gone:", "606: all passed"]


def test_a_diff_without_a_green_log_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    assert "gitlab_get_last_green_log" in log("diff", str(tmp_path / "a"), status=2)


def test_a_long_diff_keeps_the_telling_lines_and_says_how_to_see_the_rest(file: Path) -> None:
    words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz"]
    more = [f"note about {word}" for word in words]
    lines = build(3, fails=True)
    file.write_text("\n".join([*lines[:-2], *more, *lines[-2:], ""]))
    shown = lines_of("diff", str(file))
    assert "1207: FAILED test_total" in shown
    assert any("more: --after 0 shows all in order, or --bytes N]" in line for line in shown)
    following = lines_of("diff", str(file), "--after", "1000")
    assert following[2] == "1001: " + f"note about {words[1000 - 606]}"
    (more_of,) = [line for line in following if "more: --after" in line]
    last = following[-2].partition(":")[0]
    assert f"--after {last} " in more_of
    from_first = lines_of("diff", str(file), "--after", "0")
    assert from_first[2:4] == ["606: E   assert 107.0 == 119.0", "607: note about aku"]


def test_rows_of_a_table_come_before_its_borders(tmp_path: Path) -> None:
    rows = [f"│ lib{name} │ CVE-2026-5812{name} │ HIGH │" for name in "abc"]
    border = "├──────────┼────────────────┼──────┤"
    (tmp_path / "a").write_text("\n".join(["scan", *(f"{row}\n{border}" for row in rows), ""]))
    (tmp_path / "a.green").write_text("scan\n不変\n")
    shown = lines_of("diff", str(tmp_path / "a"))
    assert [line for line in shown if "CVE" in line] == [
        f"{2 * at + 2}: {row}" for at, row in enumerate(rows)
    ]
    assert not any(border in line for line in shown)
    assert "2: 不変" in shown


def test_lines_that_have_a_rare_value_of_an_error_are_shown_with_the_errors(file: Path) -> None:
    lines = [
        "[INFO] Reserved port 38417 for wiremock.port",
        "INFO 4711 Tomcat started on port 38417 (http)",
        *[f"INFO 4711 beat {number}" for number in range(1000, 1009)],
        "INFO at 2026 in a port of 138417 and 38417.5",
        "java.io.IOException: Failed to bind to /0.0.0.0:38417 (pid 4711, year 2026)",
        "[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.",
    ]
    file.write_text("\n".join([*lines, ""]))
    shown = lines_of("errors", str(file))
    at = shown.index("the values of these errors are also in:")
    assert shown[at + 1 :] == [f"1: {lines[0]}", f"2: {lines[1]}"]
    assert shown[0].startswith("1 candidate line in 1 group, ")
    file.write_text("\n".join([*lines[:2] * 3, *lines[2:], ""]))
    assert "the values of these errors are also in:" not in lines_of("errors", str(file))


RECOUNTED = [
    ("registry token - 41 characters", "registry token - 0 characters"),
    ("collected 812 tests", "collected 797 tests"),
    ("ERROR: the service ended with status 1", "ERROR: the service ended with status 137"),
    ("FAILED: expected 3.5 but was 3.25", "FAILED: expected 3.5 but was 4.25"),
    ("pool: maximumPoolSize=10", "pool: maximumPoolSize=30"),
    ("o.h.Pool maximumPoolSize.........10", "o.h.Pool maximumPoolSize.........30"),
    ("max_connections: 100", "max_connections: 20"),
    (
        "All files      |   88.97 |    78.91 |   89.1 |",
        "All files      |   80.34 |    71.02 |   70.88 |",
    ),
    (
        "Flash:  96.7% (used 1267289 bytes from 1310720 bytes)",
        "Flash: 103.6% (used 1358241 bytes from 1310720 bytes)",
    ),
]
BY_CHANCE = [
    ("ran the hooks in 12 seconds", "ran the hooks in 15 seconds"),
    ("ERROR: gave up after 1.5 s at 10:00:01", "ERROR: gave up after 2.5 s at 10:00:09"),
    ("ERROR: late by 12 µs", "ERROR: late by 15 µs"),
    ("ERROR: no answer on port 4123", "ERROR: no answer on port 53112"),
    ("ERROR: process 4123 of 10.0.0.1:80 died", "ERROR: process 771 of 10.1.1.7:80 died"),
    ("ERROR: 3f2a1b9 is invalid", "ERROR: 77ab012 is invalid"),
    ("cannot go on at 12% [3/140]", "cannot go on at 97% [138/140]"),
    ("got 120 bytes, 3.5 kB/s", "got 999 bytes, 4.5 kB/s"),
    ("Nov 20 ERROR: 7 GB used", "Nov 21 ERROR: 8 GB used"),
    ("src/a.c:12:3: error: lost", "src/a.c:13:4: error: lost"),
    ("step 12", "step 14"),
    (
        "Flash: used 1267289 bytes from 1310720 bytes",
        "Flash: used 1267302 bytes from 1310720 bytes",
    ),
    ("cache: 120 MB in 3 MB parts", "cache: 140 MB in 4 MB parts"),
]


@pytest.mark.parametrize(("green", "red"), RECOUNTED)
def test_a_diff_shows_what_another_number_makes_another_line(
    file: Path, green: str, red: str
) -> None:
    file.write_text("\n".join([*build(3), red, ""]))
    file.with_name("job.log.green").write_text("\n".join([green, *build(5), ""]))
    shown = lines_of("diff", str(file))
    assert shown[1:] == ["other numbers:", f"608: {red} [green 1: {green}]"]


@pytest.mark.parametrize(("green", "red"), BY_CHANCE)
def test_a_diff_shows_no_number_that_each_run_has_by_chance(
    file: Path, green: str, red: str
) -> None:
    file.write_text("\n".join([*build(3), red, ""]))
    file.with_name("job.log.green").write_text("\n".join([green, *build(5), ""]))
    assert len(lines_of("diff", str(file))) == 1


def test_a_diff_takes_the_numbers_of_many_like_lines_for_progress(file: Path) -> None:
    file.write_text("".join(f"fetched {n} objects\n" for n in range(9)))
    file.with_name("job.log.green").write_text("".join(f"fetched {n} objects\n" for n in (77, 78)))
    assert len(lines_of("diff", str(file))) == 1


def test_a_diff_shows_a_number_that_became_nothing_first(file: Path) -> None:
    lines = [f"found {n} {chr(97 + n % 26) * (3 + n // 26)}" for n in range(1, 300)]
    green = [line.replace("found ", "found 1") for line in lines]
    file.write_text("\n".join([*lines, "found 0 files", ""]))
    file.with_name("job.log.green").write_text("\n".join([*green, "found 4 files", ""]))
    shown = lines_of("diff", str(file))
    assert "300: found 0 files [green 300: found 4 files]" in shown
    assert shown[-1].endswith(" more: --bytes N]")


def test_a_package_that_is_called_an_error_is_none_and_a_refused_request_is(file: Path) -> None:
    url = "https://npm.example.com"
    fine = [f"npm http fetch GET 200 {url}/{name} 9ms" for name in ("error-ex", "makeerror")]
    refused = f"npm http fetch GET 401 {url}/@kelp%2ftokens 172ms"
    file.write_text("\n".join([*build(3), *fine, refused, ""]))
    green = refused.replace("401", "200")
    file.with_name("job.log.green").write_text("\n".join([*build(5), *fine, green, ""]))
    shown = lines_of("errors", "-C0", str(file))
    assert shown == ["1 candidate line in 1 group, of 610 lines:", f"610: {refused}"]
    assert lines_of("diff", str(file))[1:3] == ["new:", f"610: {refused}"]


@pytest.mark.parametrize(
    "line",
    [
        "   Downloaded thiserror v1.0.69",
        "   Compiling thiserror-impl v1.0.69",
        "building '/nix/store/hj3822rygn3asfa5a24kya74bqwlslvl-test-failover.drv'...",
        "  ✓  3 [chromium] › e2e/form.spec.ts:58:7 › form › shows a validation error (2.1s)",
        "    --- PASS: TestFailsOnError (0.00s)",
    ],
)
def test_what_passed_or_is_only_built_is_no_error_whatever_its_name(file: Path, line: str) -> None:
    file.write_text(f"{line}\nerror: the disk is full\n")
    shown = lines_of("errors", "-C0", str(file))
    assert shown == ["1 candidate line in 1 group, of 2 lines:", "2: error: the disk is full"]


@pytest.mark.parametrize(
    "line",
    [
        *("fetching failed", "building failed...", "Installing failed ...", "Unpacking failed"),
        *("PASS: 3 FAIL: 2 ERROR: 1", "Passed: 10, Failed: 2", "✔ 3 passed ✘ 2 failed"),
        *(
            "run.sh: line 7: STAGE: unbound variable",
            "No module named 'cart'",
            "a.rb:1: [BUG] crash",
        ),
        *("cart is not installed", "the list is outdated, please update it by running: make list"),
    ],
)
def test_what_failed_beside_what_passed_is_an_error(file: Path, line: str) -> None:
    file.write_text(f"{line}\n")
    assert lines_of("errors", "-C0", str(file))[-1] == f"1: {line}"


def test_a_diff_shows_a_status_that_an_access_log_has_now(file: Path) -> None:
    fine = [f'::1 "GET /api/cart?n={n} HTTP/1.1" 200 {n} - 4.1 ms' for n in range(100, 130)]
    limited = '::1 "GET /api/cart?n=131 HTTP/1.1" 429 38 - 4.1 ms'
    file.write_text("\n".join([*fine, limited, ""]))
    file.with_name("job.log.green").write_text("\n".join([*fine, ""]))
    assert lines_of("diff", str(file))[1:3] == ["new:", f"31: {limited}"]


def test_a_diff_ignores_how_many_tests_had_failed_by_then(file: Path) -> None:
    names = [f"test/a_test.dart: shows {chr(97 + n) * 4}" for n in range(20)]
    file.write_text("\n".join(f"00:{n:02} +{n} -1: {name}" for n, name in enumerate(names)))
    green = "\n".join(f"00:{n:02} +{n + 1}: {name}" for n, name in enumerate(names))
    file.with_name("job.log.green").write_text(green)
    assert lines_of("diff", str(file)) == [
        f"0 lines of 20 in {file} new, 0 of 20 in {file}.green gone (times, hashes, folders, most "
        "numbers ignored)"
    ]


def test_errors_are_grouped_and_shown_with_context_in_order(file: Path) -> None:
    lines = build(3, fails=True)
    hits = [f"ERROR worker {n}: connection refused" for n in range(40)]
    file.write_text("\n".join([*hits, *lines, ""]))
    shown = lines_of("errors", str(file))
    assert shown[0] == "42 candidate lines in 3 groups, of 648 lines:"
    assert "1: ERROR worker 0: connection refused [40 like it, last at 40]" in shown
    assert (
        shown.index("647: FAILED test_total") - shown.index("646: E   assert 107.0 == 119.0") == 1
    )
    numbers = [int(line.split(":")[0].split("-")[0]) for line in shown[1:] if line != "…"]
    assert numbers == sorted(numbers)


def test_what_begins_with_its_place_in_a_file_may_be_an_error_without_saying_so(file: Path) -> None:
    vet = "vet: ./drain.go:31:2: result of fmt.Errorf call not used"
    calm = ["src/a.c:3:1: warning: unused variable 'x'", "server started at app.py", "a.go:1: ok"]
    file.write_text("\n".join([*build(3), *calm, vet, ""]))
    shown = lines_of("errors", str(file))
    assert any(line.endswith(vet) for line in shown)
    assert shown[0].startswith("1 candidate line in 1 group, ")


def test_grep_clips_long_lines_counts_what_it_leaves_out_and_goes_on(file: Path) -> None:
    file.write_bytes(b"plain\n" + b"x" * 5_000 + b"NEEDLE" + b"y" * 9_000 + b"\nNEEDLE 3\n" * 900)
    first = lines_of("grep", "needle", str(file), "-i", "--max", "2")
    assert "NEEDLE" in first[0]
    assert len(first[0]) < 400
    assert first[-1] == "[901 matching lines of 1,801; 899 more: --after 3, or --bytes N]"
    assert lines_of("grep", "NEEDLE", str(file), "--after", "1799")[0] == "1801: NEEDLE 3"
    assert log("grep", "(", str(file), status=2).startswith("log: the pattern '(' is wrong")
    assert lines_of("grep", "-F", "(", str(file)) == ["[0 matching lines of 1,801]"]


def test_grep_shows_context_and_marks_gaps(file: Path) -> None:
    file.write_text("".join(f"line {n}\n" for n in range(1, 100)))
    assert lines_of("grep", "-C1", "line [57]0$", str(file)) == [
        *("49- line 49", "50: line 50", "51- line 51", "…"),
        *("69- line 69", "70: line 70", "71- line 71", "[2 matching lines of 99]"),
    ]


def test_a_slice_is_numbered_and_says_where_to_go_on(file: Path) -> None:
    assert lines_of("slice", str(file), "606-607") == [
        "606: E   assert 107.0 == 119.0",
        "607: FAILED test_total",
    ]
    *shown, more = lines_of("slice", str(file), "2-500")
    reached = int(shown[-1].partition(":")[0])
    assert more == f"[go on with: log slice {file} {reached + 1}-500]"
    assert lines_of("slice", str(file), "5000-") == ["[it has 608 lines]"]
    assert "is no range" in log("slice", str(file), "x", status=2)


def test_templates_show_the_unusual_first(file: Path) -> None:
    shown = lines_of("templates", str(file))
    assert shown[1:3] == ["1 × 607: FAILED test_total", "1 × 606: E assert # == #"]
    assert shown[-2] == "300 × 304: tests/#.py::test_it PASSED in #"
    common = lines_of("templates", "--common", "--max", "1", str(file))
    assert common[1].startswith("300 × ")


def test_an_outline_has_sections_commands_seconds_and_where_errors_are(file: Path) -> None:
    sections = [
        {"name": "prepare", "first": 1, "last": 1, "start": 1000, "end": 1004},
        {"name": "step_script", "first": 2, "last": 608, "start": 1004, "end": 1100},
    ]
    times = [[1, 1000], [2, 1004], [303, 1030], [605, 1099]]
    file.with_name("job.log.outline").write_text(json.dumps({"sections": sections, "times": times}))
    first, *_ = lines = lines_of("outline", str(file))
    since = "1970-01-01 00:16:40 UTC by the runner's clock"
    assert first.startswith(f"608 lines, 100 seconds from {since}; lines, ")
    shown = [line.split() for line in lines]
    assert ["1-1", "4", "-", "section", "prepare"] in shown
    assert ["2-608", "96", "2", "section", "step_script"] in shown
    assert ["303-608", "69", "2", "$", "pytest", "-q"] in shown
    assert shown[-1][:5] == ["most", "telling", "error", "candidates:", "lines"]


@pytest.mark.parametrize(
    "told",
    [
        "",
        "[]",
        '{"times": [[1, 1e300]]}',
        '{"times": [[1, NaN]]}',
        '{"sections": [1]}',
        '{"times": [["a"]]}',
        "\udcff",
    ],
)
def test_an_outline_that_was_spoiled_is_as_none(file: Path, told: str) -> None:
    file.with_name("job.log.outline").write_bytes(told.encode(errors="surrogateescape"))
    assert "times unknown" in lines_of("outline", str(file))[0]


VERBS: list[Sequence[str]] = [
    ("outline",),
    ("errors",),
    ("grep", "."),
    ("templates",),
    ("diff",),
    ("slice", "1-"),
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_any_bytes_are_taken_and_every_answer_is_short(tmp_path: Path, verb: Sequence[str]) -> None:
    seeded = random.Random(7)
    hostile = [
        seeded.randbytes(50_000),
        b"error " * 30_000,
        b"\n" * 5_000,
        b"\x1b[31merror\x1b[0m: a\rb\r\n" * 200,
        b"".join(b"fail %s\n" % seeded.randbytes(300) for _ in range(200)),
        b"0a" * 40_000 + b"\n" + b"/a" * 40_000 + b"\n" + b"a" * 80_000,
    ]
    path = tmp_path / "hostile"
    path.write_bytes(b"\n".join(hostile))
    (tmp_path / "hostile.green").write_bytes(b"\n".join(hostile[::2]))
    words = [str(path), verb[1]] if verb[0] == "slice" else [*verb[1:], str(path)]
    text = log(verb[0], *words)
    assert len(text.encode()) <= ROOM + 100
    assert "\x1b" not in text


@pytest.mark.parametrize("words", ["errors PIPE", "diff PIPE FILE", "diff FILE PIPE"])
def test_what_is_read_twice_has_to_be_a_file(file: Path, tmp_path: Path, words: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    named = words.replace("PIPE", str(pipe)).replace("FILE", str(file))
    told = log(*named.split(), status=2)
    assert told == f"log: {pipe} is a stream, and is read twice: save it to a file first\n"


def test_a_slice_that_ends_before_it_begins_is_refused(file: Path) -> None:
    assert "'5-2' ends before it begins" in log("slice", str(file), "5-2", status=2)


@pytest.mark.parametrize("verb", [["errors"], ["grep", "."]])
def test_context_beyond_all_bounds_is_as_much_as_there_is_room_for(
    file: Path, verb: Sequence[str]
) -> None:
    huge = log(*verb, "-C", "9" * 30, str(file))
    assert huge == log(*verb, "-C", "500", str(file))


def test_a_file_that_is_not_there_is_said() -> None:
    assert "cannot read /nowhere: No such file" in log("errors", "/nowhere", status=2)
    assert "usage: log" in log("frobnicate", status=2)


SAME = [
    ("took 1.25s", "took 12.5s"),
    ("2025-03-01T10:00:00Z started", "2026-11-22T09:59:59Z started"),
    ("HEAD is now at 3f2a1b9", "HEAD is now at 77ab012"),
    ("object at 0x7f1a2b", "object at 0x55dd01"),
    ("wrote /builds/a/b/out.txt", "wrote /tmp/x/out.txt"),
    ("listening on 10.0.0.1:8080", "listening on 10.1.2.33:41234"),
    ("[  7/140] done", "[139/140] done"),
]
OTHER = [
    ("E assert total == expected", "E assert sum == expected"),
    ("FAILED test_total", "PASSED test_total"),
    ("cannot open out.txt", "cannot open in.txt"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_diff_and_the_preview_take_the_same_lines_for_old(one: str, other: str) -> None:
    assert _shape(one) == _shape(other)
    assert not _news(one, other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_the_diff_and_the_preview_take_the_same_lines_for_new(one: str, other: str) -> None:
    assert _shape(one) != _shape(other)
    assert _news(one, other)


def _shape(line: str) -> bytes:
    return log_text.compute_shapes([line.encode()])[0]


def _news(green: str, line: str) -> bool:
    known = PassedLines([green.encode() + b"\n"])
    return bool(known.find_new({line.encode(): line.encode()}))
