"""What a judgement keeps of those before it, whatever the order in which its facts came."""

import random
from dataclasses import replace

import pytest

from worker.incidents.judge import judge_branch
from worker.incidents.record import (
    GONE,
    MOST_INCIDENTS,
    NOBODY,
    BranchPipeline,
    BranchRecord,
    Incident,
    IncidentState,
    JobEnd,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
)

OUTCOMES = {"ok": JobOutcome.PASSED, "-": JobOutcome.NO_RESULT}


def make_job(name: str, outcome: str, at: float) -> JobEnd:
    """A job that ended with `ok`, `-` (no result), or errors that are named by a letter each."""
    result = OUTCOMES.get(outcome, JobOutcome.FAILED)
    keys = outcome if result is JobOutcome.FAILED else ""
    errors = tuple((key, f"error {key}") for key in keys)
    return JobEnd(name, int(at * 10), result, at, errors)


def make_pipeline(number: int, sha: str, at: float, /, **jobs: str) -> BranchPipeline:
    """A pipeline of the branch that took a minute."""
    ended = tuple(make_job(name, outcome, at) for name, outcome in jobs.items())
    return BranchPipeline(number, sha, "push", at - 60, at, ended)


def make_record(shas: str, *pipelines: BranchPipeline) -> BranchRecord:
    """A branch on which the commits landed in order, a letter each."""
    landings = tuple(Landing(sha, at * 1000.0, files=()) for at, sha in enumerate(shas))
    return BranchRecord(1, "group/app", "main", landings, pipelines)


def make_request(iid: int, base: str, at: float, /, **jobs: str) -> RequestRecord:
    """A merge request's newest run."""
    ended = tuple(make_job(name, outcome, at) for name, outcome in jobs.items())
    return RequestRecord(iid, iid * 10, at, base=base, jobs=ended, is_member=True)


GREEN, RED = make_pipeline(1, "A", 100, unit="ok"), make_pipeline(2, "B", 1100, unit="E")
MENDED = make_pipeline(3, "C", 2100, unit="ok")


def test_incident_keeps_its_name_and_what_was_learnt() -> None:
    opened = judge_branch(make_record("AB", GREEN, RED), (), 5000)
    (incident,) = opened.incidents
    assert incident.incident_id == "branch-main-2"
    assert incident.state is IncidentState.OPEN
    assert (incident.opened_at, incident.closed_at) == (5000, 0)
    known = replace(incident, session_id="s1", cause="b.py", verdict="code", issue_iid=7)
    record = replace(make_record("ABC", GREEN, RED, MENDED), incidents=(known,))
    (closed,) = judge_branch(record, (), 6000).incidents
    assert closed.state is IncidentState.CLOSED
    assert (closed.opened_at, closed.closed_at) == (5000, 6000)
    assert closed == replace(
        known, state=closed.state, closed_at=6000, failures=closed.failures, hits=()
    )
    assert (closed.first.until_pipeline, closed.first.ended_by) == (3, "C")


def test_judging_again_changes_nothing() -> None:
    judged = judge_branch(
        make_record("AB", GREEN, RED), [make_request(21, "B", 1200, unit="E")], 5000
    )
    again = judge_branch(judged, [make_request(21, "B", 1200, unit="E")], 9000)
    assert again == judged
    assert judged.incidents[0].hits == (21,)


def test_older_failure_that_comes_late_moves_the_beginning_and_not_the_name() -> None:
    later = make_pipeline(3, "C", 1200, unit="E")
    first = judge_branch(make_record("ABC", GREEN, later), (), 5000)
    both = judge_branch(replace(first, pipelines=(GREEN, RED, later)), (), 6000)
    (incident,) = both.incidents
    assert incident.incident_id == "branch-main-3"
    assert (incident.first.since_pipeline, incident.first.suspect) == (2, "B")


