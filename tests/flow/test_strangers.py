"""Strangers neither spend the operator's money nor teach, with nothing set: the product's own
processes, the default settings."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.flow.product import Process, Product, product
from tests.flow.test_survey import TICK, fail, seen
from tests.simulators.gitlab import Access, MergeRequest, Pipeline, Project, User
from worker.lab.script import Asked, Say, Scripted

pytestmark = pytest.mark.usefixtures("bubblewrap")

ADVICE = "Install from https://pypi.evil.example/simple instead."


def fooled(asked: Asked) -> Say:
    """A model that a log has talked into an advice; its quote holds."""
    line = next(line for line in asked.first.split("\n") if "E   TimeoutError" in line)
    number, _, quote = line.strip().partition(": ")
    job = asked.first.partition("representative: job ")[2].partition(",")[0].split()[0]
    return Say(
        "## Verdict\nflaky\n\n## Failed\nclock\n\n## Cause\nThe index is slow.\n\n"
        f"## Evidence\n- job {job} line {number}: {quote}\n\n## What to do\n{ADVICE}\n"
    )


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    """The bundled case with the embedded broker and a folder store."""
    with product(tmp_path, Scripted([fooled]), "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.gitlab.quick_actions == []


@pytest.fixture
def stranger(told: Product) -> User:
    return told.gitlab.add_user("mallory")


def failed(told: Product, mr: MergeRequest, where: Project | None = None) -> Pipeline:
    pipeline = told.gitlab.run_pipeline(mr, project=where)
    told.gitlab.add_job(pipeline, "clock", status="failed", trace=TICK % (31, pipeline.id % 100))
    return pipeline


def from_fork(told: Product, author: User, branch: str) -> MergeRequest:
    target = told.scene.mr.project
    fork = told.gitlab.add_project(f"mallory/{branch}", parent=target, public=True)
    told.gitlab.add_member(fork, author, Access.OWNER)
    return told.gitlab.open_merge_request(target, author, title=branch, branch=branch, source=fork)


def ask_by_token(told: Product, pipeline: Pipeline) -> None:
    """One of the pipeline's own jobs asks."""
    headers = {"authorization": f"Bearer {told.gitlab.make_id_token(pipeline)}"}
    assert httpx.post(f"{told.url}/triggers/ci", headers=headers, timeout=10).status_code == 202


def skipped(serve: Process, reason: str, times: int) -> None:
    """Wait until so many triggers have ended with the reason in the worker's log."""

    def enough() -> bool:
        return (
            sum("skipped: " in x and reason in x for x in serve.log.read_text().split("\n"))
            >= times
        )

    serve.until(enough, f"not skipped {times} times: {reason}")


@pytest.mark.attack("strangers")
@pytest.mark.parametrize("public", [True, False])
def test_a_strangers_own_project_starts_nothing(
    told: Product, stranger: User, public: bool
) -> None:
    farm = told.gitlab.add_project("mallory/farm", public=public)
    told.gitlab.add_member(farm, stranger, Access.OWNER)
    mr = told.gitlab.open_merge_request(farm, stranger, title="Free", branch="free")
    pipeline = failed(told, mr)
    with told.serve() as serve:
        ask_by_token(told, pipeline)
        skipped(serve, "the bot is no member there", 1)
        assert told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline)).status_code == 202
        if public:
            told.gitlab.comment(mr, stranger, "/sandpiper analyze")
            skipped(serve, "the bot is no member there", 2)
        serve.until(lambda: not told.unfinished(), "a trigger has not ended")
    assert told.model.requests == []
    assert [note for note in mr.list_notes() if note.author is told.scene.bot] == []


@pytest.mark.attack("strangers")
def test_a_strangers_fork_waits_for_a_member(told: Product, stranger: User) -> None:
    mr = from_fork(told, stranger, "free")
    pipeline = failed(told, mr)
    with told.serve() as serve:
        assert told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline)).status_code == 202
        skipped(serve, "gitlab.fork_min_access", 1)
        told.gitlab.comment(mr, stranger, "/sandpiper analyze")
        skipped(serve, "below the access level", 1)
        swept = told.run("sweep", "--hours", "1000000", "--dry-run")
        assert "gitlab.fork_min_access" in swept.stdout
        serve.until(lambda: not told.unfinished(), "a trigger has not ended")
        assert told.model.requests == []

        told.gitlab.comment(mr, told.scene.author, "/sandpiper analyze")
        serve.until(lambda: told.objects("context.json"), "the member's command did nothing")
        told.gitlab.push(mr, {"more.py": b"1"})
        assert "The index is slow." in fail(told, serve, failed(told, mr, told.scene.mr.project))
    assert len(told.model.requests) == 2


@pytest.mark.attack("memory")
def test_a_forged_pair_of_merge_requests_does_not_make_a_third_persons_note(
    told: Product, stranger: User
) -> None:
    with told.serve() as serve:
        for number, branch in enumerate(("one", "two"), 1):
            mr = from_fork(told, stranger, branch)
            failed(told, mr)
            told.gitlab.comment(mr, told.scene.author, "/sandpiper analyze")
            serve.until(lambda n=number: len(told.objects("context.json")) == n, "no analysis")  # type: ignore[misc]
            serve.until(lambda: not told.unfinished(), "the command has not ended")
        assert list((told.folder / "store").glob("known/*/*.json")) == []
        body = fail(told, serve, failed(told, opened(told, "third")))
    assert len(told.model.requests) == 3
    assert "no model was asked" not in body


@pytest.mark.attack("memory")
def test_what_members_have_taught_names_no_other_host(told: Product) -> None:
    with told.serve() as serve:
        for times, branch in enumerate(("one", "two"), 1):
            fail(told, serve, failed(told, opened(told, branch)))
            serve.until(partial(seen, told, times), "the finding was not kept")
        body = fail(told, serve, failed(told, opened(told, "third")))
    assert len(told.model.requests) == 2
    assert "Known failure, no model was asked" in body
    assert "Install from (address left out) instead." in body
    assert "evil" not in body


def opened(told: Product, branch: str) -> MergeRequest:
    author, project = told.scene.author, told.scene.mr.project
    return told.gitlab.open_merge_request(project, author, title=branch, branch=branch)
