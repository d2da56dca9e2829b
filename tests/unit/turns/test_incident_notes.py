"""A merge request's note where its target branch is red: two lines, a part, a joined note, and what
it says once the branch is green again."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import says
from tests.simulators.gitlab import GitLabSim, MergeRequest, Pipeline
from tests.steps import Killed
from tests.surveyed import RACE, At, concludes
from worker.conversation.context import INCIDENT
from worker.conversation.triggers import Trigger
from worker.incidents.judge import judge_branch
from worker.incidents.record import BranchRecord, JobOutcome, RequestRecord
from worker.lab.gitlab.state import Commit
from worker.sessions.folder import FolderStore
from worker.settings.runs import IncidentSettings
from worker.turns import incident_notes
from worker.turns.day_budget import DayBudget
from worker.turns.parts import Finished, NotesMarked

pytestmark = pytest.mark.slow

LINT = b"""\
Executing "step_script" stage of the job script
$ ruff check .
ferrytimes/routes.py:9:1: error: F401 'os' imported but unused
ERROR: Job failed: exit code 1
"""
RED = "**Already failing on `main`** since "
SMALL = (
    "<sub>Explained by the branch, no model was asked · Reply `/sandpiper analyze` to ask a model"
)


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    made = At(sim, tmp_path)
    made.script_answers(*([concludes("caused by this change")] * 9))
    return made


def land(at: At, title: str) -> str:
    """Let a commit land on `main`."""
    sha = at.sim.commit(at.scene.project, "main", {f"app/{title}.py": title.encode()})
    commit = Commit(sha, title, at.scene.developer, at.sim.advance_clock())
    at.scene.project.history.append(commit)
    return sha


def run_main(at: At, sha: str, **jobs: bytes) -> Pipeline:
    """Run a pipeline of `main`; a job with a log fails."""
    status = "failed" if any(jobs.values()) else "success"
    pipeline = at.sim.add_pipeline(
        at.scene.project, at.scene.developer, ref="main", sha=sha, source="push", status=status
    )
    for name, log in jobs.items():
        at.sim.add_job(pipeline, name, status="failed" if log else "success", trace=log or b"ok\n")
    pipeline.finished_at = pipeline.updated_at = at.sim.advance_clock()
    return pipeline


def judge(at: At) -> BranchRecord:
    """Store what GitLab shows of `main`, as its own event does."""
    deps, project = at.build_deps(), at.scene.project
    store = deps.storage.incidents
    known = store.read_branch(project.id, "main")
    record = deps.gitlab.pipelines.read_branch(
        known or BranchRecord(project.id, project.path, "main")
    )
    judged = judge_branch(record, store.list_requests(project.id, "main"), at.clock.now())
    for each in judged.incidents:  # somebody has looked into it
        judged = judged.put(replace(each, session_id="f" * 20))
    stands: BranchRecord | None = store.change_branch(project.id, "main", lambda stored: judged)
    assert stands is not None
    return stands


def turn_red(at: At, before: str = "green", /, **jobs: bytes) -> str:
    """Let `main` fail since a landing, and the merge request stand on that. Before that it passes
    with another landing, unless `before` is ""."""
    if before:
        run_main(at, land(at, before), **dict.fromkeys(jobs, b""))
    sha = land(at, "red")
    pipeline = run_main(at, sha, **jobs)
    at.scene.mr.base_sha = sha
    (found,) = judge(at).open_incidents
    assert found.first.since_pipeline == pipeline.id
    return sha


def turn_green(at: At, **jobs: bytes) -> BranchRecord:
    run_main(at, land(at, "mended"), **jobs)
    return judge(at)


def request(at: At, iid: int = 1) -> RequestRecord:
    store = at.build_deps().storage.incidents
    found: RequestRecord | None = store.read_request(at.scene.project.id, "main", iid)
    assert found is not None
    return found


def fail(at: At, mr: MergeRequest | None = None, *jobs: tuple[str, bytes]) -> Pipeline:
    pipeline = at.sim.run_pipeline(mr or at.scene.mr)
    for name, log in jobs or (("clock", RACE),):
        at.sim.add_job(pipeline, name, status="failed", trace=log)
    return pipeline


def note(at: At, mr: MergeRequest | None = None) -> str:
    (body,) = at.of(mr or at.scene.mr)
    return body


def tell(at: At, record: BranchRecord, iid: int = 1) -> list[Trigger]:
    """Tell what holds now; return what that begins."""
    begun: list[Trigger] = []
    incident_notes.tell_request(record, request(at, iid), at.build_deps(), begun.append)
    return begun


def edits(at: At) -> int:
    return sum(each.method == "PUT" for each in at.sim.requests)


def test_what_the_branch_explains_is_two_lines_without_a_model(at: At) -> None:
    sha = turn_red(at, clock=RACE)
    assert isinstance(at.run_failed(fail(at)), Finished)
    assert at.model.requests == []
    lines = note(at).split("\n\n")
    (found,) = judge(at).open_incidents
    number = found.first.since_pipeline
    link = rf"\[pipeline {number}\]\(\S+/-/pipelines/{number}\)"
    facts = rf"\({link}, broken by `{sha[:8]}`\): `clock`\."
    assert re.fullmatch(rf"{re.escape(RED)}\S* ?\d\d:\d\d UTC {facts}", lines[1]), lines[1]
    assert lines[2].startswith(
        "**What helps:** Nothing to do here. This note will say when `main` is"
    )
    assert lines[3].startswith(SMALL)
    assert len(lines) == 4
    told = request(at)
    assert told.told_incidents == (found.incident_id,)
    assert told.told_text == "\n\n".join(lines[1:3])
    assert told.is_short
    context = at.load_context()
    assert context.found_by == INCIDENT
    assert not at.entries()


ONCE = 4
"""Requests that a process makes once: who the bot is, by each token, if it is a member, and if the
author is a bot."""


def test_such_a_note_takes_twelve_requests_of_gitlab(at: At) -> None:
    turn_red(at, clock=RACE)
    mr, pipeline = at.another("other")
    for number, each in enumerate((fail(at), pipeline)):
        before = len(at.sim.requests)
        deps = {"debounce": 60.0} if number else {}
        at.clock.sleep(200.0)
        assert isinstance(at.run_failed(each, **deps), Finished)
        asked = at.sim.requests[before:]
        shown = "\n".join(f"{each.method} {each.path} {each.query}" for each in asked)
        assert len(asked) <= 12 + (0 if number else ONCE), shown
    assert "; 1 other merge request is hit." in note(at, mr)
    assert "other" not in note(at)
    tell(at, judge(at))
    assert edits(at) == 0, "a note is not edited for a count"


def test_what_the_branch_does_not_explain_is_analysed_below_the_lines(at: At) -> None:
    turn_red(at, clock=RACE)
    at.run_failed(fail(at, None, ("clock", RACE), ("lint", LINT)))
    body = note(at)
    lines = body.split("\n\n")
    assert lines[1].startswith(RED)
    assert lines[2].startswith("**What helps:** Nothing to do here for that part.")
    assert lines[3].startswith("**")
    failed = next(line for line in lines if line.startswith("**Failed:**"))
    assert "`lint`" in failed
    assert "`clock`" not in failed
    told = at.first()
    assert "Group 1: lint" in told
    assert "Group 2" not in told
    assert "Left out, because the target branch fails so too" in told
    assert not request(at).is_short
    assert request(at).told_incidents == (judge(at).open_incidents[0].incident_id,)
    record = turn_green(at, clock=b"")
    tell(at, record)
    assert note(at).startswith(body.split("\n\n")[0] + "\n\n**Green again:** `main` since ")
    assert body.split("**What helps:**")[1].partition("\n\n")[2] in note(at)


def test_an_error_beside_the_explained_one_in_its_job_is_analysed(at: At) -> None:
    turn_red(at, clock=RACE)
    both = RACE.replace(
        b"ERROR: Job", b"FAILED tests/test_clock.py::test_tock - KeyError: 'x'\nERROR: Job"
    )
    at.run_failed(fail(at, None, ("clock", both)))
    assert len(at.model.requests) == 1
    assert "Group 1: clock" in at.first()
    assert note(at).split("\n\n")[1].startswith(RED)


@pytest.mark.parametrize(
    ("job", "branches"),
    [("another", ("default",)), ("clock", ("release/*",)), ("clock", ())],
    ids=["another job", "another branch", "none is watched"],
)
def test_what_is_not_the_branchs_is_analysed_for_itself(
    at: At, job: str, branches: tuple[str, ...]
) -> None:
    turn_red(at, **{job: RACE})
    at.run_failed(fail(at), incident_settings=IncidentSettings(branches=branches))
    assert at.model.requests
    assert RED not in note(at)


def test_a_note_from_before_the_incident_is_joined_and_left_again(at: At) -> None:
    run_main(at, land(at, "green"), clock=b"")
    at.run_failed(fail(at))
    before = note(at)
    assert RED not in before
    assert request(at).told_incidents == ()
    sha = turn_red(at, "", clock=RACE)
    record = judge(at)
    for _ in range(2):
        tell(at, record)
    joined = note(at)
    assert joined.split("\n\n")[1].startswith(RED)
    assert joined.split("\n\n")[3:] == before.split("\n\n")[1:]
    assert edits(at) == 2  # the finding, and the lines
    assert not request(at).is_short
    run_main(at, sha, clock=b"")  # the same commit passes
    tell(at, judge(at))
    assert note(at) == before
    assert request(at).told_incidents == ()
    assert edits(at) == 3


def test_what_failed_before_the_branch_last_passed_is_not_the_branchs(at: At) -> None:
    at.run_failed(fail(at))
    before = note(at)
    turn_red(at, clock=RACE)  # it passes once more, and then it breaks
    tell(at, judge(at))
    assert note(at) == before
    assert request(at).told_incidents == ()


def test_an_incident_that_opens_while_the_analysis_runs_is_told_at_its_end(at: At) -> None:
    def opens(number: int) -> None:
        if not at.build_deps().storage.incidents.read_branch(at.scene.project.id, "main"):
            turn_red(at, "", clock=RACE)
        tell(at, judge(at))  # its job finds a placeholder

    run_main(at, land(at, "green"), clock=b"")
    at.on_asking = opens
    at.run_failed(fail(at))
    assert note(at).split("\n\n")[1].startswith(RED)
    assert request(at).told_incidents == (judge(at).open_incidents[0].incident_id,)


def test_a_short_note_says_that_the_branch_is_green_again_and_what_helps(at: At) -> None:
    turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    for _ in range(2):
        tell(at, turn_green(at, clock=b""))
    _, first, helps, small = note(at).split("\n\n")
    assert re.fullmatch(
        r"\*\*Green again:\*\* `main` since .*UTC "
        r"\(\[pipeline \d+\]\(.*\), mended by `[0-9a-f]{8}`\)\.",
        first,
    ), first
    assert helps == (
        "**What helps:** Rebase onto `main`; a retry runs the same commit and fails again."
    )
    assert small.startswith(SMALL)
    assert edits(at) == 1


def test_a_flake_is_taken_back_from_a_short_note(at: At) -> None:
    sha = turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    run_main(at, sha, clock=b"")  # the same commit passes
    for _ in range(2):
        tell(at, judge(at))
    assert "**Not explained any more:** the failure on `main` was a flake" in note(at)
    assert "Already failing" not in note(at)
    assert edits(at) == 1


def test_people_who_delete_a_note_or_close_the_merge_request_hear_no_more(at: At) -> None:
    turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    mr = at.scene.mr
    mr.state = "closed"
    tell(at, turn_green(at, clock=b""))
    assert RED in note(at)
    mr.state = "opened"
    (own,) = at.list_notes()
    at.sim.delete(own)
    tell(at, judge(at))
    assert at.of(mr) == []
    assert edits(at) == 0


def test_what_was_found_in_logs_of_members_stays_out_of_a_public_note(at: At) -> None:
    at.scene.project.public = True
    turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    (found,) = judge(at).open_incidents
    looked_into = replace(found, cause="The ferry clock stands still.")
    tell(at, judge(at).put(looked_into))
    assert "The ferry clock stands still." in note(at)
    at.scene.project.public_jobs = False
    tell(at, judge(at).put(replace(looked_into, cause="The quartz is gone.")))
    assert "What was found" not in note(at)
    assert RED in note(at)


class Dies(FolderStore):
    """A store whose worker dies as soon as it writes in one way."""

    at_write = ""

    def write_checkpoint(self, *arguments: Any, **options: Any) -> Any:
        self._die("write_checkpoint")
        return super().write_checkpoint(*arguments, **options)

    def commit_turn(self, *arguments: Any, **options: Any) -> Any:
        self._die("commit_turn")
        return super().commit_turn(*arguments, **options)

    def _die(self, write: str) -> None:
        if write == self.at_write:
            raise Killed


def test_a_worker_that_dies_at_any_write_leaves_one_note(at: At) -> None:
    turn_red(at, clock=RACE)
    pipeline = fail(at)
    for write in ("write_checkpoint", "commit_turn"):
        dies = Dies(at.place, now=at.clock.now)
        dies.at_write = write
        with pytest.raises(Killed):
            at.run_failed(pipeline, sessions=dies)
    assert isinstance(at.run_failed(pipeline), Finished)
    at.run_failed(pipeline)
    assert len(at.of(at.scene.mr)) == 1
    assert at.model.requests == []


def test_a_reply_resumes_the_session_and_asks_the_model(at: At) -> None:
    turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    (own,) = at.list_notes()
    at.script_answers(says("Because the clock of `main` is broken."))
    assert isinstance(at.ask("Why is it red?", own.discussion_id), Finished)
    assert len(at.model.requests) == 1
    assert "Already failing on" in str(at.model.requests[0].messages)
    assert "the ferry clock did not tick" in at.first()
    at.script_answers(concludes("flaky"))
    assert isinstance(at.ask("/sandpiper analyze"), Finished)
    assert len(at.model.requests) == 2
    assert any(RED in body and "Flaky" in body for body in at.of(at.scene.mr))


def test_it_teaches_nothing_and_is_no_verdict_to_be_judged(at: At) -> None:
    turn_red(at, clock=RACE)
    at.run_failed(fail(at))
    assert at.entries() == []
    passed = at.sim.run_pipeline(at.scene.mr, status="success")
    at.sim.add_job(passed, "clock", status="success")
    assert isinstance(at.run_passed(passed), NotesMarked)
    body = note(at)
    assert body.split("\n\n")[1].startswith("**")
    assert body.index("<details>") < body.index(RED)
    rows = [data for _, data in at.store.recent_turns.list_newest(9)]
    assert all(b'"label":' not in row or b'"label": ""' in row for row in rows)
    found = request(at)
    assert found.pipeline_id == passed.id
    assert [job.outcome for job in found.jobs if job.name == "clock"] == [JobOutcome.PASSED]
    before = edits(at)
    tell(at, turn_green(at, clock=b""))
    assert edits(at) == before


def test_a_day_without_budget_has_such_notes_too(at: At) -> None:
    turn_red(at, clock=RACE)
    budget = DayBudget(at.store.records, at.clock, 0.01)
    budget.add_cost(at.scene.project.id, "a" * 20, 0, 1.0)
    budget.record_told(at.scene.project.id, at.scene.mr.iid)
    assert isinstance(at.run_failed(fail(at), budget=budget), Finished)
    assert note(at).split("\n\n")[1].startswith(RED)


def test_a_failure_that_comes_again_is_explained_again(at: At) -> None:
    turn_red(at, clock=RACE, lint=b"")
    run_main(at, land(at, "lint"), clock=RACE, lint=LINT)
    judge(at)
    at.run_failed(fail(at))
    at.clock.sleep(100.0)
    again = fail(at, None, ("lint", LINT))
    assert isinstance(at.run_failed(again), Finished)
    body = note(at)
    assert at.model.requests == []
    assert "`lint`" in body.partition("<details>")[0]
    assert request(at).pipeline_id == again.id
    assert request(at).told_incidents == (judge(at).open_incidents[1].incident_id,)