def test_incident_that_was_none_is_withdrawn_with_its_suspect() -> None:
    judged = judge_branch(make_record("AB", GREEN, RED), (), 5000)
    again = make_pipeline(3, "B", 1300, unit="ok")
    (incident,) = judge_branch(replace(judged, pipelines=(GREEN, RED, again)), (), 6000).incidents
    assert incident.state is IncidentState.WITHDRAWN
    assert incident.first.suspect == ""
    assert incident.hits == ()


def test_flake_that_was_never_stored_leaves_nothing() -> None:
    again = make_pipeline(3, "B", 1300, unit="ok")
    assert judge_branch(make_record("AB", GREEN, RED, again), (), 6000).incidents == ()


# ------------------------------------------------------------- what has left the kept history


def _forget(record: BranchRecord, shas: str, *pipelines: BranchPipeline) -> BranchRecord:
    """The record when the landings and pipelines that are kept are all newer."""
    newer = make_record(shas, *pipelines)
    return replace(record, landings=newer.landings, pipelines=newer.pipelines)


OPENED = judge_branch(make_record("AB", GREEN, RED), (), 5000)


def test_red_for_longer_than_is_kept_keeps_its_beginning() -> None:
    still = _forget(OPENED, "YZ", make_pipeline(90, "Y", 90_000, unit="E"))
    (incident,) = judge_branch(still, (), 99_000).incidents
    assert incident.state is IncidentState.OPEN
    assert incident.incident_id == "branch-main-2"
    assert (incident.first.since_pipeline, incident.first.suspect) == (2, "B")
    passed = make_pipeline(91, "Z", 91_000, unit="ok")
    over = replace(still, pipelines=(*still.pipelines, passed))
    (closed,) = judge_branch(over, (), 99_000).incidents
    assert (closed.state, closed.first.since_pipeline) == (IncidentState.CLOSED, 2)
    assert (closed.first.until_pipeline, closed.first.ended_by) == (91, "Z")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("ok", IncidentState.CLOSED), ("F", IncidentState.OPEN), ("-", IncidentState.OPEN)],
)
def test_end_after_the_failures_have_left_the_history(outcome: str, state: IncidentState) -> None:
    record = _forget(OPENED, "YZ", make_pipeline(90, "Y", 90_000, unit=outcome))
    incident = judge_branch(record, (), 99_000).incidents[0]
    assert (incident.incident_id, incident.state) == ("branch-main-2", state)
    assert incident.first.until_pipeline == (90 if outcome == "ok" else 0)


def test_what_is_over_and_forgotten_stays_as_it_was() -> None:
    closed = judge_branch(replace(OPENED, pipelines=(GREEN, RED, MENDED)), (), 6000)
    record = _forget(closed, "YZ", make_pipeline(90, "Y", 90_000, unit="ok"))
    assert judge_branch(record, (), 99_000).incidents == closed.incidents


def test_failure_whose_error_could_not_be_kept_stands() -> None:
    silent = replace(RED, jobs=(replace(RED.jobs[0], errors=()),))
    assert judge_branch(replace(OPENED, pipelines=(GREEN, silent)), (), 9000) == replace(
        OPENED, pipelines=(GREEN, silent)
    )
    still = make_pipeline(3, "B", 1300, unit="E")
    (incident,) = judge_branch(
        replace(OPENED, pipelines=(GREEN, silent, still)), (), 9000
    ).incidents
    assert (incident.state, incident.first.since_pipeline) == (IncidentState.OPEN, 2)
    over = judge_branch(replace(OPENED, pipelines=(GREEN, silent, MENDED)), (), 9000).incidents[0]
    assert (over.state, over.first.until_pipeline) == (IncidentState.CLOSED, 3)


def test_branch_that_is_gone_ends_all() -> None:
    gone = judge_branch(replace(OPENED, gone_at=7000.0), (), 8000).incidents[0]
    assert (gone.state, gone.first.ended_by) == (IncidentState.CLOSED, GONE)
    assert gone.first.until_pipeline == 0
    back = judge_branch(replace(OPENED, incidents=(gone,)), (), 9000).incidents[0]
    assert (back.state, back.closed_at) == (IncidentState.OPEN, 0)


