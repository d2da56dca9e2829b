"""One cause of many jobs, plain causes and known failures, by the product's own processes."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.flow.product import Process, Product, product
from tests.simulators.gitlab import MergeRequest, Pipeline
from worker.lab.gitlab.state import DiffFile
from worker.lab.script import Asked, Say, Scripted
from worker.safety.markdown import find_marker

pytestmark = pytest.mark.usefixtures("bubblewrap")

TICK = b"""\
section_start:1763629202:step_script\r\x1b[0K\x1b[0KExecuting "step_script" stage of the job script
$ pytest -q
E   TimeoutError: the ferry clock did not tick after %d.%02d s
FAILED tests/test_clock.py::test_tick - TimeoutError: the ferry clock did not tick
section_end:1763629206:step_script\r\x1b[0K
\x1b[31;1mERROR: Job failed: exit code 1\x1b[0;m
"""
LINT = b"""\
Executing "step_script" stage of the job script
ferrytimes/routes.py:9:1: error: F401 'os' imported but unused
ERROR: Job failed: exit code 1
"""
PULL = b"""\
Running with gitlab-runner 18.5.0 (bda84871)
Pulling docker image docker.io/library/python:3.12 ...
ERROR: Job failed: failed to pull image "docker.io/library/python:3.12" with specified policies \
[always]: Error response from daemon: toomanyrequests: You have reached your unauthenticated pull \
rate limit (manager.go:238:1s)
"""
CAUSE = "The clock waits for a tick that comes late."


def flaky(asked: Asked) -> Say:
    """What a model would say from the survey alone."""
    quote = re.search(r"^ +(\d+): (E +TimeoutError.*)$", asked.first, re.MULTILINE)
    job = re.search(r"representative: job (\d+)", asked.first)
    assert quote is not None
    assert job is not None
    return Say(
        f"## Verdict\nflaky\n\n## Failed\n{asked.first.count('Group ')} causes\n\n## Cause\n{CAUSE}"
        f"\n\n## Evidence\n- job {job[1]} line {quote[1]}: {quote[2]}\n\n## What to do\nRetry it.\n"
    )


def answer(asked: Asked) -> Say:
    if "Run the whole workflow" in asked.human:
        return flaky(asked)
    return Say("The registry lets no more of us in this hour.")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    """The bundled case with the embedded broker and a folder store."""
    with product(tmp_path, Scripted([flaky], [answer]), "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []
        assert made.gitlab.quick_actions == []


def fail(told: Product, serve: Process, pipeline: Pipeline) -> str:
    """The note that the failed pipeline's webhook brings."""
    assert pipeline.mr is not None
    stored = len(told.objects("context.json"))
    assert told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline)).status_code == 202
    serve.until(lambda: len(told.objects("context.json")) > stored, "nothing was stored")
    notes = [note for note in pipeline.mr.list_notes() if note.author is told.scene.bot]
    return notes[-1].body


def seen(told: Product, times: int) -> bool:
    """Whether the known errors have been seen so often."""
    kept = (told.folder / "store").glob("known/*/*.json")
    counts: list[int] = [json.loads(each.read_bytes())["count"] for each in kept]
    return sum(counts) == times


def test_twelve_variants_and_a_linter_are_two_causes_for_model_and_reader(told: Product) -> None:
    pipeline = told.gitlab.run_pipeline(told.scene.mr)
    for number in range(12):
        name, trace = f"unit-tests: [3.{number}, linux]", b"line\n" * number + TICK % (30, number)
        told.gitlab.add_job(pipeline, name, status="failed", trace=trace)
    told.gitlab.add_job(pipeline, "lint", status="failed", trace=LINT)
    with told.serve() as serve:
        body = fail(told, serve, pipeline)
    first = str(told.model.requests[0]["messages"][0])
    assert "Group 1: unit-tests (12 of 12 variants)" in first
    assert "Group 2: lint" in first
    assert "Group 3" not in first
    assert "**Failed:** `unit-tests` ([12 of 12 variants](" in body
    assert f"`lint` ([{pipeline.jobs[-1].id}](" in body
    listed = [line for line in body.split("\n") if "unit-tests (12 of 12 variants)" in line]
    assert any(f"/-/jobs/{job.id})" in line for line in listed for job in pipeline.jobs[11:12])
    assert any(line.startswith("- lint: [") for line in body.split("\n"))
    assert "could not be proven" not in body


def test_a_plain_cause_is_told_without_model_or_sandbox_and_a_reply_asks_the_model(
    told: Product,
) -> None:
    pipeline = told.gitlab.run_pipeline(told.scene.mr)
    told.gitlab.add_job(
        pipeline, "build", status="failed", failure_reason="runner_system_failure", trace=PULL
    )
    with told.serve() as serve:
        body = fail(told, serve, pipeline)
        assert told.model.requests == []
        assert "**Infrastructure: not caused by this change**" in body
        assert "limit of pulls" in body
        assert f"job {pipeline.jobs[0].id}, line 3" in body
        assert "Found by rule, no model was asked" in body
        (context,) = told.objects("context.json")
        assert context.parent.name == "0000"
        assert told.objects("sandbox.tar.gz") == []
        marker = find_marker(body)
        assert marker is not None
        assert told.list_sandboxes(marker.session_id) == []

        (note,) = told.notes()
        told.gitlab.comment(told.scene.mr, told.scene.author, "How long?", note.discussion_id)
        serve.until(lambda: len(told.objects("context.json")) == 2, "the reply was not stored")
    assert "lets no more of us in" in told.notes()[-1].body
    assert len(told.model.requests) == 1


def test_a_broken_configuration_is_the_changes_where_it_touches_it(told: Product) -> None:
    told.scene.mr.diffs.append(DiffFile(".gitlab-ci.yml", "@@ -1 +1 @@\n-a: 1\n+a: [\n"))
    errors = "(<unknown>): did not find expected node content at line 1 column 4"
    pipeline = told.gitlab.run_pipeline(told.scene.mr, yaml_errors=errors)
    with told.serve() as serve:
        body = fail(told, serve, pipeline)
    assert told.model.requests == []
    assert "**Caused by this change**" in body
    assert "did not find expected node content" in body


def test_the_third_merge_request_with_a_known_flake_costs_nothing_and_can_be_looked_at(
    told: Product,
) -> None:
    def flaked(title: str) -> tuple[MergeRequest, Pipeline]:
        author, project = told.scene.author, told.scene.mr.project
        mr = told.gitlab.open_merge_request(project, author, title=title, branch=title)
        pipeline = told.gitlab.run_pipeline(mr)
        told.gitlab.add_job(pipeline, "clock", status="failed", trace=TICK % (31, len(title)))
        return mr, pipeline

    with told.serve() as serve:
        for times, title in enumerate(("one", "three"), 1):
            assert CAUSE in fail(told, serve, flaked(title)[1])
            # What was found is kept once the turn is committed.
            serve.until(partial(seen, told, times), "the finding was not kept")
        assert len(told.model.requests) == 2
        mr, pipeline = flaked("third")
        body = fail(told, serve, pipeline)
        assert len(told.model.requests) == 2
        assert "**Flaky: not caused by this change.** clock: seen 2 times since" in body
        assert CAUSE in body
        assert "Known failure, no model was asked" in body

        told.gitlab.comment(mr, told.scene.author, "/sandpiper analyze")
        serve.until(lambda: len(told.model.requests) > 2, "no model was asked")
        serve.until(lambda: len(told.objects("context.json")) == 4, "the look was not stored")
    (entry,) = (told.folder / "store").glob("known/*/*.json")
    assert CAUSE in entry.read_text()


KILLED = b"""\
section_start:1763629202:step_script\r\x1b[0K\x1b[0KExecuting "step_script" stage of the job script
\x1b[32;1m$ ./ci/version.sh || true\x1b[0;m
fatal: No names found, cannot describe anything.
\x1b[32;1m$ npx webpack --mode production\x1b[0;m
%d modules are built
%s
section_end:1763629206:step_script\r\x1b[0K
\x1b[31;1mERROR: Job failed: exit code %d\x1b[0;m
"""


def test_merge_requests_killed_for_memory_do_not_answer_for_a_crash(tmp_path: Path) -> None:
    def blame_memory(asked: Asked) -> Say:
        quote = re.search(r"^ +(\d+): (Killed|Segmentation.*)$", asked.first, re.MULTILINE)
        job = re.search(r"representative: job (\d+)", asked.first)
        assert quote is not None
        assert job is not None
        return Say(
            "## Verdict\ninfrastructure\n\n## Failed\nbuild\n\n## Cause\nThe runner ran out of "
            f"memory.\n\n## Evidence\n- job {job[1]} line {quote[1]}: {quote[2]}\n\n"
            "## What to do\nRetry it.\n"
        )

    with product(tmp_path, Scripted([blame_memory], [answer]), "memory://") as told:

        def died(title: str, how: tuple[int, bytes, int]) -> Pipeline:
            author, project = told.scene.author, told.scene.mr.project
            mr = told.gitlab.open_merge_request(project, author, title=title, branch=title)
            pipeline = told.gitlab.run_pipeline(mr)
            told.gitlab.add_job(pipeline, "build", status="failed", trace=KILLED % how)
            return pipeline

        with told.serve() as serve:
            for times, title in enumerate(("one", "two"), 1):
                fail(told, serve, died(title, (210 + times, b"Killed", 137)))
                serve.until(partial(seen, told, times), "the finding was not kept")
            again = fail(told, serve, died("three", (377, b"Killed", 137)))
            assert "Known failure, no model was asked" in again
            asked = len(told.model.requests)
            crashed = died("four", (214, b"Segmentation fault (core dumped)", 139))
            body = fail(told, serve, crashed)
            assert len(told.model.requests) > asked
            assert "Known failure" not in body
