"""The commit fails again: by jobs that are run again in its pipeline, or by a new pipeline."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import says
from tests.jobs import Ran, read_reason
from tests.simulators.gitlab import GitLabSim, Pipeline
from tests.surveyed import RACE, STUCK, At, concludes
from worker.conversation.context import SessionKey, Status
from worker.conversation.messages import User
from worker.errors import Busy, ForgeError, ModelError
from worker.lab.gitlab.state import Job
from worker.safety.markdown import find_marker
from worker.sessions.folder import FolderStore
from worker.turns import outcomes
from worker.turns.parts import Finished, Skipped
from worker.verdict.aftermath import Label, load_aftermath

pytestmark = pytest.mark.slow

REAL = b"""\
Executing "step_script" stage of the job script
$ pytest -q
E   AssertionError: the night boat is missing
FAILED tests/test_boats.py::test_night - AssertionError: the night boat is missing
ERROR: Job failed: exit code 1
"""
Again = Callable[[At, Pipeline, bytes], Pipeline]


def retry(at: At, pipeline: Pipeline, trace: bytes) -> Pipeline:
    """Somebody runs the failed job again, in the same pipeline."""
    at.sim.retry_job(newest_job(pipeline), trace=trace)
    return pipeline


def run_new_pipeline(at: At, pipeline: Pipeline, trace: bytes) -> Pipeline:
    """Somebody runs a new pipeline on the same commit."""
    assert pipeline.mr is not None
    return at.flake(pipeline.mr, trace)


def newest_job(pipeline: Pipeline) -> Job:
    return pipeline.jobs[-1]


WAYS = pytest.mark.parametrize("again", [retry, run_new_pipeline])


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    return At(sim, tmp_path)


def finished(ran: Ran) -> Finished:
    assert isinstance(ran, Finished)
    return ran


def body(at: At) -> str:
    """The one note of the merge request."""
    (found,) = at.of(at.scene.mr)
    return found


def lines(at: At) -> list[str]:
    """What is visible of it, without its marker."""
    visible = body(at).partition("<details>")[0]
    return [line for line in visible.split("\n") if line.strip()][1:]


def label(at: At, turn: int) -> tuple[str, str]:
    (key,) = at.list_sessions()
    stored = at.load_turn(key, turn)
    judged = outcomes.judge_turn(at.store, key, turn, stored.verdict, "", stored.look)
    return judged.label, judged.reason


@WAYS
def test_what_fails_in_another_way_is_looked_at_again_in_the_same_note(
    at: At, again: Again
) -> None:
    pipeline = at.flake(at.scene.mr, STUCK, failure_reason="runner_system_failure")
    finished(at.run_failed(pipeline))
    assert lines(at)[0].startswith("**Infrastructure: not caused by this change**")
    before = body(at)
    failed = again(at, pipeline, REAL)
    at.script_answers(concludes("caused by this change", "The change drops the night boat."))
    ended = finished(at.run_failed(failed))
    assert (ended.turn, ended.outcome.status, len(at.model.requests)) == (1, Status.DONE, 1)
    asked = at.model.requests[0].messages[-1]
    assert isinstance(asked, User)
    assert "failed again on this commit, in another way" in asked.text
    assert "the night boat is missing" in asked.text
    assert f"excerpt of job {newest_job(failed).id}" in asked.text
    first, headline, *_ = lines(at)
    link = f"[pipeline {failed.id}]({failed.web_url})"
    assert first == f"**Run again:** failed in another way in {link}."
    assert headline.startswith("**Caused by this change**")
    assert before.partition("\n")[2].strip() in body(at)
    marker = find_marker(body(at))
    assert marker is not None
    assert (marker.session_id, marker.turn) == (ended.key.session_id, 0)
    assert at.list_sessions() == [ended.key]
    # An earlier verdict on another failure is not judged by a later one.
    assert label(at, 0)[0] == Label.OPEN


@WAYS
@pytest.mark.parametrize("verdict", ["flaky", "infrastructure"])
def test_what_fails_in_the_same_way_is_one_line_and_ends_the_verdict(
    at: At, again: Again, verdict: str
) -> None:
    at.script_answers(concludes(verdict))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    before = body(at)
    failed = again(at, pipeline, RACE)
    ended = finished(at.run_failed(failed))
    assert len(at.model.requests) == 1
    (line,) = lines(at)
    link = f"[pipeline {failed.id}]({failed.web_url})"
    assert line.startswith(f"**Failed again in the same way in {link}.** So it does not pass")
    assert f"“{verdict}” is not the verdict any more" in line
    assert before.partition("\n")[2].strip() in body(at)
    assert at.load_turn(ended.key, 1).verdict == "unknown"
    assert label(at, 0) == (Label.CONTRADICTED, "it failed again in the same way")


@WAYS
def test_what_the_change_has_caused_stays_the_verdict_when_it_fails_again(
    at: At, again: Again
) -> None:
    at.script_answers(concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    headline, *rest = lines(at)
    failed = again(at, pipeline, RACE)
    finished(at.run_failed(failed))
    link = f"[pipeline {failed.id}]({failed.web_url})"
    assert lines(at) == [f"**Failed again in the same way in {link}.**", headline, *rest]
    assert len(at.model.requests) == 1
    assert label(at, 0)[0] == Label.OPEN


@WAYS
@pytest.mark.parametrize("trace", [RACE, REAL])
def test_no_event_that_comes_again_posts_or_asks_anything_new(
    at: At, again: Again, trace: bytes
) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    failed = again(at, pipeline, trace)
    finished(at.run_failed(failed))
    asked, said = len(at.model.requests), body(at)
    seen = len(at.sim.requests)
    for event in (failed, pipeline, failed):
        assert isinstance(at.run_failed(event), Skipped)
    assert (len(at.model.requests), body(at)) == (asked, said)
    (key,) = at.list_sessions()
    assert at.store.find_latest_turn(key) == 1
    # No log is read again for it.
    assert not [each for each in at.sim.requests[seen:] if "/trace" in each.path]


def test_each_of_many_retries_is_looked_at_once_and_told_in_one_line(at: At) -> None:
    at.script_answers(concludes("caused by this change"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    for _ in range(3):
        finished(at.run_failed(retry(at, pipeline, RACE)))
    assert body(at).count("Failed again in the same way") == 1
    assert len(at.model.requests) == 1
    finished(at.run_failed(retry(at, pipeline, REAL)))
    finished(at.run_failed(retry(at, pipeline, REAL)))
    assert len(at.model.requests) == 2
    assert lines(at)[0].startswith("**Failed again in the same way")
    assert lines(at)[1].startswith("**Run again:**")


class Killed(BaseException):
    """The process ends here."""


class Deadly(FolderStore):
    """A store whose worker dies before or after it commits a turn."""

    after = False

    def commit_turn(self, key: SessionKey, turn: int, context: bytes) -> None:
        if self.after:
            super().commit_turn(key, turn, context)
        raise Killed


class DeadlyAfter(Deadly):
    after = True


@WAYS
@pytest.mark.parametrize("trace", [RACE, REAL])
@pytest.mark.parametrize("store", [Deadly, DeadlyAfter])
def test_whoever_takes_over_from_a_dead_worker_says_it_once(
    at: At, again: Again, trace: bytes, store: type[Deadly]
) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    before = body(at).partition("\n")[2].strip()
    failed = again(at, pipeline, trace)
    with pytest.raises(Killed):
        at.run_failed(failed, sessions=store(at.place, now=at.clock.now))
    at.clock.time += 10_000
    at.script_answers(concludes("caused by this change"))
    at.run_failed(failed)
    assert isinstance(at.run_failed(failed), Skipped)
    said = "Failed again in the same way" if trace is RACE else "Run again:"
    assert body(at).count(said) == 1
    assert body(at).count(before) == 1
    (key,) = at.list_sessions()
    assert at.store.find_latest_turn(key) == 1


def test_a_worker_that_dies_while_it_looks_again_leaves_the_look_to_another(at: At) -> None:
    at.script_answers(concludes("flaky"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    before = body(at).partition("\n")[2].strip()
    failed = retry(at, pipeline, REAL)

    def die(iteration: int) -> None:
        raise Killed

    at.on_asking = die
    with pytest.raises(Killed):
        at.run_failed(failed)
    assert lines(at)[0].startswith("**Run again:**")
    assert "will replace this note." in lines(at)[0]
    assert before in body(at)
    at.on_asking = lambda iteration: None
    at.clock.time += 10_000
    at.script_answers(concludes("caused by this change"))
    finished(at.run_failed(failed))
    assert lines(at)[1].startswith("**Caused by this change**")
    assert body(at).count(before) == 1
    assert len(at.of(at.scene.mr)) == 1


def test_a_look_that_fails_says_so_above_what_was_found_before(at: At) -> None:
    at.script_answers(concludes("infrastructure"), ModelError("the model is down"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    before = body(at).partition("\n")[2].strip()
    finished(at.run_failed(retry(at, pipeline, REAL)))
    assert lines(at)[0].startswith("**Run again:**")
    assert "No analysis this time." in lines(at)[1]
    assert before in body(at)
    # What could not be explained is looked at when it comes again.
    at.script_answers(concludes("caused by this change"))
    finished(at.run_failed(retry(at, pipeline, b"E   ValueError: other\n" + REAL)))
    assert lines(at)[1].startswith("**Caused by this change**")


def test_a_first_look_that_failed_is_made_when_the_job_fails_again(at: At) -> None:
    at.script_answers(ModelError("the model is down"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    assert isinstance(at.run_failed(pipeline), Skipped)
    at.script_answers(concludes("caused by this change"))
    finished(at.run_failed(retry(at, pipeline, RACE)))
    assert lines(at)[1].startswith("**Caused by this change**")


def test_a_failure_that_comes_back_after_a_pass_comes_and_goes(at: At) -> None:
    at.script_answers(concludes("flaky"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    at.sim.retry_job(newest_job(pipeline), status="success")
    at.run_passed(pipeline)
    assert lines(at)[0].startswith("**Passed when run again")
    failed = run_new_pipeline(at, pipeline, RACE)
    finished(at.run_failed(failed))
    (line,) = lines(at)
    assert line.startswith(f"**Failed again in the same way in [pipeline {failed.id}](")
    assert "it comes and goes" in line
    assert label(at, 0)[0] == Label.CONFIRMED


def test_a_runner_that_fails_where_the_code_failed_is_told_by_rule(at: At) -> None:
    at.script_answers(concludes("caused by this change"))
    finished(at.run_failed(at.flake(at.scene.mr)))
    failed, reason = at.sim.run_pipeline(at.scene.mr), "runner_system_failure"
    at.sim.add_job(failed, "deploy", status="failed", trace=STUCK, failure_reason=reason)
    finished(at.run_failed(failed))
    assert len(at.model.requests) == 1
    assert lines(at)[0].startswith("**Run again:**")
    assert "Found by rule, no model was asked" in body(at)


def test_a_job_that_may_fail_is_no_new_failure(at: At) -> None:
    at.script_answers(concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    at.sim.add_job(pipeline, "lint", status="failed", trace=REAL, allow_failure=True)
    finished(at.run_failed(pipeline))
    at.sim.retry_job(newest_job(pipeline), trace=STUCK)
    assert "were looked at" in read_reason(at.run_failed(pipeline))
    assert len(at.model.requests) == 1


def test_one_more_failed_job_is_looked_at(at: At) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    retry(at, pipeline, RACE)
    at.sim.add_job(pipeline, "other", status="failed", trace=REAL)
    finished(at.run_failed(pipeline))
    assert len(at.model.requests) == 2


def test_replies_after_it_go_on_in_the_same_session(at: At) -> None:
    at.script_answers(concludes("infrastructure"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    finished(at.run_failed(retry(at, pipeline, REAL)))
    (note,) = at.list_notes()
    at.script_answers(says("Only the night boats."))
    ended = finished(at.ask("Which boats are missing?", note.discussion_id))
    assert ended.turn == 2
    stored = at.load_turn(ended.key, 2)
    assert (stored.look, stored.subject.pipeline_id) == (1, pipeline.id)
    assert len(at.model.requests[-1].messages) > len(at.model.requests[1].messages)


def test_analyze_looks_into_what_has_failed_again_in_the_same_way(at: At) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change", "The tick is late."))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    failed = run_new_pipeline(at, pipeline, RACE)
    finished(at.run_failed(failed))
    ended = finished(at.ask("/sandpiper analyze"))
    assert ended.turn == 2
    assert len(at.list_sessions()) == 1
    first, answer = at.of(at.scene.mr)
    for each in (first, answer):
        assert "**Caused by this change**" in each.partition("<details>")[0]


def test_a_second_failure_waits_for_the_first_to_be_told(at: At) -> None:
    pipeline = at.flake(at.scene.mr)
    at.script_answers(concludes("flaky"))
    finished(at.run_failed(pipeline))
    failed = retry(at, pipeline, REAL)
    with at.claim_elsewhere(at.find_key(pipeline), 1), pytest.raises(Busy):
        at.run_failed(failed)


def test_a_note_that_was_deleted_is_posted_anew_for_another_failure_only(at: At) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    at.sim.delete(at.list_notes()[0])
    finished(at.run_failed(retry(at, pipeline, RACE)))
    assert at.list_notes() == []
    finished(at.run_failed(retry(at, pipeline, REAL)))
    assert lines(at)[1].startswith("**Caused by this change**")


def test_what_was_forgotten_is_not_looked_at_by_an_event_that_comes_again(at: At) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    at.ask("/sandpiper forget")
    assert isinstance(at.run_failed(pipeline), Skipped)
    assert len(at.model.requests) == 1
    finished(at.run_failed(retry(at, pipeline, REAL)))
    assert len(at.model.requests) == 2


def test_a_session_of_an_earlier_version_is_compared_by_its_jobs(at: At) -> None:
    at.script_answers(concludes("flaky"), concludes("caused by this change"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    at.rewrite_turn(lambda stored: replace(stored, ended_at=0.0))
    assert "were looked at" in read_reason(at.run_failed(pipeline))
    finished(at.run_failed(retry(at, pipeline, REAL)))
    assert len(at.model.requests) == 2


@pytest.mark.attack("strangers")
def test_a_strangers_merge_request_is_not_looked_at_however_often_it_fails(at: At) -> None:
    stranger = at.sim.add_user("stranger")
    fork = at.sim.add_project("stranger/service", parent=at.scene.project, public=True)
    mr = at.sim.open_merge_request(at.scene.project, stranger, title="S", branch="s", source=fork)
    pipeline = at.flake(mr)
    for trace in (RACE, REAL, STUCK):
        assert isinstance(at.run_failed(retry(at, pipeline, trace)), Skipped)
    assert at.model.requests == []
    assert at.of(mr) == []


def test_a_note_that_cannot_be_marked_now_is_marked_later(at: At) -> None:
    at.script_answers(concludes("flaky"))
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline))
    failed = retry(at, pipeline, RACE)
    at.sim.fail_next("PUT", "/notes/", 502, times=20)
    with pytest.raises(ForgeError):
        at.run_failed(failed)
    at.sim.clear_faults()
    finished(at.run_failed(failed))
    assert body(at).count("Failed again in the same way") == 1
    (key,) = at.list_sessions()
    after = load_aftermath(at.store.read_aftermath(key, 0))
    assert after is not None
    assert (after.became, after.pipeline_id) == ("failed_again", pipeline.id)