def test_no_pipelines_change_nothing() -> None:
    assert judge_branch(replace(OPENED, pipelines=()), (), 9000) == replace(OPENED, pipelines=())


def test_only_the_newest_incidents_are_kept_and_all_that_stand() -> None:
    old = tuple(
        Incident(f"old-{at}", IncidentState.CLOSED, OPENED.incidents[0].failures)
        for at in range(MOST_INCIDENTS + 5)
    )
    old = tuple(
        replace(each, failures=(replace(each.first, key=f"k{at}", since_pipeline=-at),))
        for at, each in enumerate(old)
    )
    record = replace(OPENED, incidents=(*OPENED.incidents, *old))
    names = [each.incident_id for each in judge_branch(record, (), 9000).incidents]
    assert len(names) == MOST_INCIDENTS
    assert names[0] == "branch-main-2"
    assert "old-0" not in names


# ----------------------------------------------------------------------------- oddities of GitLab


def test_commit_that_is_not_among_the_landings_has_its_place_by_its_pipelines() -> None:
    record = make_record("AC", GREEN, RED, MENDED)
    (incident,) = judge_branch(record, (), 9000).incidents
    assert (incident.state, incident.first.since_pipeline) == (IncidentState.CLOSED, 2)
    assert incident.first.suspect == ""
    assert incident.first.ended_by == ""


def test_failure_without_a_known_error_opens_nothing_and_mends_nothing() -> None:
    silent = make_pipeline(2, "B", 1100, unit="")
    assert judge_branch(make_record("AB", GREEN, silent), (), 9000).incidents == ()
    hides = make_pipeline(3, "C", 1200, unit="")
    (incident,) = judge_branch(make_record("ABC", GREEN, RED, hides), (), 9000).incidents
    assert incident.state is IncidentState.OPEN


@pytest.mark.parametrize(("begun", "is_known"), [(5010.0, False), (7000.0, True)])
def test_second_attempt_that_somebody_began_is_a_run_of_its_own(
    begun: float, is_known: bool
) -> None:
    """GitLab's own second attempt makes a failure that passes none; a pass by hand makes a flake,
    which needs a second witness when it comes again."""
    slow = replace(make_pipeline(2, "A", 5000, unit="E"), created_at=1000)
    again = replace(make_job("unit", "ok", 8000), started_at=begun)
    flake = replace(slow, jobs=(*slow.jobs, again))
    later = make_pipeline(3, "B", 9000, unit="E")
    (incident,) = judge_branch(make_record("AB", GREEN, flake, later), (), 9900).incidents
    assert (incident.state is IncidentState.SUSPECTED) == is_known
    assert incident.first.suspect == ("" if is_known else "B")


def test_mender_in_a_train_behind_others_is_not_named() -> None:
    record = make_record("AB", GREEN, RED)
    request = make_request(30, "B", 1200, unit="ok")
    assert judge_branch(record, [request], 9000).incidents[0].menders == (30,)
    behind = replace(request, kind=PipelineKind.MERGE_TRAIN, cars=(31,))
    assert judge_branch(record, [behind], 9000).incidents[0].menders == ()


def test_run_that_passed_before_the_drift_is_no_mender() -> None:
    again = make_pipeline(2, "A", 1000, unit="E"), make_pipeline(3, "A", 1100, unit="E")
    record = make_record("A", GREEN, *again)
    before, after = make_request(30, "A", 900, unit="ok"), make_request(31, "A", 1200, unit="ok")
    assert judge_branch(record, [before, after], 9000).incidents[0].menders == (31,)


# --------------------------------------------------------------------------- any order, any history


