"""The analysis of a red branch: a session of its own, and nothing in GitLab."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.branches import RedBranch, make_red_branch
from tests.fakes import says
from tests.simulators.gitlab import GitLabSim
from tests.surveyed import QUOTE, RACE
from worker.conversation.context import Context, Status, Subject
from worker.conversation.context_json import HistoryError, dump_context, load_context_of
from worker.conversation.events import Asking, Event, NotePlaced, Stage, TurnEnded
from worker.conversation.messages import ToolCall
from worker.errors import SourceError
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey
from worker.gitlab.write.note_writers import DryRunWriter
from worker.jobs import repair, retention
from worker.safety.redact import Redaction
from worker.sessions import recent
from worker.sources.table import bind_sources
from worker.turns.branch_session import (
    BranchFinding,
    analyse_branch,
    find_branch_key,
    read_branch_finding,
)
from worker.turns.day_budget import DayBudget
from worker.turns.parts import Attempt, Ended, Finished, Skipped
from worker.turns.session import answer_reply
from worker.verdict.survey_text import tell_diff
from worker.verdict.verdict import Verdict

ANSWER = (
    "## Verdict\ncaused by this change\n\n## Cause\nThe landing of !21 ticks twice.\n\n"
    f"## Evidence\n{QUOTE}\n\n## What to do\nRevert it, and ask mara.\n"
)


@pytest.fixture
def red(sim: GitLabSim, tmp_path: Path) -> RedBranch:
    return make_red_branch(sim, tmp_path)


def analyse(red: RedBranch, run: Attempt | None = None, **changes: object) -> Ended:
    deps = red.at.build_deps(**changes)
    return analyse_branch(red.record, red.incident, deps, run or Attempt())


def read_finding(red: RedBranch) -> BranchFinding | None:
    deps = red.at.build_deps()
    return read_branch_finding(find_branch_key(red.record, red.incident, deps), deps)


def test_a_red_branch_is_looked_into_once_and_nothing_is_posted(red: RedBranch) -> None:
    at, seen = red.at, list[Event]()
    at.script_answers(says(ANSWER))
    done = analyse(red, Attempt(seen.append))
    assert isinstance(done, Finished)
    assert done.outcome.status is Status.DONE
    assert (done.key.branch, done.key.mr_iid) == ("branch-main", 0)
    assert done.key == find_branch_key(red.record, red.incident, at.build_deps())
    name = f"sessions/{at.scene.project.id}/branch-main/{done.key.session_id}/0000/context.json"
    assert (at.place / name).exists()
    assert {each.method for each in at.sim.requests} == {"GET"}
    assert not any(isinstance(each, NotePlaced) for each in seen)
    assert not any(isinstance(each, Stage) and each.milestone for each in seen)
    assert [each.turn for each in seen if isinstance(each, TurnEnded)] == [0]
    asked, red.red.status = len(at.sim.requests), "success"
    again = analyse(red)
    assert isinstance(again, Skipped)
    assert again.is_certain
    assert (len(at.model.requests), len(at.sim.requests)) == (1, asked)
    assert read_finding(red) == BranchFinding(
        done.key.session_id,
        Verdict.CHANGE,
        "The landing of !21 ticks twice.",
        "Revert it, and ask mara.",
    )


def test_the_model_is_told_the_history_of_the_branch_and_the_diff_of_what_landed(
    red: RedBranch,
) -> None:
    red.at.script_answers(says(ANSWER))
    analyse(red, plan="facts")
    told = red.at.first()
    assert f'"branch": "main", "sha": "{red.red.sha}"' in told
    assert '"iid"' not in told
    assert f"fact: first red in pipeline {red.red.id}, {red.red.sha[:12]}" in told
    assert f"fact: last green in pipeline {red.green.id}, {red.green.sha[:12]}" in told
    landed = f'    {red.red.sha[:12]} !21 by mara, 2026-11-18 10:50 UTC: "Let the clock tick fact:'
    assert landed in told
    assert "\nfact: ignore" not in told
    assert "; files: app/clock.py" in told
    assert "    clock: TimeoutError: the ferry clock did not tick" in told
    assert "pass these jobs: !130" in told
    assert "clock passed when it last ran on main, on the commit this pipeline is built on" in told
    context = red.at.load_context()
    assert context.survey is not None
    assert context.survey.changed_paths == ("app/clock.py",)


def test_the_diff_of_what_landed_stands_where_a_merge_requests_does(red: RedBranch) -> None:
    reader = open_reader(red, red.find_subject())
    document = bind_sources(reader)["gitlab_compare"].fetch(f'{{"old": "{red.green.sha}"}}')
    assert "+    return 2" in document.data.decode()
    shown = read_survey(reader, shown=4096)
    assert shown.is_diff_whole
    told = tell_diff(shown, of_branch=True)
    assert told.startswith(
        "The diff of all that landed, all of it:\n1 file changed\nM app/clock.py"
    )
    unknown = open_reader(red, replace(red.find_subject(), green_sha=""))
    survey = read_survey(unknown, shown=4096)
    assert survey.changed_paths is None
    assert "the diff: the branch has no known green commit before this one" in survey.gaps


def find_merge_request(red: RedBranch) -> Subject:
    found = red.at.reader.find_named_subject(str(red.at.scene.project.id), 1, None)
    assert isinstance(found, Subject)
    return found


def open_reader(red: RedBranch, subject: Subject) -> Reader:
    client = ReadClient(red.at.sim.url, red.at.scene.read_token, timeout=(2.0, 2.0))
    return Reader.open(client, subject, Redaction)


def test_tools_that_need_a_merge_request_are_not_announced(red: RedBranch) -> None:
    offered = set(bind_sources(open_reader(red, red.find_subject())))
    of_mr = set(bind_sources(open_reader(red, find_merge_request(red)))) - offered
    assert of_mr == {
        "gitlab_get_mr_details",
        "gitlab_get_mr_diff",
        "gitlab_list_mr_commits",
        "gitlab_list_mr_discussions",
    }


def test_only_jobs_of_the_branch_may_be_read(red: RedBranch) -> None:
    at, logs = red.at, open_reader(red, red.find_subject()).logs
    deploy = at.sim.add_job(red.green, "deploy", trace=b"the key of the host\n")
    nightly = at.sim.add_pipeline(
        at.scene.project, at.scene.developer, ref="main", sha=red.red.sha, source="schedule",
        status="failed",
    )  # fmt: skip
    slow = at.sim.add_job(nightly, "slow", status="failed", trace=RACE)
    for job in (red.green.jobs[0], slow):
        assert logs.read_log(job.id).lines
    for job in (deploy, at.scene.job):
        with pytest.raises(SourceError, match="is not of this branch"):
            logs.read_log(job.id)


@pytest.mark.parametrize(
    "answer",
    [
        "## Verdict\nunknown\n\n## Cause\nPerhaps !21 did it.\n",
        ANSWER.replace(QUOTE, "- job 1 line 1: what nobody has seen"),
    ],
    ids=["not clear", "not proven"],
)
def test_a_cause_is_told_only_where_it_is_proven(red: RedBranch, answer: str) -> None:
    red.at.script_answers(*[says(answer)] * 3)
    done = analyse(red)
    assert isinstance(done, Finished)
    assert read_finding(red) == BranchFinding(done.key.session_id, Verdict.UNKNOWN)


def test_no_secret_is_told(red: RedBranch) -> None:
    secret = "glpat-AbCdEf0123456789wxyZ"
    red.at.script_answers(says(ANSWER.replace("ticks twice", f"says {secret}")))

    def redact(text: str) -> str:
        return text.replace(secret, "[token]")

    done = analyse(red, redact=redact)
    assert isinstance(done, Finished)
    found = read_branch_finding(done.key, red.at.build_deps(redact=redact))
    assert found is not None
    assert found.cause == "The landing of !21 says [token]."
    assert secret not in done.body


def test_a_worker_that_dies_is_followed_by_one_that_goes_on(red: RedBranch) -> None:
    class Killed(BaseException):
        pass

    def die(event: Event) -> None:
        if isinstance(event, Asking):
            raise Killed

    with pytest.raises(Killed):
        analyse(red, Attempt(die))
    assert read_finding(red) is None
    key = find_branch_key(red.record, red.incident, red.at.build_deps())
    surveyed = load_context_of(key, red.at.store.read_checkpoint(key, 0) or b"")
    assert surveyed.survey is not None
    red.at.clock.sleep(3600)
    red.at.script_answers(says(ANSWER))
    done = analyse(red)
    assert isinstance(done, Finished)
    assert red.at.load_context().messages[0] == surveyed.messages[0]
    found = read_finding(red)
    assert found is not None
    assert found.verdict is Verdict.CHANGE


def test_a_run_that_was_given_up_ends_the_session_without_a_finding(red: RedBranch) -> None:
    done = analyse(red, Attempt(give_up_reason="its runs died"))
    assert isinstance(done, Finished)
    assert done.outcome.status is Status.FAILED
    assert read_finding(red) is None
    assert isinstance(analyse(red), Skipped)


def test_a_branch_that_matters_no_more_ends_the_run(red: RedBranch) -> None:
    red.at.script_answers(says("", ToolCall("c1", "look", "{}")), says(ANSWER))
    deps = red.at.build_deps()

    def pass_time(event: Event) -> None:
        red.at.clock.sleep(30.0)

    done = analyse_branch(
        *(red.record, red.incident, deps, Attempt(pass_time)),
        superseded=lambda: "main is green again",
    )
    assert isinstance(done, Finished)
    assert "main is green again" in done.outcome.reason


def test_a_day_without_money_is_no_end(red: RedBranch) -> None:
    at, project = red.at, red.at.scene.project.id
    budget = DayBudget(at.store.records, at.clock, 1.0)
    budget.add_cost(project, "another", 0, 2.0)
    refused = analyse(red, budget=budget)
    assert isinstance(refused, Skipped)
    assert not refused.is_certain
    assert "today's budget" in refused.reason
    assert at.list_sessions() == []
    at.script_answers(says(ANSWER))
    assert isinstance(analyse(red), Finished)


def test_its_cost_counts(red: RedBranch) -> None:
    at = red.at
    at.script_answers(says(ANSWER))
    budget = DayBudget(at.store.records, at.clock, 0.000001)
    done = analyse(red, budget=budget)
    assert isinstance(done, Finished)
    context = at.load_context()
    assert context.cost_usd
    assert budget.explain_used_up(at.scene.project.id)


def test_nothing_of_it_answers_merge_requests_by_itself(red: RedBranch) -> None:
    red.at.script_answers(says(ANSWER))
    analyse(red)
    assert red.at.entries() == []


@pytest.mark.parametrize("change", ["status", "tag", "ref", "child", "project"])
def test_only_a_failed_pipeline_of_the_branch_itself_is_looked_into(
    red: RedBranch, change: str
) -> None:
    at, record = red.at, red.record
    match change:
        case "status":
            red.red.status = "success"
        case "ref":
            red.red.ref = "refs/merge-requests/1/head"
        case "tag":
            record = replace(record, branch="v1")
        case "child":
            red.red.source = "parent_pipeline"
        case "project":
            record = replace(record, project_id=999)
    done = analyse_branch(record, red.incident, at.build_deps(), Attempt())
    assert isinstance(done, Skipped)
    assert at.list_sessions() == []
    assert at.model.requests == []


def test_readers_who_may_not_open_its_logs_are_told(red: RedBranch) -> None:
    project = red.at.scene.project
    project.public, project.public_jobs = True, False
    red.at.script_answers(says(ANSWER))
    analyse(red)
    found = read_finding(red)
    assert found is not None
    assert found.is_internal


def test_a_stored_session_is_checked_against_the_branch_under_which_it_lay(red: RedBranch) -> None:
    red.at.script_answers(says(ANSWER))
    done = analyse(red)
    assert isinstance(done, Finished)
    data = dump_context(red.at.load_context())
    assert load_context_of(done.key, data).subject.branch == "main"
    others = (
        replace(done.key, branch="branch-release"),
        replace(done.key, branch="", mr_iid=1),
        replace(done.key, project_id=done.key.project_id + 1),
    )
    for key in others:
        with pytest.raises(HistoryError, match="lay under session"):
            load_context_of(key, data)
    context = load_context_of(done.key, data)
    moved = replace(context, subject=replace(context.subject, branch="release"))
    with pytest.raises(HistoryError, match="branch-release"):
        load_context_of(done.key, dump_context(moved))


def test_it_stands_on_the_list_of_turns_and_sweeps_leave_its_notes_alone(red: RedBranch) -> None:
    at, deps = red.at, red.at.build_deps()
    at.script_answers(says(ANSWER))
    done = analyse(red)
    assert isinstance(done, Finished)
    ((place, data),) = at.store.recent_turns.list_newest(5)
    row = recent.load_row_of(place, data)
    assert (row.name, row.key) == ("team/service@main", done.key)
    assert row.web_url.endswith("/team/service/-/commits/main")
    assert list(repair.heal_notes(deps, 0.0)) == []
    at.clock.sleep(100 * 86_400)
    old = f"session {done.key.session_id} of {done.key.project_id}, branch-main: removed"
    assert old in list(retention.remove_expired(deps, 30.0))
    assert at.list_sessions() == []
    assert at.store.find_session(done.key.session_id) is None


def test_a_question_at_the_terminal_goes_on_with_it(red: RedBranch) -> None:
    at = red.at
    at.script_answers(says(ANSWER), says("Because it was `1` before."))
    done = analyse(red)
    assert isinstance(done, Finished)
    replied = answer_reply(done.key, "Why?", at.build_deps(writer=DryRunWriter()), Attempt())
    assert isinstance(replied, Finished)
    assert replied.turn == 1
    assert at.sim.unexpected_requests == []
    context: Context = at.load_context(done.key)
    assert context.turn == 1
