"""A verdict that GitLab's record rules out: asked about once, then not clear; it teaches nothing.

The line that the error names is one that the change adds, and the target branch passes without it.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import says
from tests.simulators.gitlab import GitLabSim, Note
from tests.surveyed import At, concludes
from tests.worlds import again, branch_pipeline
from worker.answer.repair import REFUTED
from worker.conversation.messages import User
from worker.conversation.model import Reply
from worker.settings.runs import IncidentSettings
from worker.turns.parts import Finished

LOG = b"""\
$ pytest -q
app/sum.py:2: AssertionError: total is 4, not 3
ERROR: Job failed: exit code 1
"""
NOT_CLEAR = "**Not clear whether this change is the cause**"
FIX = "Sum again.\n\n```suggestion app/sum.py:2\n    return sum(xs)\n```"


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    made = At(sim, tmp_path)
    made.scene.job.trace = LOG
    sim.add_job(branch_pipeline(sim, made.scene.mr, made.scene.mr.base_sha), "unit-tests")
    return made


def answers(
    at: At,
    verdict: str,
    to_do: str = "Retry it.",
    *,
    cause: str = "A race.",
    lead: str = "",
    line: int = 2,
) -> Reply:
    quote = f"- job {at.scene.job.id} line {line}: app/sum.py:2: AssertionError: total is 4, not 3"
    return says(
        f"{lead}\n\n## Verdict\n{verdict}\n\n## Failed\nunit-tests\n\n## Cause\n{cause}\n\n"
        f"## Evidence\n{quote}\n\n## What to do\n{to_do}\n".lstrip()
    )


def asked(at: At) -> list[str]:
    """The requests to repair an answer."""
    last = [each.messages[-1] for each in at.model.requests]
    return [each.text for each in last if isinstance(each, User) and REFUTED in each.text]


def read_last_request(at: At) -> str:
    last = at.model.requests[-1].messages[-1]
    return last.text if isinstance(last, User) else ""


def on_the_diff(at: At) -> list[Note]:
    return [each for each in at.list_notes() if each.type == "DiffNote"]


def passed_before(at: At) -> None:
    """The job ran and passed on this commit, before the failure."""
    jobs = at.scene.pipeline.jobs
    jobs.remove(at.scene.job)
    at.sim.add_job(at.scene.pipeline, "unit-tests")
    again = at.sim.add_job(at.scene.pipeline, "unit-tests", status="failed", trace=LOG)
    at.scene = replace(at.scene, job=again)


def test_the_model_is_asked_once_with_the_fact_and_then_it_is_not_clear(at: At) -> None:
    at.script_answers(*[answers(at, "flaky")] * 2)
    assert isinstance(at.run_failed(), Finished)
    (note,) = at.list_notes()
    (request,) = asked(at)
    fact = "the error names line 2 of app/sum.py, which this change adds; without it unit-tests"
    assert f'- not "flaky": {fact} passed on main' in request
    assert NOT_CLEAR in note.body
    assert "The model said “flaky”, but the error names line 2 of `app/sum.py`" in note.body
    assert "**Cause in the model's view:** A race." in note.body
    assert "**What to do in the model's view:** Retry it." in note.body
    assert at.load_context().verdict == "unknown"
    assert [each.finding for each in at.entries()] == [None]


def test_wrong_quotes_and_a_wrong_verdict_are_one_request(at: At) -> None:
    wrong, right = answers(at, "flaky", line=1), answers(at, "flaky")
    unproven = says(wrong.text.replace("total is 4", "total is 5"))
    at.script_answers(unproven, right)
    assert isinstance(at.run_failed(), Finished)
    (request,) = asked(at)
    assert "Quotes in your answer could not be proven" in request
    assert len(at.model.requests) == 2
    assert NOT_CLEAR in at.list_notes()[0].body


RETRIED = 'A retry does not go with "{}"'


def test_a_retry_under_a_verdict_that_stays_is_named_in_what_is_asked_anyway(at: At) -> None:
    right = answers(at, "caused by this change")
    unproven = says(right.text.replace("total is 4", "total is 5"))
    at.script_answers(unproven, answers(at, "caused by this change", "Sum again."))
    assert isinstance(at.run_failed(), Finished)
    assert RETRIED.format("caused by this change") in read_last_request(at)
    assert len(at.model.requests) == 2


def test_a_retry_alone_is_nothing_to_ask_about(at: At) -> None:
    at.script_answers(answers(at, "caused by this change"))
    assert isinstance(at.run_failed(), Finished)
    assert len(at.model.requests) == 1


def test_a_retry_of_what_fails_on_the_target_branch_is_named_with_the_wrong_verdict(
    sim: GitLabSim, tmp_path: Path
) -> None:
    at = At(sim, tmp_path)
    at.scene.job.trace = LOG
    main = branch_pipeline(sim, at.scene.mr, at.scene.mr.base_sha)
    sim.add_job(main, "unit-tests", status="failed", trace=LOG)
    at.script_answers(answers(at, "flaky"), answers(at, "already failing on the target branch"))
    unwatched = IncidentSettings(branches=())  # an incident would explain it without a model
    assert isinstance(at.run_failed(incident_settings=unwatched), Finished)
    (request,) = asked(at)
    assert RETRIED.format("already failing on the target branch") in request


def test_a_retry_of_what_has_passed_on_the_commit_is_good_advice(at: At) -> None:
    passed_before(at)
    wrong = answers(at, "flaky")
    unproven = says(wrong.text.replace("total is 4", "total is 5"))
    at.script_answers(unproven, wrong)
    assert isinstance(at.run_failed(), Finished)
    assert len(at.model.requests) == 2
    assert "A retry does not go with" not in read_last_request(at)


def test_a_model_that_takes_to_what_the_record_allows_is_believed(at: At) -> None:
    right = answers(at, "caused by this change", FIX, cause="Line 2 sums too much.")
    at.script_answers(answers(at, "flaky"), right)
    assert isinstance(at.run_failed(), Finished)
    body = next(each.body for each in at.list_notes() if each.type != "DiffNote")
    assert "**Caused by this change**" in body
    assert "in the model's view" not in body
    assert len(on_the_diff(at)) == 1


def test_a_cause_that_was_given_for_the_other_verdict_is_doubted(at: At) -> None:
    at.script_answers(answers(at, "flaky"), answers(at, "caused by this change"))
    assert isinstance(at.run_failed(), Finished)
    (note,) = at.list_notes()
    assert "**Caused by this change**" in note.body
    assert "gave this cause for “flaky” first, which GitLab's record rules out" in note.body
    assert "**Cause, perhaps:** A race." in note.body
    assert [each.finding for each in at.entries()] == [None]


def test_such_a_cause_is_known_though_its_line_number_is_corrected(at: At) -> None:
    cause = f"Job {at.scene.job.id} line 1 shows a race."
    verdicts = ("flaky", "caused by this change")
    at.script_answers(*(answers(at, each, cause=cause, line=1) for each in verdicts))
    assert isinstance(at.run_failed(), Finished)
    (note,) = at.list_notes()
    assert "**Cause, perhaps:**" in note.body


def test_a_change_that_is_not_to_blame_gets_no_suggestion_on_the_diff(at: At) -> None:
    passed_before(at)
    at.script_answers(*[answers(at, "caused by this change", FIX)] * 2)
    assert isinstance(at.run_failed(), Finished)
    (note,) = at.list_notes()
    assert NOT_CLEAR in note.body
    assert "`unit-tests` passed on this same commit" in note.body
    assert "**What to do in the model's view:** Sum again." in note.body
    assert on_the_diff(at) == []


def test_a_flake_that_has_passed_on_the_commit_is_not_asked_about(at: At) -> None:
    passed_before(at)
    at.script_answers(answers(at, "flaky"))
    assert isinstance(at.run_failed(), Finished)
    assert asked(at) == []
    assert "**Flaky: not caused by this change** (passed" in at.list_notes()[0].body


def test_a_flake_that_nothing_speaks_for_is_the_models_view(sim: GitLabSim, tmp_path: Path) -> None:
    at = At(sim, tmp_path)
    at.script_answers(concludes("flaky"))
    assert isinstance(at.run_failed(at.flake(at.scene.mr)), Finished)
    head = "**Flaky: not caused by this change**, in the model's view\n"
    assert head in at.list_notes()[0].body


def test_a_reply_with_such_a_finding_is_asked_once_and_leaves_the_first_note(at: At) -> None:
    at.script_answers(answers(at, "caused by this change"))
    assert isinstance(at.run_failed(), Finished)
    first = at.list_notes()[0].body
    said = answers(at, "flaky", lead="I think that it is a flake.")
    at.script_answers(said, answers(at, "flaky"))
    assert isinstance(at.ask("Sure?", at.list_notes()[0].discussion_id), Finished)
    (request,) = asked(at)
    assert 'not "flaky"' in request
    head, reply = at.list_notes()
    assert head.body == first
    assert reply.body.index("I think that it is a flake.") < reply.body.index(NOT_CLEAR)
    assert "**Cause in the model's view:** A race." in reply.body


def test_a_reply_may_take_its_claim_back(at: At) -> None:
    at.script_answers(answers(at, "caused by this change"))
    assert isinstance(at.run_failed(), Finished)
    at.script_answers(answers(at, "flaky", lead="A flake."), says("No, line 2 is new with you."))
    assert isinstance(at.ask("Sure?", at.list_notes()[0].discussion_id), Finished)
    reply = at.list_notes()[1].body
    assert "No, line 2 is new with you." in reply
    assert NOT_CLEAR not in reply


def test_a_reply_without_a_finding_is_not_asked_again(at: At) -> None:
    at.script_answers(answers(at, "caused by this change"))
    assert isinstance(at.run_failed(), Finished)
    at.script_answers(says("It is not flaky: line 2 is new."))
    assert isinstance(at.ask("Is it flaky?", at.list_notes()[0].discussion_id), Finished)
    assert asked(at) == []


def test_what_the_record_proves_is_asked_about_once_and_stands(at: At) -> None:
    at.sim.add_job(again(at.sim, at.scene.pipeline, at.scene.mr), "unit-tests")
    at.scene.pipeline.status = "failed"
    at.script_answers(*[answers(at, "caused by this change")] * 2)
    assert isinstance(at.run_failed(), Finished)
    (request,) = asked(at)
    assert '- not "caused by this change": unit-tests failed in job' in request
    assert 'so it is "flaky".' in request
    body = at.list_notes()[0].body
    assert "**Flaky: not caused by this change**" in body
    assert "**Cause in the model's view:** A race." in body
    assert "gave this cause" not in body
    assert "**What to do:** Retry the job." in body


def test_a_cause_that_goes_with_the_record_is_the_notes(at: At) -> None:
    at.sim.add_job(again(at.sim, at.scene.pipeline, at.scene.mr), "unit-tests")
    at.scene.pipeline.status = "failed"
    at.script_answers(answers(at, "caused by this change", cause="A sum."), answers(at, "flaky"))
    assert isinstance(at.run_failed(), Finished)
    body = at.list_notes()[0].body
    assert "**Flaky: not caused by this change**" in body
    assert "**Cause:** A race." in body