def _make_world(chance: random.Random) -> tuple[BranchRecord, list[RequestRecord]]:
    shas = "ABCDEFGH"[: chance.randint(2, 8)]
    pipelines = []
    for number in range(1, chance.randint(3, 14)):
        sha = shas[min(number * len(shas) // 14, len(shas) - 1)]
        at = 1000.0 * number + chance.choice([100, 500, 2500])
        jobs = {
            name: chance.choice(["ok", "ok", "E", "E", "F", "EF", "-", ""])
            for name in ("unit", "e2e", "lint")
            if chance.random() < 0.9
        }
        made = make_pipeline(number, sha, at, **jobs)
        if chance.random() < 0.2:
            again = make_job("unit", chance.choice(["ok", "E"]), at + 3000)
            made = replace(made, jobs=(*made.jobs, again))
        pipelines.append(made)
    requests = [
        make_request(
            iid, chance.choice(shas), 1000.0 * chance.randint(1, 16), unit=chance.choice("EF")
        )
        for iid in range(21, 21 + chance.randint(0, 3))
    ]
    return make_record(shas, *pipelines), requests


def _see(record: BranchRecord, now: float) -> BranchRecord:
    """What GitLab shows of the branch at a time before all had ended."""
    pipelines = tuple(
        replace(each, jobs=tuple(job for job in each.jobs if job.ended_at <= now))
        for each in record.pipelines
        if each.ended_at <= now
    )
    landings = tuple(each for each in record.landings if each.landed_at <= now)
    return replace(record, pipelines=pipelines, landings=landings)


def _strip(record: BranchRecord) -> object:
    """What must not depend on the order in which the facts came. Names and times do."""
    return sorted(
        (incident.state, failure.key, failure.since_pipeline, failure.suspect,
         failure.until_pipeline, failure.jobs, failure.ended_by)
        for incident in record.incidents
        if incident.state is not IncidentState.WITHDRAWN
        for failure in incident.failures
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_final_judgement_is_the_same_for_any_delivery(seed: int) -> None:
    chance = random.Random(seed)
    whole, requests = _make_world(chance)
    expected = judge_branch(whole, requests, 99_000)
    for _ in range(4):
        known: dict[int, RequestRecord] = {}
        record = replace(whole, landings=(), pipelines=())
        for now in sorted(chance.uniform(0, 20_000) for _ in range(chance.randint(0, 8))):
            record = replace(_see(whole, now), incidents=record.incidents)
            known |= {
                each.mr_iid: each
                for each in requests
                if each.ended_at <= now and chance.random() < 0.6
            }
            record = judge_branch(record, list(known.values()), now)
        last = judge_branch(replace(whole, incidents=record.incidents), requests, 99_000)
        assert _strip(last) == _strip(expected)
        assert judge_branch(last, requests, 99_000) == last
        for incident in last.incidents:
            _check(incident)
    red = [
        failure.key
        for incident in expected.incidents
        for failure in incident.failures
        if incident.is_open and not failure.ended_by and not failure.until_pipeline
    ]
    assert len(red) == len(set(red))


def _check(incident: Incident) -> None:
    """What holds of every incident."""
    for failure in incident.failures:
        assert failure.suspect in ("", *failure.landings)
        assert bool(failure.until_pipeline) <= (incident.state is not IncidentState.SUSPECTED)
        if incident.state is IncidentState.CLOSED:
            assert failure.until_pipeline or failure.ended_by == GONE
        if failure.ended_by == NOBODY:
            assert failure.until_pipeline


def test_two_looks_at_a_branch_are_in_the_order_of_the_branch_whatever_the_commits_say() -> None:
    older, newer = make_record("AB"), make_record("BC")
    late = replace(newer, landings=(newer.landings[0], replace(newer.landings[1], landed_at=0.0)))
    for one, other in ((older, late), (late, older), (late, late)):
        shas = [each.sha for each in one.join(other).landings]
        assert shas == (["A", "B", "C"] if one is not other else ["B", "C"])
    apart = make_record("ABCD").landings
    early, then = replace(older, landings=apart[:2]), replace(older, landings=apart[2:])
    assert [each.sha for each in then.join(early).landings] == ["A", "B", "C", "D"]
    assert [each.sha for each in make_record("").join(early).landings] == ["A", "B"]
