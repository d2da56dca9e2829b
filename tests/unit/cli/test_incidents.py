"""What `sandpiper incidents` tells of a store, whatever is in it."""

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import forks
from tests.kept_incidents import (
    HOUR,
    LANDINGS,
    SESSION,
    keep,
    make_closed,
    make_failure,
    make_open,
)
from tests.terminals import run_on_terminal
from worker.incidents.record import GONE, NOBODY, Incident, IncidentState, RequestRecord
from worker.sessions.folder import FolderStore

AT = 1_800_000_000.0
HOSTILE = "\x1b[31mred\x1b[0m \u202egnirts\n/close @all <script>"
ENV = {"GITLAB_URL": "https://gitlab.example.com"}


def run(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    more = {**ENV, "SANDPIPER_STORE": f"file://{root}", **env}
    return forks.run((forks.SANDPIPER, "incidents", *words), more, root, timeout=120)


def read_json(root: Path, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(root, *words, "--json").stdout.splitlines()]


def keep_some(root: Path) -> None:
    store = FolderStore(root)
    later, gone = make_closed(AT + HOUR, number=95), make_closed(AT - HOUR, GONE, 80)
    flake = make_closed(AT + 3 * HOUR, NOBODY, 99)
    keep(store, [gone, make_closed(AT), later, flake, make_open(AT - 9 * HOUR)])
    suspected = replace(
        make_open(AT + 9 * HOUR), state=IncidentState.SUSPECTED, told_requests=(), short=()
    )
    keep(store, [suspected], project_id=8, project="aviary/gull", branch="release/1")


def test_the_open_ones_come_first_then_the_newest_and_no_flake(tmp_path: Path) -> None:
    keep_some(tmp_path)
    expected = [
        *(("main-101", "open"), ("main-101", "suspected"), ("main-95", "closed")),
        *(("main-90", "closed"), ("main-80", "closed")),
    ]
    for words in ((), ("list",)):
        found = [(row["incident"], row["state"]) for row in read_json(tmp_path, *words)]
        assert found == expected


def test_a_line_says_since_when_what_by_whom_and_who_is_hit(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    request = RequestRecord(50, 300, AT, told_incidents=("main-101",))
    keep(store, [make_open(AT), make_closed(AT - 9 * HOUR)], [request])
    head, opened, closed = run(tmp_path).stdout.splitlines()
    assert not (tmp_path / "keys").exists()
    assert head.split("  ")[0] == "incident"
    cells = [cell.strip() for cell in opened.split("  ") if cell.strip()]
    assert cells == [
        *("main-101", "2027-01-15 08:00", "aviary/tern main"),
        *("test: E assert clock() == 24", "!123 Count hours anew", "3", "open", "-"),
    ]
    assert closed.split()[-3:] == ["closed", "2027-01-15", "01:00"]


def test_a_project_is_chosen_by_id_path_or_glob(tmp_path: Path) -> None:
    keep_some(tmp_path)
    for project, count in (("8", 1), ("aviary/gull", 1), ("aviary/*", 5), ("other", 0), ("9", 0)):
        for words in (("--project", project), ("list", "--project", project)):
            assert len(read_json(tmp_path, *words)) == count, project
    told = run(tmp_path, "--project", "other")
    assert (told.returncode, told.stdout) == (0, "")
    assert "there are no incidents" in told.stderr


def test_json_has_these_fields(tmp_path: Path) -> None:
    keep(FolderStore(tmp_path), [make_open(AT)])
    (row,) = read_json(tmp_path)
    assert row == {
        "incident": "main-101",
        "project": "aviary/tern",
        "project_id": 7,
        "branch": "main",
        "state": "open",
        "since": "2027-01-15T08:00:00Z",
        "until": None,
        "failures": [
            {
                "error": "E   assert clock() == 24",
                "jobs": ["test"],
                "since": "2027-01-15T08:00:00Z",
                "since_pipeline": 101,
                "since_url": "https://gitlab.example.com/aviary/tern/-/pipelines/101",
                "green_pipeline": 100,
                "landings": [row["failures"][0]["suspect"]],
                "suspect": {
                    "sha": "a" * 40,
                    "mr": 123,
                    "title": "Count hours anew",
                    "author": "dev1",
                },
                "until": None,
                "until_pipeline": None,
                "until_url": "",
                "ended_by": "",
            }
        ],
        "hit": [40, 41],
        "without_model": [40],
        "menders": [130],
        "saved_seconds": 120.0,
        "verdict": "change",
        "cause": "The clock counts to 25.",
        "to_do": "Wait for !130.",
        "session": SESSION,
        "issue": None,
    }
    told = " ".join(run(tmp_path, "list", "--help").stdout.split())
    for name in (*row, *row["failures"][0], *row["failures"][0]["suspect"]):
        assert name in told


def test_show_tells_each_error_what_landed_and_the_finding(tmp_path: Path) -> None:
    second = make_failure(AT + 60, "moon", since_pipeline=102, landings=(LANDINGS[1].sha, "c" * 40))
    incident = replace(make_open(AT), failures=(make_failure(AT), second))
    keep(FolderStore(tmp_path), [incident])
    page = {"SANDPIPER_PAGES__URL": "https://sandpiper.example.com"}
    told = run(tmp_path, "show", "main-1", **page).stdout
    for words in (
        "cause            The clock counts to 25.",
        "hit              !40, !41",
        "without a model  !40",
        "being mended in  !130",
        "saved            2 min",
        f"https://sandpiper.example.com/sessions/{SESSION}?sig=",
        *("E assert clock() == 24", "E assert moon() == 24", "99999999, pipeline 100"),
        "2027-01-15 08:01, pipeline 102 https://gitlab.example.com/aviary/tern/-/pipelines/101",
        "  2027-01-15 05:30 !130 Mend the clock by dev2\n  cccccccc\n",
    ):
        assert words in told, words
    (row,) = read_json(tmp_path)
    shown = json.loads(run(tmp_path, "show", "main-101", "--json").stdout)
    assert shown == row | {"page": ""}


def test_show_tells_how_it_ended(tmp_path: Path) -> None:
    keep_some(tmp_path)
    for name, words in (
        ("main-90", "until     2027-01-15 10:00: !130 Mend the clock"),
        ("main-80", "its job or branch is gone"),
        ("main-99", "withdrawn, red for 2 h 00 min"),
    ):
        assert words in run(tmp_path, "show", name).stdout


def test_an_unclear_name_is_told(tmp_path: Path) -> None:
    keep_some(tmp_path)
    several, none = run(tmp_path, "show", "main-101"), run(tmp_path, "show", "nope")
    assert several.returncode == none.returncode == 1
    assert "main-101 of aviary/tern, main-101 of aviary/gull" in several.stderr
    assert "there is no incident 'nope'" in none.stderr
    assert run(tmp_path, "show", "main-101", "--project", "8").returncode == 0
    assert run(tmp_path, "nope").returncode == 2


def make_hostile() -> Incident:
    failure = make_failure(AT, text=HOSTILE, jobs=(HOSTILE,), landings=("z" * 40,), suspect="")
    return replace(make_open(AT), failures=(failure,), cause=HOSTILE, to_do=HOSTILE)


def test_nothing_that_others_wrote_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    landing = replace(LANDINGS[0], title=HOSTILE, author=HOSTILE, sha="z" * 40)
    keep(FolderStore(tmp_path), [make_hostile()], landings=(landing,), project=HOSTILE)
    for words in ((), ("show", "main")):
        told = run(tmp_path, *words).stdout
        assert "\x1b" not in told
        assert "\u202e" not in told
        assert "\n/close" not in told


def test_a_terminal_gets_the_table_in_its_width(tmp_path: Path) -> None:
    keep(FolderStore(tmp_path), [make_open(AT)])
    env = {**ENV, "SANDPIPER_STORE": f"file://{tmp_path}"}
    told = run_on_terminal(("incidents",), env, tmp_path, columns=140)
    assert max(map(len, told.splitlines())) <= 140


def test_absurd_times_are_told_as_none(tmp_path: Path) -> None:
    keep(FolderStore(tmp_path), [replace(make_closed(-9e10), closed_at=9e10)])
    assert run(tmp_path).returncode == run(tmp_path, "show", "main").returncode == 0
    assert read_json(tmp_path)[0]["since"] == ""


def test_the_report_has_a_line_of_them(tmp_path: Path) -> None:
    def report(*words: str) -> str:
        env = {**ENV, "SANDPIPER_STORE": f"file://{tmp_path}"}
        return forks.run((forks.SANDPIPER, "report", *words), env, tmp_path, timeout=120).stdout

    assert "red branches" not in report()
    now = time.time()
    long_over, over = make_closed(now - 100 * 24 * HOUR), make_closed(now - 5 * HOUR, number=91)
    keep(FolderStore(tmp_path), [make_open(now - 600), over, long_over])
    words = (
        "2 incidents (1 open), red for 2 h 10 min, 3 merge requests hit, "
        "1 of them answered without a model, which saved 2 min"
    )
    assert f"red branches: {words}\n" in report()
    assert f"Red branches: {words}.\n" in report("--digest")
    assert "red branches: 3 incidents" in report("--days", "365")
    assert "red branches" not in report("--project", "other/*")
    counted = json.loads(report("--json"))["incidents"]
    assert 7800 <= counted.pop("red_seconds") < 7900
    expected = {"count": 2, "open": 1, "hit": 3, "without_model": 1, "saved_seconds": 120}
    assert counted == expected
