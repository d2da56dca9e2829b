"""A branch's job that fails without a known error is an incident of its own, which explains nothing
of merge requests, and is the same one when its error becomes known."""

from dataclasses import replace

import pytest

from tests.unit.incidents.test_judge import make_pipeline, make_record, make_request
from worker.incidents.explain import choose_runs_again, explain_request
from worker.incidents.issue_text import IssueScene, write_issue_body
from worker.incidents.judge import judge_branch
from worker.incidents.record import (
    NOBODY,
    BranchPipeline,
    BranchRecord,
    Incident,
    IncidentState,
    RequestRecord,
)
from worker.incidents.sightings import SILENT_TEXT, make_silent_error

OPEN, CLOSED = IncidentState.OPEN, IncidentState.CLOSED
SUSPECTED, WITHDRAWN = IncidentState.SUSPECTED, IncidentState.WITHDRAWN


def make_run(number: int, sha: str, at: float, /, **jobs: str) -> BranchPipeline:
    """A pipeline of the branch; a job that is `?` fails without a known error."""
    made = make_pipeline(number, sha, at, **jobs)
    ended = (
        replace(each, errors=(make_silent_error(each.name),)) if "?" in each.keys else each
        for each in made.jobs
    )
    return replace(made, jobs=tuple(ended))


def make_unknown(iid: int, base: str, at: float) -> RequestRecord:
    """A merge request whose job `unit` fails without a known error."""
    made = make_request(iid, base, at, unit="?")
    return replace(made, jobs=tuple(replace(each, errors=()) for each in made.jobs))


GREEN, SILENT = make_run(1, "A", 100, unit="ok"), make_run(2, "B", 1100, unit="?")


def judge(record: BranchRecord, *pipelines: BranchPipeline) -> BranchRecord:
    """The record when these are its pipelines."""
    return judge_branch(replace(record, pipelines=pipelines), (), 5000)


def list_told(record: BranchRecord) -> list[Incident]:
    return [each for each in record.incidents if each.state in (OPEN, CLOSED)]


def test_a_landing_opens_it_at_once_and_a_pass_ends_it() -> None:
    branch = make_record("ABC")
    opened = judge(branch, GREEN, SILENT)
    (incident,) = opened.incidents
    assert (incident.state, incident.first.text) == (OPEN, SILENT_TEXT)
    assert (incident.first.suspect, incident.first.jobs) == ("B", ("unit",))
    (closed,) = judge(opened, GREEN, SILENT, make_run(3, "C", 2100, unit="ok")).incidents
    assert closed.incident_id == incident.incident_id
    assert (closed.state, closed.first.ended_by) == (CLOSED, "C")


@pytest.mark.parametrize("second", ["?", "E"])
def test_without_a_landing_it_takes_a_second_failure(second: str) -> None:
    branch = make_record("A")
    first = judge(branch, GREEN, make_run(2, "A", 1100, unit="?"))
    assert [each.state for each in first.incidents] == [SUSPECTED]
    both = (*first.pipelines, make_run(3, "A", 2100, unit=second))
    (incident,) = judge(first, *both).incidents
    assert (incident.state, incident.first.since_pipeline) == (OPEN, 2)
    assert incident.first.suspect == ""


def test_a_pass_at_the_same_commit_takes_it_back() -> None:
    opened = judge(make_record("AB"), GREEN, SILENT)
    (incident,) = judge(opened, *opened.pipelines, make_run(3, "B", 2100, unit="ok")).incidents
    assert incident.state is WITHDRAWN


def test_a_job_that_has_met_its_time_limit_blames_nobody() -> None:
    (job,) = SILENT.jobs
    hung = replace(SILENT, jobs=(replace(job, is_timeout=True),))
    (incident,) = judge(make_record("AB"), GREEN, hung).incidents
    assert (incident.state, incident.first.suspect) == (OPEN, "")


# ------------------------------------------------------------------------ when an error is known


@pytest.mark.parametrize("state", ["A", "B"], ids=["without a landing", "after a landing"])
def test_a_log_that_comes_late_leaves_one_incident(state: str) -> None:
    first = judge(make_record("AB"), GREEN, make_run(2, state, 1100, unit="?"))
    (known,) = first.incidents
    looked = first.put(replace(known, session_id="s1", issue_iid=7))
    (incident,) = judge(looked, GREEN, make_run(2, state, 1100, unit="E")).incidents
    assert incident.incident_id == known.incident_id
    assert (incident.session_id, incident.issue_iid) == ("s1", 7)
    assert [each.key for each in incident.failures] == ["E"]


def test_a_late_log_with_what_is_told_already_leaves_one_incident() -> None:
    start = make_run(1, "A", 100, lint="ok", unit="ok")
    red = make_run(2, "B", 1100, lint="E", unit="ok")
    first = judge(make_record("ABC"), start, red, make_run(3, "C", 2100, lint="E", unit="?"))
    assert [each.state for each in first.incidents] == [OPEN, OPEN]
    both = judge(first, start, red, make_run(3, "C", 2100, lint="E", unit="E"))
    assert [each.state for each in both.incidents] == [OPEN, WITHDRAWN]
    assert both.incidents[0].first.jobs == ("lint", "unit")
    body = write_issue_body(both, both.incidents[1], IssueScene((), (), frozenset(), str))
    assert "told by another incident" in body


