"""The bundled case: that it is whole, that it really breaks, and that its logs fit its files."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from worker.core.logs.trace import preview_trace
from worker.demo.case import Case, load_case

STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE][ +]")
NIGHT = "tests/test_year.py::test_a_boat_sails_when_the_water_allows_it[skarholm-2026-08-29]"


@pytest.fixture(scope="module")
def case() -> Case:
    return load_case()


def test_the_merge_request_changes_the_merge_its_use_and_the_changelog(case: Case) -> None:
    assert [change.path for change in case.changes] == [
        "CHANGELOG.md",
        "ferrytimes/timetable.py",
        "ferrytimes/windows.py",
    ]


def test_a_diff_is_hunks_only_with_the_breaking_line_added(case: Case) -> None:
    diff = {change.path: change.diff for change in case.changes}["ferrytimes/windows.py"]
    assert diff.startswith("@@ -")
    assert "\n+        if merged and merged[-1].overlaps(window):\n" in diff


@pytest.mark.slow
def test_the_base_passes_and_the_head_fails(case: Case, tmp_path: Path) -> None:
    assert pytest_says(case.base_files, tmp_path / "base").startswith("1 passed")
    assert pytest_says(case.head_files, tmp_path / "head").startswith("1 failed")


def pytest_says(files: Mapping[str, bytes], folder: Path) -> str:
    """The closing line of the case's own pytest on one night."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", NIGHT]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.splitlines()[-1]


def test_every_line_of_a_log_has_the_runners_timestamp(case: Case) -> None:
    for job in case.pipeline.jobs:
        lines = job.trace.split(b"\n")[:-1]
        assert all(STAMP.match(line) for line in lines)
        assert lines == sorted(lines, key=lambda line: line[:27])


def test_a_job_lasts_as_long_as_its_log(case: Case) -> None:
    job = case.get_job("unit-tests")
    assert job.duration is not None
    assert 10 < job.duration < 60
    assert case.pipeline.created_at < case.get_job("lint").started_at < job.started_at  # type: ignore[operator]
    assert case.get_job("site").started_at is None


def test_the_failure_is_explained_far_from_the_end_of_a_large_log(case: Case) -> None:
    trace = case.get_job("unit-tests").trace
    assert 150_000 < len(trace) < 300_000
    assert trace.count(b"PASSED") > 1500
    assert b"assert departures(route, day) == expected(route, day)" not in uncoloured(trace[-4096:])
    assert b"Job failed: exit code 1" in trace[-100:]


def test_the_first_failed_assertion_is_shown_with_its_line_also_in_a_kilobyte(case: Case) -> None:
    shown = preview_trace([case.get_job("unit-tests").trace], 1_024)
    said = "1657: >       assert departures(route, day) == expected(route, day)"
    assert f"\n{said}\n1658: E       AssertionError: assert [] == " in shown


def test_the_logs_tracebacks_point_at_lines_of_the_head(case: Case) -> None:
    trace = uncoloured(case.get_job("unit-tests").trace)
    places = re.findall(rb"O (tests/\w+\.py):(\d+): AssertionError", trace)
    assert len(places) == 2
    for path, number in places:
        line = case.head_files[path.decode()].splitlines()[int(number) - 1]
        assert b"O >   " + line in trace


def test_no_log_tells_of_the_machine_it_was_recorded_on(case: Case) -> None:
    leaks = (b"/root", b"/home/", b".pyenv", b"Looking in ", b"127.0.0.1")
    logs = {job.name: job.trace for job in case.pipeline.jobs}
    assert not [(name, leak) for name, log in logs.items() for leak in leaks if leak in log]


def uncoloured(trace: bytes) -> bytes:
    """The log without colours."""
    return re.sub(rb"\x1b\[[0-9;]*[mK]", b"", trace)
