"""Every way to ask, through the product's own processes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.flow.product import DOCKER, Product, product
from tests.simulators.gitlab import Access
from worker.lab import story
from worker.lab.gitlab.views import Receiver
from worker.lab.script import Asked, Call, Scripted

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    """The bundled case with the embedded broker and a folder store."""
    with product(tmp_path, story.make_script(), "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.gitlab.quick_actions == []


def ask_by_token(told: Product, token: str) -> httpx.Response:
    return httpx.post(
        f"{told.url}/triggers/ci", headers={"authorization": f"Bearer {token}"}, timeout=10
    )


def test_a_ci_job_asks_while_its_pipeline_still_runs(told: Product) -> None:
    told.scene.pipeline.status = "running"
    with told.serve() as serve:
        wrong = ask_by_token(told, told.gitlab.make_id_token(told.scene.pipeline, "another"))
        assert wrong.status_code == 401
        answer = ask_by_token(told, told.gitlab.make_id_token(told.scene.pipeline))
        assert answer.status_code == 202
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        serve.until(lambda: not told.unfinished(), "the trigger has not ended")
        told.scene.pipeline.status = "failed"
        assert told.pipeline_failed().status_code == 202
        serve.until(lambda: "were looked at" in serve.log.read_text(), "it was not recognised")
    (note,) = told.notes()
    assert "caused by this change" in note.body.lower()


def test_a_command_is_acknowledged_and_a_question_by_mention_answered(told: Product) -> None:
    with told.serve() as serve:
        asked = told.gitlab.comment(told.scene.mr, told.scene.author, "/sandpiper analyze")
        assert asked is not None
        serve.until(lambda: asked.awards, "no sign on the note")
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        question = f"@{told.scene.bot.username} {story.QUESTION}"
        mention = told.gitlab.comment(told.scene.mr, told.scene.author, question)
        assert mention is not None
        serve.until(lambda: len(told.objects("context.json")) == 2, "no second turn")
        serve.until(lambda: not (asked.awards or mention.awards), "the signs were left")
    analysis, answer = told.notes()
    assert "caused by this change" in analysis.body.lower()
    assert answer.discussion_id == mention.discussion_id
    assert "[Window(start=1380, end=1500)]" in answer.body


EXPLAIN = """\
---
name: explain
description: say it simply
triggers: [command:explain]
---
Explain it to somebody who is new.
"""


def test_the_command_of_any_workflow_is_given_in_a_comment(told: Product) -> None:
    folder = told.folder / "workflows"
    folder.mkdir()
    (folder / "explain.md").write_text(EXPLAIN)
    told.write_settings("workflows: workflows\n")
    with told.serve() as serve:
        told.gitlab.comment(told.scene.mr, told.scene.author, "/sandpiper explain")
        serve.until(lambda: told.objects("context.json"), "the workflow was not run")
        for count, text in enumerate(("/sandpiper help", "/sandpiper analyze"), 2):
            told.gitlab.comment(told.scene.mr, told.scene.author, text)
            serve.until(lambda count=count: len(told.notes()) == count, f"no answer to {text}")  # type: ignore[misc]
    assert "Explain it to somebody who is new." in str(told.model.requests[0]["system"])
    explained, listed, refused = told.notes()
    assert "Caused by this change" in explained.body
    assert "`/sandpiper explain`: say it simply" in listed.body
    assert "no workflow has 'command:analyze' among its triggers" in refused.body


def test_a_running_analysis_is_stopped_by_a_comment(tmp_path: Path) -> None:
    def look(asked: Asked) -> Call:
        return Call([("sandbox_exec", {"command": "sleep 0.2"})], "So far: nothing.")

    with product(tmp_path, Scripted([look] * 45), "memory://") as told:
        with told.serve() as serve:
            told.pipeline_failed()
            serve.until(lambda: told.model.requests, "the analysis has not begun")
            told.gitlab.comment(told.scene.mr, told.scene.author, "/sandpiper stop")
            serve.until(lambda: told.objects("context.json"), "the analysis did not end")
        assert len(told.model.requests) < 45
        analysis, said = told.notes()
        assert "Stopped on request" in analysis.body
        assert "Stopping" in said.body


@pytest.mark.usefixtures("sandbox_image")
def test_a_sweep_makes_a_lost_webhook_good_and_may_come_again(told: Product) -> None:
    told.use_docker()
    told.write_settings("gitlab: {projects: ['northsound/*']}\n")
    tried = told.run("sweep", "--hours", "1000000", "--dry-run")
    assert (tried.returncode, tried.stderr.count("Traceback")) == (0, 0)
    assert "would be begun" in tried.stdout
    assert told.notes() == []
    done = told.run("sweep", "--hours", "1000000")
    assert done.returncode == 0, done.stderr
    (note,) = told.notes()
    assert "caused by this change" in note.body.lower()
    again = told.run("sweep", "--hours", "1000000")
    assert "was looked at already" in again.stdout
    told.write_settings("retention: {days: 0.000001}\n")
    old = told.run("sweep", "--hours", "0.01", "--dry-run")
    assert re.search("session .*: would be removed", old.stdout), old.stderr
    assert told.objects("context.json")
    assert len(told.notes()) == 1


def test_a_sweep_hands_on_to_the_workers_of_a_broker(tmp_path: Path, redis_url: str) -> None:
    with product(tmp_path, story.make_script(), redis_url) as told:
        done = told.run("sweep", "--hours", "1000000", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        result = json.loads(done.stdout)
        assert result["dry_run"] is False
        (row,) = [row for row in result["lines"] if row["kind"] == "pipeline"]
        assert row["result"] == "begun"
        assert row["line"] == f"{row['what']}: begun"
        assert told.notes() == []
        with told.process("worker", "--concurrency", "2") as worker:
            worker.until(lambda: told.objects("context.json"), "the analysis was not stored")
        assert len(told.notes()) == 1


@pytest.mark.usefixtures("sandbox_image")
def test_a_sweep_may_leave_sandboxes_to_the_workers_own_engines(
    tmp_path: Path, redis_url: str
) -> None:
    with product(tmp_path, story.make_script(), redis_url, driver=DOCKER) as told:
        told.env["DOCKER_HOST"] = "tcp://127.0.0.1:1"
        failed = told.run("sweep", "--json")
        assert failed.returncode == 1
        assert json.loads(failed.stdout)["lines"] == []
        assert failed.stderr.startswith("sandpiper: ")
        done = told.run("sweep", "--hours", "1000000", "--keep-sandboxes")
        assert (done.returncode, "begun" in done.stdout) == (0, True), done.stderr


def test_each_project_s_webhook_has_its_own_secret_from_fix_to_note(told: Product) -> None:
    project, other = told.scene.mr.project, told.gitlab.add_project("northsound/other")
    for each in (project, other):
        told.gitlab.add_member(each, told.scene.bot, Access.MAINTAINER)
    told.env |= {"GITLAB_WEBHOOK_SECRET": "", "GITLAB_WEBHOOK_KEY": "k" * 32}
    with told.serve() as serve:
        done = told.run("doctor", "--fix", "--url", told.url, "--only", "webhook")
        assert done.returncode == 0, done.stdout + done.stderr
        own, others = (told.gitlab.webhooks.by_project[each.id][0] for each in (project, other))
        assert own.token != others.token
        for leaked in (
            Receiver(others.url, others.token),
            Receiver(own.url, others.token),
            Receiver(others.url.partition("?")[0], others.token),
            Receiver(own.url, "k" * 32),
        ):
            told.gitlab.receiver = leaked
            assert told.pipeline_failed().status_code == 401
        told.gitlab.receiver = Receiver(own.url, own.token)
        assert told.pipeline_failed().status_code == 202
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        assert "k" * 32 not in done.stdout + serve.log.read_text()
        printed = told.run("webhook", str(project.id), "--url", told.url).stdout
        assert printed == f"URL: {own.url}\nSecret token: {own.token}\n"
