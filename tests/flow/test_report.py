"""Whether verdicts were right, by what came after them, through the product's own processes."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.flow.product import Product, product
from worker.conversation.context import SessionKey
from worker.lab import story
from worker.sessions.folder import FolderStore
from worker.sessions.recent import Row, dump_row

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    with product(tmp_path, story.make_script(), "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []


def read_report(told: Product, *more: str) -> Any:
    done = told.run("report", "--json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def analyse_and_fix(told: Product, path: str) -> None:
    """The pipeline fails and is explained; a commit to the file makes the next one pass."""
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        told.gitlab.push(told.scene.mr, {path: b"fixed\n"})
        green = told.gitlab.run_pipeline(told.scene.mr, status="success")
        told.gitlab.deliver(told.gitlab.make_pipeline_event(green))
        serve.until(lambda: told.objects("after.json"), "the fix was not noted")


def test_a_fix_in_a_file_that_the_note_names_confirms_it(told: Product) -> None:
    analyse_and_fix(told, "ferrytimes/windows.py")
    report = read_report(told)
    (verdict,) = report["verdict"]
    assert verdict["name"] == "caused by this change"
    assert (verdict["confirmed"], verdict["contradicted"], verdict["open"]) == (1, 0, 0)
    assert verdict["cost_usd_per_right"] > 0
    digest = told.run("report", "--digest").stdout
    assert "| caused by this change | 1 | 1 | 100% (21-100) |" in digest
    assert "caused by this change" in told.run("report").stdout


def test_a_fix_elsewhere_leaves_it_open(told: Product) -> None:
    analyse_and_fix(told, "docs/other.md")
    (verdict,) = read_report(told)["verdict"]
    assert (verdict["confirmed"], verdict["open"]) == (0, 1)


def test_a_pass_without_a_change_contradicts_it(told: Product) -> None:
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        green = told.gitlab.run_pipeline(told.scene.mr, status="success")
        told.gitlab.deliver(told.gitlab.make_pipeline_event(green))
        serve.until(lambda: told.objects("after.json"), "the pass was not noted")
    report = read_report(told)
    assert report["verdict"][0]["contradicted"] == 1
    (wrong,) = report["contradicted"]
    assert wrong["reason"] == "it passed again without a change"
    assert read_report(told, "--project", "other/*")["contradicted"] == []


def test_the_page_says_what_the_command_says_before_and_after_a_sweep(told: Product) -> None:
    token = "the-operators-token-0123"
    told.env["SANDPIPER_OPERATOR_TOKEN"] = token
    told.write_settings("pages: {url: https://sandpiper.example}\n")
    store = FolderStore(told.folder / "store")
    for number, label in enumerate(["confirmed", "confirmed", "contradicted", "", "confirmed"]):
        at, session = time.time() - 2 * 86_400 * (number < 4), f"{number:020x}"
        known = (session, 501, "northsound/ferrytimes", 1, "https://x/1", 9, 0, at, "done", "flaky")
        row = replace(Row(*known, model="a/m", iterations=4), label=label)
        store.recent_turns.put_row(SessionKey(501, 1, session), 0, at, dump_row(row))
    dry = told.run("sweep", "--hours", "0.01", "--dry-run")
    assert "counted" not in dry.stdout
    with told.serve():
        assert httpx.get(f"{told.url}/sessions/report").status_code == 401
        for sweeps in (False, True):
            if sweeps:
                swept = told.run("sweep", "--hours", "0.01")
                assert ": 4 counted" in swept.stdout, swept.stderr
            page = httpx.get(f"{told.url}/sessions/report", auth=("me", token)).text
            assert "75% (30–95)" in page
            for report in (read_report(told), read_report(told, "--fresh")):
                assert (report["all"][0]["verdicts"], report["all"][0]["confirmed"]) == (5, 3)


def test_an_empty_store_has_no_verdicts(told: Product) -> None:
    empty = {"days": 30, "flakiest": [], "frequent": [], "contradicted": []}
    names = ("count", "open", "red_seconds", "hit", "without_model", "saved_seconds")
    retries = dict.fromkeys(("jobs", "passed", "failed"), 0)
    more = {"incidents": dict.fromkeys(names, 0), "retries": retries, "flaky_tests": []}
    assert read_report(told) == empty | more
    assert "There are no verdicts" in told.run("report").stdout


def test_what_comes_after_is_counted_in_the_metrics(told: Product) -> None:
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        green = told.gitlab.run_pipeline(told.scene.mr, status="success")
        told.gitlab.deliver(told.gitlab.make_pipeline_event(green))
        counted = 'sandpiper_verdict_labels_total{label="contradicted",verdict="change"} 1.0'
        serve.until(
            lambda: counted in httpx.get(f"{told.url}/metrics").text, "the label was not counted"
        )
