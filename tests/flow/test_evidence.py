"""What a note quotes is proven: repaired once if it is not, else left out, and always linked."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.flow import quotes
from tests.flow.product import Product, product
from tests.simulators.gitlab import make_failing_merge_request
from worker.answer import repair
from worker.conversation import context_json
from worker.lab.gitlab.world import World
from worker.lab.script import Answer, Asked, Call, Say, Script
from worker.lab.story import find_failed_job

pytestmark = pytest.mark.usefixtures("bubblewrap")

INVENTED = "E       AssertionError: assert [] == ['23:55']"
TRUE = "E       AssertionError: assert [] == ['23:50']"
FINDING = """\
## Verdict
caused by this change

## Failed
unit-tests (job {job})

## Cause
Windows that touch are not joined any more.

## Evidence
{evidence}

## What to do
Use `touches`.
"""


@dataclass
class Model:
    """Looks at the jobs, then answers: the first answer, and one for each request to repair."""

    answers: tuple[Callable[[int], str], ...]
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if not asked.results:
            return Call([("gitlab_list_pipeline_jobs", {})])
        return Say(
            self.answers[min(asked.turn, len(self.answers) - 1)](find_failed_job(asked)["id"])
        )


def finding(*evidence: str) -> Callable[[int], str]:
    """An answer that quotes `evidence`, in which J is the failed job."""
    lines = "\n".join(f"- {line}" for line in evidence)
    return lambda job: FINDING.format(job=job, evidence=lines.replace("J", str(job), 1))


@contextmanager
def told(folder: Path, script: Script) -> Iterator[Product]:
    with product(folder, script, "memory://") as made:
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []


def analysed(made: Product) -> str:
    with made.serve() as serve:
        made.pipeline_failed()
        serve.until(lambda: made.objects("context.json"), "the analysis was not stored")
    (note,) = made.notes()
    return note.body


def test_an_invented_quote_is_repaired_on_request(tmp_path: Path) -> None:
    model = Model((finding(f"job J line 1658: {INVENTED}"), finding(f"job J line 1658: {TRUE}")))
    with told(tmp_path, model) as made:
        body = analysed(made)
        (quote,) = quotes.check(made.gitlab, body)
        assert quote.texts == (TRUE,)
        assert quote.url.endswith("#L1658")
        assert "Caused by this change" in body
        assert "could not be proven" not in body
        request = model.asked[-1].human
        assert request.startswith(repair.REPAIR)
        assert INVENTED in request
        assert f"1658: {TRUE}" in request
        assert [request["system"] for request in made.model.requests].count(
            made.model.requests[0]["system"]
        ) == len(made.model.requests)
        assert len(made.model.requests) == 3


def test_a_banner_proves_no_cause_and_the_line_that_does_is_asked_for(tmp_path: Path) -> None:
    said: list[str] = []
    model = Model(())
    with told(tmp_path, model) as made:
        job = made.scene.pipeline.jobs[2]
        log = quotes.truth(made.gitlab, f"{made.scene.mr.project.path}/-/jobs/{job.id}")
        banner, ender = f"job J line 1: {log[0]}", f"job {job.id} line {len(log)}: {log[-1]}"
        assert "Running with gitlab-runner" in banner
        assert "Job failed: exit code" in ender
        model.answers = (finding(banner, ender), finding(f"job J line 1658: {TRUE}", ender))
        body = analysed(made)
        said = [asked.human for asked in model.asked]
        assert "Caused by this change" in body
        assert TRUE in body.partition("<details>")[0]
    assert said[-1].startswith(repair.NO_PROOF)
    assert "Why it proves nothing: any run prints it." in said[-1]
    assert len(said) == 3


def test_a_verdict_that_no_quote_proves_is_shown_as_not_clear(tmp_path: Path) -> None:
    model = Model(())
    with told(tmp_path, model) as made:
        job = made.scene.pipeline.jobs[2]
        log = quotes.truth(made.gitlab, f"{made.scene.mr.project.path}/-/jobs/{job.id}")
        model.answers = (finding(f"job J line {len(log)}: {log[-1]}"),)
        body = analysed(made)
        assert "Not clear whether this change is the cause" in body
        assert "said “caused by this change”, but quoted nothing that proves it" in body
        assert [each.texts for each in quotes.check(made.gitlab, body)] == [(log[-1],)]
        assert len(model.asked) == 3


FIRST = "Windows that touch are not joined any more."
REST = [
    f"Reason {n}: the end of one is{' compared with the start of the next' * 4}." for n in "abc"
]


def test_an_answer_that_the_note_has_no_room_for_is_shortened_on_request(tmp_path: Path) -> None:
    def lengthy(job: int) -> str:
        return finding(f"job J line 1658: {TRUE}")(job).replace(FIRST, " ".join([FIRST, *REST]))

    def short(job: int) -> str:
        return f"## Cause\n{FIRST} `<` became `<=`.\n## Details\n{REST[2]}"

    model = Model((lengthy, short))
    with told(tmp_path, model) as made:
        body = analysed(made)
        visible, _, folded = body.partition("<details>")
        request = model.asked[-1].human
        assert request.startswith(repair.TOO_LONG)
        assert f"- Cause: {REST[2]}" in request
        assert FIRST not in request
        assert f"{FIRST} `<` became `<=`." in visible
        assert "Use `touches`." in visible
        assert TRUE in visible
        assert "Reason c" in folded
        assert "Reason a" not in body
        assert len(made.model.requests) == 3


@pytest.mark.attack("binding")
def test_what_only_members_may_open_is_told_to_nobody_else(tmp_path: Path) -> None:
    model = Model((finding(f"job J line 1658: {TRUE}"),))
    with told(tmp_path, model) as made:
        project = made.scene.mr.project
        project.public, project.public_jobs = True, False
        assert TRUE in analysed(made)
        assert [note.internal for note in made.notes()] == [True]


def test_what_is_invented_twice_is_left_out_and_the_verdict_with_it(tmp_path: Path) -> None:
    model = Model((finding(f"job J line 1658: {INVENTED}"),))
    with told(tmp_path, model) as made:
        body = analysed(made)
        assert INVENTED not in body
        assert list(quotes.posted(body)) == []
        assert "1 quote could not be proven · " in body
        assert "Not clear whether this change is the cause" in body
        assert "none of its quotes could be proven" in body
        assert len(made.model.requests) == 3
        (stored,) = made.objects("context.json")
        context = context_json.load_context(stored.read_bytes())
        assert context.outcome is not None
        assert context.outcome.status == "done"


def test_files_artifacts_tests_and_spans_are_quoted_with_links(tmp_path: Path) -> None:
    file = "ferrytimes/windows.py"
    evidence = (
        f"job J lines 1658-1659:\n  ```\n  {TRUE}\n  SECOND\n  ```",
        f"file {file} line LINE: MERGE",
        "artifact J out/report.txt line 2: 1 failed, 2 passed in 0.03s",
        "test test_a_boat_sails: assert [] == ['23:50']",
    )
    model = Model(())
    with told(tmp_path, model) as made:
        job = made.scene.pipeline.jobs[2]
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("out/report.txt", "----\n1 failed, 2 passed in 0.03s\n")
        job.archive = packed.getvalue()
        case = {"status": "failed", "name": "test_a_boat_sails", "classname": "tests.test_tides"}
        case |= {"system_output": "assert [] == ['23:50']", "stack_trace": ""}
        made.scene.pipeline.test_suites = [{"name": job.name, "test_cases": [case]}]
        source = made.scene.mr.source_project.commits[made.scene.mr.sha][file].decode()
        number = next(
            at for at, line in enumerate(source.split("\n"), 1) if ".overlaps(window)" in line
        )
        merge = source.split("\n")[number - 1].strip()
        second = quotes.truth(made.gitlab, f"{made.scene.mr.project.path}/-/jobs/{job.id}")[1658]
        filled = [
            each.replace("LINE", str(number)).replace("MERGE", merge).replace("SECOND", second)
            for each in evidence
        ]
        model.answers = (finding(*(each.replace("J", str(job.id), 1) for each in filled)),)
        body = analysed(made)
        # A quote of several lines is begun above the fold, and stands whole below it.
        found = list({each.url: each for each in quotes.check(made.gitlab, body)}.values())
        assert len(found) == 4, body
        assert found[0].texts == (TRUE.strip(), second.strip())
        page = made.scene.mr.project.web_url
        assert [each.url for each in found] == [
            f"{page}/-/jobs/{job.id}#L1658",
            f"{page}/-/blob/{made.scene.pipeline.sha}/{file}#L{number}",
            f"{page}/-/jobs/{job.id}/artifacts/file/out/report.txt",
            f"{page}/-/pipelines/{made.scene.pipeline.id}/test_report",
        ]
        assert len(made.model.requests) == 2


def test_without_evidence_the_note_says_what_is_missing_and_how_to_keep_it(tmp_path: Path) -> None:
    answer = "## Verdict\nnot enough evidence\n\n## Failed\nunit-tests\n"

    def script(asked: Asked) -> Answer:
        if not asked.results:
            return Call([("gitlab_list_pipeline_jobs", {})])
        if len(asked.results) == 1:
            job = find_failed_job(asked)["id"]
            return Call([("gitlab_get_artifact", {"job_id": job, "path": "out/report.txt"})])
        return Say(answer)

    with told(tmp_path, script) as made:
        made.scene.pipeline.jobs[2].artifacts_expire_at = "2026-11-01T00:00:00Z"
        body = analysed(made)
        assert "**Not enough evidence to say**" in body
        assert re.search(r"\*\*Missing:\*\* out/report\.txt .*expired at 2026-11-01", body)
        assert re.search(r"\*\*Next time:\*\* Keep .*`artifacts: expire_in: 1 week`", body)
        assert "Cause:" not in body


def test_quotes_in_a_reply_are_proven_or_struck_out(tmp_path: Path) -> None:
    answers = (
        finding(f"job J line 1658: {TRUE}"),
        lambda job: f"Look:\n\n- job {job} line 1658: {TRUE}\n- job {job} line 1658: {INVENTED}\n",
    )
    with told(tmp_path, Model(answers)) as made, made.serve() as serve:
        made.pipeline_failed()
        serve.until(lambda: made.objects("context.json"), "the analysis was not stored")
        (note,) = made.notes()
        made.gitlab.comment(made.scene.mr, made.scene.author, "Where?", note.discussion_id)
        serve.until(lambda: len(made.objects("context.json")) == 2, "the reply was not stored")
        _, reply = made.notes()
        (quote,) = quotes.check(made.gitlab, reply.body)
        assert quote.texts == (TRUE,)
        assert INVENTED not in reply.body
        assert "was left out: it could not be proven" in reply.body


@pytest.mark.parametrize(
    ("quote", "holds"),
    [
        ("[job J, line 4](URL#L4): `E   AssertionError: expected 3, got 4`", True),
        ("[job J, line 4](URL#L4): `E   AssertionError: expected 3, got 5`", False),
        ("[job J, line 5](URL#L5): `E   AssertionError: expected 3, got 4`", False),
        ("[job J, lines 4-5](URL#L4):\n  ```text\n  E   AssertionError\n  FAILED\n  ```", True),
        ("[job J, lines 4-5](URL#L4):\n  ```text\n  FAILED\n  E   AssertionError\n  ```", False),
        ("job J, line 4: `E   AssertionError: expected 3, got 4`", False),
        ("[job J, line 4](URL#L4):", False),
    ],
)
def test_the_look_at_all_posted_quotes_finds_false_ones(quote: str, holds: bool) -> None:
    world = World()
    job = make_failing_merge_request(world).job
    body = "- " + quote.replace("J", str(job.id), 1).replace("URL", job.web_url)
    if holds:
        assert len(quotes.check(world, body)) == 1
    else:
        with pytest.raises(AssertionError):
            quotes.check(world, body)
