"""The bundled case: that it is whole, that it really breaks, and that its logs fit its files."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.record_case import write_files
from worker.lab.cases import load_case
from worker.lab.gitlab.world import World
from worker.lab.staging import Staged, stage_case
from worker.lab.story import CASE
from worker.logs.excerpt import preview_trace

STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE][ +]")
NIGHT = "tests/test_year.py::test_a_boat_sails_when_the_water_allows_it[skarholm-2026-08-29]"


@pytest.fixture(scope="module")
def case() -> Staged:
    return stage_case(World(), load_case(CASE))


def get_trace(case: Staged, name: str) -> bytes:
    return {job.name: job.trace or b"" for job in case.pipeline.jobs}[name]


def test_the_merge_request_changes_the_merge_its_use_and_the_changelog(case: Staged) -> None:
    assert [each.new_path for each in case.mr.diffs] == [
        "CHANGELOG.md",
        "ferrytimes/timetable.py",
        "ferrytimes/windows.py",
    ]


def test_a_diff_is_hunks_only_with_the_breaking_line_added(case: Staged) -> None:
    diff = {each.new_path: each.diff for each in case.mr.diffs}["ferrytimes/windows.py"]
    assert diff.startswith("@@ -")
    assert "\n+        if merged and merged[-1].overlaps(window):\n" in diff


@pytest.mark.slow
def test_the_base_passes_and_the_head_fails(case: Staged, tmp_path: Path) -> None:
    commits = case.mr.project.commits
    assert pytest_says(commits[case.mr.base_sha], tmp_path / "base").startswith("1 passed")
    assert pytest_says(commits[case.mr.sha], tmp_path / "head").startswith("1 failed")


def pytest_says(files: Mapping[str, bytes], folder: Path) -> str:
    """The closing line of the case's own pytest on one night."""
    write_files(files, folder)
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", NIGHT]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.splitlines()[-1]


def test_every_line_of_a_log_has_the_runners_timestamp(case: Staged) -> None:
    for job in case.pipeline.jobs:
        lines = (job.trace or b"").split(b"\n")[:-1]
        assert all(STAMP.match(line) for line in lines)
        assert lines == sorted(lines, key=lambda line: line[:27])


def test_the_failure_is_explained_far_from_the_end_of_a_large_log(case: Staged) -> None:
    trace = get_trace(case, "unit-tests")
    assert 150_000 < len(trace) < 300_000
    assert trace.count(b"PASSED") > 1500
    assert b"assert departures(route, day) == expected(route, day)" not in uncoloured(trace[-4096:])
    assert b"Job failed: exit code 1" in trace[-100:]


def test_the_first_failed_assertion_is_shown_with_its_line_also_in_a_kilobyte(case: Staged) -> None:
    shown = preview_trace([get_trace(case, "unit-tests")], 1_024)
    said = "1657: >       assert departures(route, day) == expected(route, day)"
    assert f"\n{said}\n1658: E       AssertionError: assert [] == " in shown


def test_the_logs_tracebacks_point_at_lines_of_the_head(case: Staged) -> None:
    trace = uncoloured(get_trace(case, "unit-tests"))
    places = re.findall(rb"O (tests/\w+\.py):(\d+): AssertionError", trace)
    assert len(places) == 2
    files = case.mr.project.commits[case.mr.sha]
    for path, number in places:
        line = files[path.decode()].splitlines()[int(number) - 1]
        assert b"O >   " + line in trace


def test_no_log_tells_of_the_machine_it_was_recorded_on(case: Staged) -> None:
    leaks = (b"/root", b"/home/", b".pyenv", b"Looking in ", b"127.0.0.1")
    logs = {job.name: job.trace or b"" for job in case.pipeline.jobs}
    assert not [(name, leak) for name, log in logs.items() for leak in leaks if leak in log]


def uncoloured(trace: bytes) -> bytes:
    """The log without colours."""
    return re.sub(rb"\x1b\[[0-9;]*[mK]", b"", trace)