def test_an_error_that_is_known_later_belongs_to_it() -> None:
    opened = judge(make_record("ABCD"), GREEN, SILENT)
    both = judge(opened, *opened.pipelines, make_run(3, "C", 2100, unit="E"))
    (incident,) = both.incidents
    assert incident.incident_id == opened.incidents[0].incident_id
    assert [each.since_pipeline for each in incident.failures] == [2, 3]
    found = explain_request(both, make_request(21, "C", 2200, unit="E"))
    assert found.is_all
    assert [each.since_pipeline for each in found.failures] == [3]
    assert judge_branch(both, (), 6000) == both
    (over,) = judge(both, *both.pipelines, make_run(4, "D", 3100, unit="ok")).incidents
    assert over.state is CLOSED
    assert {each.until_pipeline for each in over.failures} == {4}


def test_a_known_error_that_is_hidden_by_none_stays_the_only_incident() -> None:
    opened = judge(make_record("ABC"), GREEN, make_run(2, "B", 1100, unit="E"))
    (incident,) = judge(opened, *opened.pipelines, make_run(3, "C", 2100, unit="?")).incidents
    assert incident.is_open
    assert [each.key for each in incident.failures] == ["E"]


def test_a_known_error_of_which_nobody_is_told_hides_nothing() -> None:
    opened = judge(make_record("AB"), GREEN, make_run(2, "A", 1100, unit="E"))
    both = judge(opened, *opened.pipelines, make_run(3, "B", 2100, unit="?"))
    assert [each.state for each in both.incidents] == [SUSPECTED, OPEN]
    more = judge(both, *both.pipelines, make_run(4, "B", 3100, unit="E"))
    (told,) = list_told(more)
    assert [each.key for each in told.failures] == ["E"]


def test_jobs_that_fail_without_a_known_error_are_kept_apart() -> None:
    one = make_run(2, "B", 1100, unit="?", lint="ok")
    two = make_run(3, "C", 2100, unit="?", lint="?")
    start = make_run(1, "A", 100, unit="ok", lint="ok")
    opened = judge(make_record("ABCD"), start, one, two)
    assert [(each.first.jobs, each.first.suspect) for each in opened.incidents] == [
        (("unit",), "B"),
        (("lint",), "C"),
    ]
    mended = make_run(4, "D", 3100, unit="?", lint="ok")
    after = judge(opened, *opened.pipelines, mended)
    assert [each.state for each in after.incidents] == [OPEN, CLOSED]


def test_parts_of_a_job_are_one() -> None:
    parts = [
        make_run(number, sha, at, **{f"unit {number}/3": "?", "lint": "ok"})
        for number, sha, at in ((2, "B", 1100), (3, "C", 2100))
    ]
    start = make_run(1, "A", 100, **{"unit 1/3": "ok", "unit 2/3": "ok", "unit 3/3": "ok"})
    (incident,) = judge(make_record("ABC"), start, *parts).incidents
    assert incident.first.since_pipeline == 2


def test_one_that_is_older_than_what_is_kept_keeps_its_beginning() -> None:
    opened = judge(make_record("AB"), GREEN, SILENT)
    later = make_record("YZ", make_run(90, "Y", 90_000, unit="?"))
    still = replace(opened, landings=later.landings, pipelines=later.pipelines)
    (incident,) = judge_branch(still, (), 99_000).incidents
    assert (incident.state, incident.first.since_pipeline) == (OPEN, 2)


def test_a_record_without_room_for_errors_ends_nothing() -> None:
    opened = judge(make_record("AB"), GREEN, SILENT)
    bare = tuple(replace(each, errors=()) for each in SILENT.jobs)
    (incident,) = judge(opened, GREEN, replace(SILENT, jobs=bare)).incidents
    assert incident.is_open


# ------------------------------------------------------------------------------- merge requests


def test_nothing_of_a_merge_request_is_explained() -> None:
    hit = make_unknown(21, "B", 1200)
    opened = judge_branch(make_record("AB", GREEN, SILENT), [hit], 5000)
    assert opened.incidents[0].hits == ()
    assert explain_request(opened, hit).own == (("unit", ""),)
    assert not explain_request(opened, hit).incidents
    known = make_request(22, "B", 1200, unit="E")
    assert explain_request(opened, known).own == (("unit", "E"),)


def test_it_runs_nothing_again() -> None:
    passed = make_run(4, "A", 3100, unit="ok")
    runs = (GREEN, make_run(2, "A", 1100, unit="?"), make_run(3, "A", 2100, unit="?"), passed)
    over = judge_branch(make_record("A", *runs), (), 5000)
    assert [each.first.ended_by for each in over.incidents] == [NOBODY]
    requests = [make_unknown(21, "A", 1200), make_request(22, "A", 1200, unit="E")]
    assert choose_runs_again(over, over.incidents[0], requests) == ()


def test_a_merge_request_is_no_second_witness() -> None:
    record = make_record("A", GREEN, make_run(2, "A", 1100, unit="?"))
    (incident,) = judge_branch(record, [make_unknown(21, "A", 1200)], 5000).incidents
    assert incident.state is SUSPECTED


def test_code_without_the_landing_that_fails_without_a_known_error_clears_it() -> None:
    record = make_record("AB", GREEN, SILENT)
    judged = judge_branch(record, [make_unknown(21, "A", 1200)], 5000)
    (incident,) = judged.incidents
    assert (incident.state, incident.first.suspect) == (OPEN, "")
    assert judge_branch(judged, (), 6000).incidents[0].first.suspect == ""


def test_one_that_mends_it_is_seen() -> None:
    passed = make_request(21, "B", 1200, unit="ok")
    (incident,) = judge_branch(make_record("AB", GREEN, SILENT), [passed], 5000).incidents
    assert incident.menders == (21,)


def test_the_issue_says_that_no_error_is_known() -> None:
    opened = judge(make_record("AB"), GREEN, SILENT)
    scene = IssueScene((), (), frozenset(), str)
    body = write_issue_body(opened, opened.incidents[0], scene)
    assert f"- In `unit`: {SILENT_TEXT}\n" in body
