"""What the host finds before the model is asked: told, answered, kept and forgotten."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.base import Sandbox
from tests.fakes import says
from tests.jobs import Ran
from tests.simulators.gitlab import DiffFile, GitLabSim, Pipeline
from tests.surveyed import RACE, STUCK, At, SurveyedToolset, concludes
from tests.worlds import again
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.conversation.messages import User
from worker.errors import ModelError, StoreError
from worker.jobs.commands import CommandAnswered
from worker.sessions.checked import SECOND_LOOK
from worker.sessions.projects import MemoryPart
from worker.turns import memory
from worker.turns.parts import Explain, Finished, NoKnownFailures, NotesMarked, Skipped
from worker.verdict.jobs import Survey
from worker.verdict.recalled_tests import Recall
from worker.verdict.verdict import Verdict

pytestmark = pytest.mark.slow


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    made = At(sim, tmp_path)
    made.script_answers(*([concludes("flaky")] * 9))
    return made


def finished(ran: Ran) -> Finished:
    assert isinstance(ran, Finished)
    return ran


def context(at: At, ran: Ran) -> Context:
    ended = finished(ran)
    return context_json.load_context(at.store.read_context(ended.key, ended.turn))


def flaked(at: At, *titles: str) -> None:
    """Each merge request fails in the same way and is looked into."""
    for title in titles:
        _, pipeline = at.another(title)
        finished(at.run_failed(pipeline))


def test_the_model_sees_the_event_and_the_survey_in_its_first_message(at: At) -> None:
    stored = context(at, at.run_failed(at.flake(at.scene.mr)))
    assert at.first().startswith('{"project"')
    assert "Group 1: clock" in at.first()
    assert "the ferry clock did not tick" in at.first()
    assert stored.survey is not None
    assert stored.survey.groups[0].key
    assert stored.found_by == ""


def test_the_first_message_tells_the_time_and_what_the_sandbox_has(at: At) -> None:
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline, describe_tools=lambda sandbox: "python3 3.11.2; no node, go"))
    assert "It is 2026-11-18 11:06 UTC now." in at.first()
    assert at.first().endswith(
        "Besides the usual Unix tools, the sandbox has: python3 3.11.2; no node, go."
    )


def test_the_sandbox_is_not_asked_for_its_tools_where_a_rule_answers(at: At) -> None:
    def tools(sandbox: Sandbox | None) -> str:
        raise AssertionError("no sandbox is started")

    pipeline = at.flake(at.scene.mr, STUCK, failure_reason="runner_system_failure")
    finished(at.run_failed(pipeline, describe_tools=tools))
    assert "Unix tools" not in at.of(at.scene.mr)[0]


def test_a_run_taken_up_again_is_not_surveyed_again(at: At) -> None:
    pipeline = at.flake(at.scene.mr)

    class Died(BaseException):
        pass

    def die(iteration: int) -> None:
        raise Died

    at.on_asking = die
    with pytest.raises(Died):
        at.run_failed(pipeline)
    at.on_asking = lambda iteration: None
    at.clock.time += 10_000
    at.script_answers(says("## Verdict\nunknown\n\n## Cause\nIt quotes no log.\n"))
    seen = len(at.sim.requests)
    finished(at.run_failed(pipeline))
    assert at.first().count("Group 1: clock") == 1
    surveyed = f"/jobs/{pipeline.jobs[0].id}/trace"
    assert not [each for each in at.sim.requests[seen:] if each.path.endswith(surveyed)]


def test_a_survey_that_breaks_costs_nothing_but_itself(at: At) -> None:
    class Broken(SurveyedToolset):
        def survey_failures(
            self, shown: int = 0, explain: Explain | None = None, recall: Recall | None = None
        ) -> Survey:
            raise ValueError("a bug")

    done = finished(
        at.run_failed(at.flake(at.scene.mr), toolset=lambda subject, workflow: Broken())
    )
    assert done.outcome.status is Status.DONE


def test_a_runner_that_failed_is_told_by_rule_without_model_or_sandbox(at: At) -> None:
    pipeline = at.flake(at.scene.mr, STUCK, failure_reason="runner_system_failure")
    done = finished(at.run_failed(pipeline, sandboxes=None))
    (body,) = at.of(at.scene.mr)
    assert at.model.requests == []
    assert "Infrastructure: not caused by this change" in body
    assert "The job ended outside its script" in body
    assert f"job {pipeline.jobs[0].id}, line 3" in body
    assert "is disrupted: reason" in body
    assert "Found by rule, no model was asked" in body
    assert "could not be proven" not in body
    stored = context(at, done)
    assert stored.survey is not None
    assert stored.survey.groups[0].key
    assert (stored.found_by, stored.outcome and stored.outcome.status) == ("rule", Status.DONE)
    assert at.entries() == []


def test_one_job_that_no_rule_knows_brings_the_model_in(at: At) -> None:
    pipeline = at.flake(at.scene.mr, STUCK, failure_reason="runner_system_failure")
    at.sim.add_job(pipeline, "other", status="failed", trace=RACE)
    finished(at.run_failed(pipeline))
    assert len(at.model.requests) == 1
    assert "recognised by rule runner-system-failure, certain" in at.first()


def test_a_question_under_a_rules_note_is_answered_by_a_model(at: At) -> None:
    pipeline = at.flake(at.scene.mr, STUCK, failure_reason="runner_system_failure")
    at.run_failed(pipeline)
    at.script_answers(says("It was evicted."))
    (note,) = at.list_notes()
    finished(at.ask("Why was it evicted?", note.discussion_id))
    assert len(at.model.requests) == 1
    assert "It was evicted." in at.list_notes()[-1].body
    assert "Found by rule" not in at.list_notes()[-1].body


def test_what_is_found_is_kept_by_the_errors_signature(at: At) -> None:
    flaked(at, "a", "b")
    (entry,) = at.entries()
    assert (entry.count, entry.agreements) == (2, 2)
    assert entry.finding is not None
    assert entry.finding.verdict == Verdict.FLAKY
    assert entry.finding.cause == "The clock waits for a tick."
    assert "#note_" in entry.finding.url
    assert {each.mr_iid for each in entry.sightings} == {2, 3}


def test_no_change_of_one_merge_request_is_kept_for_others(at: At) -> None:
    change = "Retry it.\n```suggestion app/sum.py:2\n    return 3\n```\n"
    text = concludes("flaky").text.replace("Retry it.\n", change)
    _, pipeline = at.another("a")
    at.script_answers(says(text))
    finished(at.run_failed(pipeline))
    (entry,) = at.entries()
    assert entry.finding is not None
    assert entry.finding.to_do == "Retry it."


def test_a_model_is_told_what_was_found_before(at: At) -> None:
    flaked(at, "a", "b")
    assert "seen before: once, in 1 other merge request; verdict then: flaky" in at.first()
    assert "The clock waits for a tick." in at.first()


def test_the_third_merge_request_is_answered_from_what_is_known(at: At) -> None:
    flaked(at, "a", "b")
    mr, pipeline = at.another("c")
    done = finished(at.run_failed(pipeline, sandboxes=None))
    (body,) = at.of(mr)
    assert len(at.model.requests) == 2
    lines = [line for line in body.split("\n") if line.strip()]
    assert lines[1].startswith("**Flaky: not caused by this change.** clock: seen 2 times since ")
    assert "in 2 other merge requests, [the job explained](http" in lines[1]
    assert "**Cause:** The clock waits for a tick. **What to do:** Retry it." in lines[2]
    assert "Known failure, no model was asked" in lines[3]
    assert "`/sandpiper analyze`" in lines[3]
    assert len(lines) == 4
    assert context(at, done).found_by == "known"
    (entry,) = at.entries()
    assert (entry.count, entry.agreements) == (3, 2)


def test_analyze_under_a_known_failure_really_looks(at: At) -> None:
    flaked(at, "a", "b")
    _, pipeline = at.another("c")
    at.run_failed(pipeline)
    mr = pipeline.mr
    assert mr is not None
    asked = at.sim.comment(mr, at.scene.developer, "/sandpiper analyze")
    at.script_answers(concludes("infrastructure", "A slow disk."))
    done = finished(at.run_comment(asked))
    assert len(at.model.requests) == 3
    last = at.model.requests[-1].messages[-1]
    assert isinstance(last, User)
    assert "Run the whole workflow now" in last.text
    assert "**Infrastructure: not caused by this change**" in at.of(mr)[-1]
    assert done.turn == 1
    (entry,) = at.entries()
    assert entry.finding is not None
    assert (entry.finding.verdict, entry.agreements) == (Verdict.INFRASTRUCTURE, 1)
    # And now it has been looked at.
    again = at.run_comment(at.sim.comment(mr, at.scene.developer, "/sandpiper analyze"))
    assert isinstance(again, CommandAnswered)


def test_who_asks_for_an_analysis_gets_one(at: At) -> None:
    flaked(at, "a", "b")
    mr, _ = at.another("c")
    finished(at.run_comment(at.sim.comment(mr, at.scene.developer, "/sandpiper analyze")))
    assert len(at.model.requests) == 3


def test_a_verdict_that_quotes_nothing_is_a_guess_and_is_not_kept(at: At) -> None:
    at.script_answers(says("## Verdict\nflaky\n\n## Cause\nWho knows.\n"))
    finished(at.run_failed(at.flake(at.scene.mr)))
    (body,) = at.of(at.scene.mr)
    assert "**Not clear whether this change is the cause**" in body
    assert "quoted nothing that proves it" in body
    (entry,) = at.entries()
    assert entry.finding is None


def test_a_rule_that_only_leads_there_stands_for_no_quote(at: At) -> None:
    at.sim.push(at.scene.mr, {"Dockerfile": b"FROM a\n"})
    at.scene.mr.diffs.append(DiffFile("Dockerfile", "@@ -0,0 +1 @@\n+FROM a\n"))
    at.script_answers(says("## Verdict\ninfrastructure\n\n## Cause\nIt was evicted.\n"))
    finished(at.run_failed(at.flake(at.scene.mr, STUCK, failure_reason="runner_system_failure")))
    assert len(at.model.requests) == 1
    assert "recognised by rule runner-system-failure, likely" in at.first()
    assert "**Not clear whether this change is the cause**" in at.of(at.scene.mr)[0]


def test_how_an_error_ended_is_told_the_next_time(at: At) -> None:
    _, pipeline = at.another("a")
    finished(at.run_failed(pipeline))
    pipeline.status = "success"
    assert isinstance(at.run_passed(pipeline), NotesMarked)
    (entry,) = at.entries()
    assert (
        entry.resolution == f"it passed when run again, without a change (pipeline {pipeline.id})"
    )
    flaked(at, "b")
    assert "the last time it passed when run again, without a change" in at.first()
    (entry,) = at.entries()
    assert entry.resolution == ""


def test_an_error_that_a_later_commit_fixed_says_so(at: At) -> None:
    mr, pipeline = at.another("a")
    finished(at.run_failed(pipeline))
    at.sim.push(mr, {"a": b"1"})
    green = at.sim.run_pipeline(mr, status="success")
    at.run_passed(green)
    (entry,) = at.entries()
    assert entry.resolution == f"a later commit fixed it (pipeline {green.id})"


def test_what_the_record_overrules_is_not_kept_for_others(at: At) -> None:
    pipeline = at.flake(at.scene.mr)
    at.sim.add_job(again(at.sim, pipeline, at.scene.mr), "clock")
    at.script_answers(*[concludes("caused by this change", "Line 2 of app/sum.py.")] * 2)
    finished(at.run_failed(pipeline))
    (body,) = at.of(at.scene.mr)
    assert "**Flaky: not caused by this change**" in body
    assert "**Cause in the model's view:** Line 2" in body
    assert "**What to do:** Retry the job." in body
    (entry,) = at.entries()
    assert entry.finding is None


def test_a_jobs_name_is_no_heading_of_the_rules_note(at: At) -> None:
    pipeline = at.sim.run_pipeline(at.scene.mr)
    name = "## What to do: curl evil.example"
    reason = "runner_system_failure"
    at.sim.add_job(pipeline, name, status="failed", trace=STUCK, failure_reason=reason)
    finished(at.run_failed(pipeline))
    (body,) = at.of(at.scene.mr)
    assert "**Failed:** `## What to do: curl evil.example` ([" in body
    assert "**What to do:** Give the line above" in body


def test_what_is_said_in_internal_notes_is_not_kept(at: At) -> None:
    mr, _ = at.another("a")
    asked = at.sim.comment(mr, at.scene.developer, "/sandpiper analyze", internal=True)
    finished(at.run_comment(asked))
    assert at.entries() == []


@pytest.mark.parametrize("ready", ["as it was", "moved", "damaged"])
def test_what_is_said_later_in_internal_notes_is_not_kept_whatever_has_changed(
    at: At, ready: str
) -> None:
    at.flake(at.scene.mr)
    began = at.write_comment("/sandpiper analyze", internal=True)
    finished(at.run_comment(began))
    (key,) = at.list_sessions()
    if ready == "damaged":
        (Path(at.store.describe_location(key, 0)) / "context.json").write_bytes(b"{")
    moved = {"url": "https://gitlab.new.example"} if ready == "moved" else {}
    for words in ("why?", "and now?"):
        asked = at.write_comment(
            f"@{at.scene.bot.username} {words}", began.discussion_id, internal=True
        )
        assert finished(at.run_comment(asked, **moved)).key == key
    assert at.entries() == []


@pytest.mark.attack("binding")
def test_what_is_made_from_logs_for_members_only_is_not_kept(at: At) -> None:
    project = at.scene.project
    project.public, project.public_jobs = True, False
    _, pipeline = at.another("a")
    finished(at.run_failed(pipeline))
    assert at.entries() == []


def test_an_unknown_cause_is_a_sighting_and_no_finding(at: At) -> None:
    at.script_answers(says("## Verdict\nunknown\n\n## Cause\nWho knows.\n"))
    flaked(at, "a")
    (entry,) = at.entries()
    assert (entry.finding, entry.count) == (None, 1)


def test_a_store_that_fails_costs_only_what_is_known(at: At) -> None:
    flaked(at, "a")
    (key,) = at.store.known_failures.list_keys(at.scene.project.id)
    at.store.known_failures.change_entry(at.scene.project.id, key, lambda old: b"{")
    flaked(at, "b")
    assert at.store.known_failures.list_keys(at.scene.project.id) == (key,)
    at.clock.time += SECOND_LOOK
    flaked(at, "c")
    (entry,) = at.entries()
    assert entry.count == 1


class Fault(Exception):
    """Nobody expects it."""


@dataclass
class NeverKept(NoKnownFailures):
    """Known failures that can be read, and fail with `error` when they are to be kept."""

    error: Exception

    def change_entry(
        self, project_id: int, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> None:
        raise self.error

    def change_memory(
        self,
        project_id: int,
        change: Callable[[bytes | None], bytes | None],
        part: MemoryPart = MemoryPart.FACTS,
    ) -> None:
        raise self.error


def stands(at: At, pipeline: Pipeline) -> bool:
    """The analysis is committed, with its note; whoever comes again has nothing to do."""
    told = at.of(at.scene.mr)
    again = at.run_failed(pipeline)
    assert isinstance(again, Skipped)
    assert len(at.model.requests) == 1
    return at.of(at.scene.mr) == told == [at.load_context().note_text]


def test_a_finding_that_cannot_be_kept_costs_neither_turn_nor_note(at: At) -> None:
    pipeline = at.flake(at.scene.mr)
    finished(at.run_failed(pipeline, known_failures=NeverKept(StoreError("the disk is full"))))
    assert stands(at, pipeline)


def test_what_breaks_while_a_finding_is_kept_breaks_after_turn_and_note(at: At) -> None:
    pipeline = at.flake(at.scene.mr)
    with pytest.raises(Fault):
        at.run_failed(pipeline, known_failures=NeverKept(Fault()))
    assert stands(at, pipeline)


def test_without_a_model_the_note_lists_the_failing_jobs_by_cause(at: At) -> None:
    pipeline = at.sim.run_pipeline(at.scene.mr)
    for number in range(3):
        at.sim.add_job(pipeline, f"unit: [{number}]", status="failed", trace=RACE)
    at.model.answers = [ModelError("no model answers")]
    finished(at.run_failed(pipeline))
    (body,) = at.of(at.scene.mr)
    assert "unit (3 of 3 variants)" in body
    assert "the ferry clock did not tick" in body


def test_a_forgotten_merge_request_leaves_no_words_in_what_is_known(at: At) -> None:
    flaked(at, "a", "b")
    assert memory.forget_merge_request(at.scene.project.id, 3, at.build_deps()) == 1
    (entry,) = at.entries()
    assert entry.finding is None
    assert {each.mr_iid for each in entry.sightings} == {2}
    memory.forget_merge_request(at.scene.project.id, 2, at.build_deps())
    assert at.entries() == []
