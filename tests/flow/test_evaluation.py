"""The bundled cases through the whole product, and what the scoring makes of planted answers."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import evaluated
from tests.evaluated import CASES, MODEL, answer_right, answer_so
from tests.flow.product import DOCKER, Product, product
from worker.lab import story
from worker.lab.cases import Case, find_cases, load_case
from worker.lab.gitlab.world import World
from worker.lab.running import stage_case
from worker.lab.scoring import Played
from worker.lab.script import Script

pytestmark = pytest.mark.usefixtures("bubblewrap")

FOLDERS = find_cases((CASES,))


def play(case: Case, script: Script) -> Played:
    """Play a case with a scripted model and sandboxes of bubblewrap."""
    return evaluated.play(case, MODEL, script, driver="bubblewrap")


def test_there_are_enough_of_them() -> None:
    assert len(FOLDERS) >= 20


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_right_answer_is_scored_as_right(folder: Path) -> None:
    case = load_case(folder)
    made = play(case, answer_right(case))
    assert made.problem == ""
    assert made.is_right
    assert made.has_expected_line
    assert not made.is_falsely_confident
    assert made.seconds_to_note is not None


ROUNDING = load_case(CASES / "rounding-per-row")
CHANGE, FLAKY, UNKNOWN = "caused by this change", "flaky", "unknown"
CAUSE, PROOF = "billing/total.py rounds each row.", "assert 0.3.* == 0.38"


@pytest.mark.parametrize(
    ("verdict", "cause", "line", "scores"),
    [
        (FLAKY, CAUSE, PROOF, (False, True, True, True)),
        (CHANGE, "A race in billing/total.py.", PROOF, (True, False, True, True)),
        (CHANGE, "The total is rounded per row.", PROOF, (True, False, True, True)),
        (CHANGE, CAUSE, "gitlab-runner", (False, True, False, False)),
        (UNKNOWN, "Nothing is known.", PROOF, (False, False, True, False)),
    ],
)
def test_a_planted_wrong_answer_is_found_out(
    verdict: str, cause: str, line: str, scores: tuple[bool, ...]
) -> None:
    made = play(ROUNDING, answer_so(ROUNDING, verdict, cause, line))
    found = (made.is_verdict_right, made.is_cause_right, made.has_expected_line)
    assert (*found, made.is_falsely_confident) == scores


def test_an_invented_quote_proves_nothing() -> None:
    script = answer_so(ROUNDING, CHANGE, CAUSE, "no line has this")
    made = play(ROUNDING, script)
    assert not made.has_expected_line
    assert made.proven_quotes == 0


def run_eval(made: Product, *arguments: str) -> Any:
    done = made.run("eval", "run", str(CASES / "rounding-per-row"), "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("sandbox_image")
def test_the_command_plays_keeps_and_goes_on(tmp_path: Path) -> None:
    with product(tmp_path, answer_right(ROUNDING), "memory://", driver=DOCKER) as made:
        kept = ("--results", "results.jsonl")
        first = run_eval(made, "--model", MODEL, *kept)
        requests = len(made.model.requests)
        assert requests == 2
        again = run_eval(made, "--model", MODEL, "--repeat", "2", *kept)
        assert len(made.model.requests) == 2 * requests
        assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
    (summary,) = first["models"]
    assert summary["right"] == {"hits": 1, "total": 1, "low": 0.2065, "high": 1.0}
    (summary,) = again["models"]
    assert summary["runs"] == 2


def test_too_few_right_runs_fail_the_command_and_a_cost_cap_ends_it(tmp_path: Path) -> None:
    wrong = answer_so(ROUNDING, FLAKY, "A race.", PROOF)
    with product(tmp_path, wrong, "memory://") as made:
        folder = str(CASES / "rounding-per-row")
        done = made.run("eval", "run", folder, "--min-right", "0.9", "--markdown")
        assert done.returncode == 1
        assert "- rounding-per-row" in done.stdout
        assert "verdict flaky, cause, falsely sure" in done.stdout
        done = made.run("eval", "run", folder, "--repeat", "3", "--max-cost", "0.001")
        assert done.returncode == 3
        assert "2 runs left out" in done.stderr
        for bad in (str(tmp_path / "none"), str(tmp_path)):
            assert made.run("eval", "run", bad).returncode == 2


def test_a_model_that_cannot_be_asked_is_refused_before_the_first_run(tmp_path: Path) -> None:
    with product(tmp_path, answer_right(ROUNDING), "memory://") as made:
        models = ("--model", MODEL, "--model", "gemini/gemini-2.5-pro")
        done = made.run("eval", "run", str(CASES / "rounding-per-row"), *models)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == "sandpiper: gemini: no API key: set GEMINI_API_KEY"
        assert made.model.requests == []


@pytest.mark.parametrize("by_session", [False, True])
def test_a_failure_is_kept_edited_and_played(by_session: bool, tmp_path: Path) -> None:
    with product(tmp_path, story.make_script(), "memory://") as made:
        asked = ["northsound/ferrytimes!1"]
        if by_session:
            assert made.run("analyze", *asked).returncode == 0
            asked = ["--session", made.objects("context.json")[0].parent.parent.name]
        done = made.run("eval", "record", *asked, "kept")
        assert done.returncode == 0, done.stderr
        assert made.gitlab.unexpected_requests == []
        expected = (tmp_path / "kept" / "expect.yaml").read_text()
        told = "caused by this change" if by_session else "unknown"
        assert f"\nverdict: {told}\n" in expected
        assert made.run("eval", "record", *asked, "kept").returncode == 2
        requests = len(made.model.requests)
        refused = made.run("eval", "run", str(CASES / "rounding-per-row"), "kept")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == (
            "sandpiper: kept/expect.yaml: nothing is filled in yet: say which verdict is right, "
            "and what its cause, files, lines or meaning have to be; remove the fields that you "
            "leave empty\n"
        )
        assert len(made.model.requests) == requests
    shutil.copy(story.CASE / "expect.yaml", tmp_path / "kept")
    case = load_case(tmp_path / "kept")
    assert case.content.merge_request.title == made.scene.mr.title
    assert {job.name for job in case.content.pipeline.jobs} >= {"unit-tests", "lint"}
    assert "ferrytimes/windows.py" in case.read_tree("head")
    assert "tests/test_windows.py" in case.read_tree("base")
    played = play(case, answer_right(case))
    assert played.is_right
    assert played.has_expected_line


def test_what_the_failure_is_compared_with_is_kept_too(tmp_path: Path) -> None:
    with product(tmp_path, story.make_script(), "memory://") as made:
        sim, mr = made.gitlab, made.scene.mr
        mr.commits[-1].message = "Join windows\n\nOnly those that overlap."
        sim.push(mr, {"docs/more.md": b"more\n"}, "More of it")
        main = sim.add_pipeline(
            mr.project, mr.author, ref="main", sha="f" * 40, source="push", status="success"
        )
        sim.add_job(main, "unit-tests", trace=b"all well\n")
        newest = sim.run_pipeline(mr)
        sim.add_job(newest, "unit-tests", status="failed", trace=b"FAILED t.py::t - no\n")
        done = made.run("eval", "record", "northsound/ferrytimes!1", "kept")
        assert done.returncode == 0, done.stderr
        assert sim.unexpected_requests == []
    case = load_case(tmp_path / "kept")
    assert case.content.merge_request.commits == (
        "Join windows\n\nOnly those that overlap.",
        "More of it",
    )
    (earlier,) = case.content.earlier_runs
    assert (earlier.status, earlier.commit, earlier.source) == ("failed", "other-2", "head")
    (job,) = earlier.jobs
    assert b"AssertionError" in (case.read_log(job) or b"")
    *_, green = case.content.target_runs
    assert (green.status, green.commit) == ("success", "other-1")
    assert case.read_log(green.jobs[0]) == b"all well\n"
    world = World()
    staged = stage_case(world, case)
    assert [each.title for each in staged.mr.commits] == ["Join windows", "More of it"]
    newer, older = staged.mr.pipelines
    assert newer.sha == staged.mr.sha != older.sha
    assert [each.name for each in older.jobs] == ["unit-tests"]


def test_a_secret_takes_nothing_else_out_of_a_case(tmp_path: Path) -> None:
    with product(tmp_path, story.make_script(), "memory://") as made:
        made.env["GITLAB_WEBHOOK_SECRET"] = "it's-our-webhook-secret"
        mr = made.scene.mr
        mr.title = "Set DB_PASSWORD=hunter2hunter2xx"
        mr.description = "It's this: it's-our-webhook-secret\nAnd more."
        packed = gzip.compress(b"fixture", mtime=0)
        mr.project.commits[mr.base_sha]["tests/fixture.json.gz"] = packed
        done = made.run("eval", "record", "northsound/ferrytimes!1", "kept")
        assert done.returncode == 0, done.stderr
    case = load_case(tmp_path / "kept")
    told = case.content.merge_request
    assert told.title.startswith("Set DB_PASSWORD=")
    assert "hunter2" not in told.title
    assert told.description.startswith("It's this: ")
    assert told.description.endswith("\nAnd more.")
    assert "our-webhook" not in told.description
    assert case.read_tree("base")["tests/fixture.json.gz"] == packed


def test_an_anonymous_case_names_nobody(tmp_path: Path) -> None:
    with product(tmp_path, story.make_script(), "memory://") as made:
        done = made.run("eval", "record", "northsound/ferrytimes!1", "kept", "--anonymise")
        assert done.returncode == 0, done.stderr
        author = made.scene.author.username
    kept = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    texts = b"".join(
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in kept
    )
    for name in ("northsound", author, "127.0.0.1:"):
        assert name.encode() not in texts, name
        assert not [path for path in kept if name in str(path.relative_to(tmp_path))]
    assert (tmp_path / "kept" / "head" / "project" / "windows.py").is_file()
    assert load_case(tmp_path / "kept").content.project.path == "group/project"
