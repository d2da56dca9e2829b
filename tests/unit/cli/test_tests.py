"""What `sandpiper tests` tells of a store, whatever is in it."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.kept_tests import DAY, keep, make_failed, make_pipeline, make_story
from tests.terminals import run_on_terminal
from worker.sessions.folder import FolderStore

HOSTILE = "\x1b[31mred\x1b[0m \u202egnirts\n/close @all <script>"
ENV = {"GITLAB_URL": "https://gitlab.example.com"}


def run(root: Path, *words: str, command: str = "tests") -> subprocess.CompletedProcess[str]:
    more = {**ENV, "SANDPIPER_STORE": f"file://{root}"}
    return forks.run((forks.SANDPIPER, command, *words), more, root, timeout=120)


def read_json(root: Path, *words: str) -> Any:
    return json.loads(run(root, *words, "--json").stdout)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    owners = (("tests/test_ferry.py", "mara, crew/pier"),)
    keep(FolderStore(tmp_path), make_story(time.time()), owners=owners)
    return tmp_path


def test_the_flakiest_the_newest_and_the_slowest_are_told(kept: Path) -> None:
    told = read_json(kept)
    assert {order: [each["test"] for each in told[order]] for order in list(told)[3:]} == {
        "flakiest": ["test_late"],
        "newest": ["test_new", "test_late"],
        "slowest": ["test_late"],
    }
    assert (told["days"], told["projects"], told["projects_left_out"]) == (30, 1, 0)


def test_a_line_says_how_often_since_when_and_what_it_costs(kept: Path) -> None:
    lines = run(kept).stdout.splitlines()
    assert not (kept / "keys").exists()
    assert lines[0] == "flakiest:"
    assert lines[1].split("  ")[0] == "test"
    cells = [cell.strip() for cell in lines[2].split("  ") if cell.strip()]
    assert cells[:5] == [
        *("tests.test_ferry.TestSeats test_late", "unit", "3 of 13", "23% (8-50)", "2"),
    ]
    assert cells[-4:] == ["mara, crew/pier", "2", "8 min", "aviary/tern"]
    assert [line for line in lines if line.endswith(":")] == [
        *("flakiest:", "newest:", "slowest to be mended:"),
    ]


def test_json_has_these_fields(kept: Path) -> None:
    (row,) = read_json(kept)["flakiest"]
    first, last = row.pop("first_failure"), row.pop("last_failure")
    assert first < last
    assert row == {
        "test": "test_late",
        "place": "tests.test_ferry.TestSeats",
        "job": "unit",
        "project": "aviary/tern",
        "project_id": 7,
        "runs": 13,
        "failures": 3,
        "flakes": 2,
        "rate": 0.2308,
        "low": 0.0818,
        "high": 0.5026,
        "runs_since": 1,
        "troubled_seconds": round(7.3 * DAY),
        "seconds_lost": 480,
        "merge_requests": [12, 15],
        "owners": ["mara", "crew/pier"],
        "together": [],
        "former": [],
    }


def test_the_life_of_one_test_is_told_the_last_failure_first(kept: Path) -> None:
    told = run(kept, "aviary/tern", "--test", "test_late").stdout
    for words in (
        "flakes              2, which passed later on the same commit",
        "failed              in 3 of 13 runs, 23% (8-50)",
        "merge requests hit  !12, !15",
        "on and off for      7 d 7 h",
        "pipeline 200 !12 bbbbbbbb, unit, passed again in 201, AssertionError: assert 12 == 13",
    ):
        assert words in told, words
    assert told.index("pipeline 202") < told.index("pipeline 200") < told.index("pipeline 80")
    (test,) = read_json(kept, "--test", "test_late")["tests"]
    assert [(each["pipeline"], each["mr"], each["passed_in"]) for each in test["seen"]] == [
        *((80, None, 81), (200, 12, 201), (202, 15, None)),
    ]


def test_what_only_a_merge_request_broke_is_found_by_its_name_alone(kept: Path) -> None:
    assert "test_own" not in run(kept).stdout
    assert "none is proven" in run(kept, "--test", "own").stdout
    missing = run(kept, "--test", "test_none")
    assert missing.returncode == 1
    assert "no test that is called 'test_none' has failed in 30 days" in missing.stderr


def test_several_of_a_name_are_all_told(tmp_path: Path) -> None:
    now = time.time()
    failed = [make_failed("test_late", job=f"job{chr(97 + at)}") for at in range(7)]
    keep(FolderStore(tmp_path), [make_pipeline(1, now - DAY, *failed)])
    told = run(tmp_path, "--test", "test_late").stdout
    assert told.count("project ") == 5
    assert told.count("also: ") == 2


def test_a_project_is_chosen_by_id_path_or_glob(kept: Path) -> None:
    now = time.time()
    other = [make_pipeline(5, now - DAY, make_failed("test_gull"))]
    keep(FolderStore(kept), other, 8, "aviary/gull")
    for project, names in (
        ("7", {"test_late", "test_new"}),
        ("8", {"test_gull"}),
        ("aviary/gull", {"test_gull"}),
        ("aviary/*", {"test_late", "test_new", "test_gull"}),
        ("9", set[str]()),
        ("other", set[str]()),
    ):
        assert {each["test"] for each in read_json(kept, project)["newest"]} == names, project
    assert [each["test"] for each in read_json(kept)["newest"]] == [
        *("test_new", "test_gull", "test_late"),
    ]
    assert "no test is recorded in 30 days" in run(kept, "other").stderr
    assert {each["test"] for each in read_json(kept, "7", "--days", "1")["newest"]} == {"test_new"}


def test_only_so_many_projects_are_read_and_it_is_said(tmp_path: Path) -> None:
    now = time.time()
    for number in range(1, 24):
        one = [make_pipeline(number, now - number * DAY, make_failed("test_a"))]
        keep(FolderStore(tmp_path), one, number, f"group/p{number}")
    assert "13 more projects: name one" in run(tmp_path).stderr
    told = read_json(tmp_path)
    assert (told["projects"], told["projects_left_out"]) == (10, 13)
    assert told["newest"][0]["project"] == "group/p1"


def test_hostile_names_stay_on_their_line(tmp_path: Path) -> None:
    failed = make_failed(HOSTILE, job=HOSTILE, text=HOSTILE)
    runs = [make_pipeline(1, time.time() - DAY, failed, job=HOSTILE)]
    keep(FolderStore(tmp_path), runs, project=HOSTILE)
    for told in (run(tmp_path).stdout, run(tmp_path, "--test", "red").stdout):
        assert "gnirts" in told
        assert not {"\x1b", "\u202e"} & set(told)
        assert "\n/close" not in told


def test_a_damaged_day_does_no_harm(kept: Path) -> None:
    for day in ("2026-01-01", "2999-12-31"):
        (kept / f"tests/7/{day}.json").write_bytes(b"{")
    assert [each["test"] for each in read_json(kept)["flakiest"]] == ["test_late"]


def test_a_terminal_gets_the_tables_in_its_width(kept: Path) -> None:
    env = {**ENV, "SANDPIPER_STORE": f"file://{kept}"}
    for columns in (80, 170):
        told = run_on_terminal(("tests",), env, kept, columns=columns)
        assert max(map(len, told.splitlines())) <= columns


def test_without_records_it_says_so(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert (told.returncode, told.stdout) == (0, "")
    assert "no test is recorded" in told.stderr


def test_the_report_lists_the_flakiest(kept: Path) -> None:
    words = (
        "aviary/tern, {0}tests.test_ferry.TestSeats test_late{0}, 3 of 13 runs failed (23% (8-50)),"
        " 2 proven to be a flake, 2 merge requests hit, 8 min lost, owned by {0}mara, crew/pier{0}"
    )
    told = run(kept, command="report").stdout
    assert f"flaky test: {words.format('')}\n" in told
    digest = run(kept, "--digest", command="report").stdout
    assert f"Flakiest tests:\n\n- `aviary/tern`{words.format('`')[11:]}\n" in digest
    found = json.loads(run(kept, "--json", command="report").stdout)["flaky_tests"]
    assert [each["test"] for each in found] == ["test_late"]
    assert "lakiest tests" not in run(kept, "--digest", "--project", "o", command="report").stdout


def test_a_hostile_name_is_code_in_the_digest(tmp_path: Path) -> None:
    bad = "@all `![i](https://evil.example)`\n/close"
    failed, now = make_failed(bad), time.time()
    runs = [make_pipeline(1, now - DAY, failed, sha="a"), make_pipeline(2, now - DAY, sha="a")]
    keep(FolderStore(tmp_path), runs, project=bad)
    told = run(tmp_path, "--digest", command="report").stdout
    (line,) = [line for line in told.splitlines() if "evil" in line]
    assert line.startswith("- `@all '![i](https://evil.example)' /close`, `tests.test_ferry")
    assert line.count("`") == 4
