"""What is explained of a merge request, what runs again, and who broke a train: odd inputs."""

from dataclasses import replace

import pytest

from tests.unit.incidents.test_judge import make_pipeline, make_record, make_request
from worker.incidents.explain import (
    blames_unproven,
    choose_runs_again,
    count_runs,
    explain_request,
    list_hits,
)
from worker.incidents.judge import judge_branch
from worker.incidents.record import (
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
    TrainBreak,
    TrainCause,
)
from worker.incidents.trains import find_breaker
from worker.incidents.witnesses import is_revert

GREEN, RED = make_pipeline(1, "A", 100, unit="ok"), make_pipeline(2, "B", 1100, unit="E")
BROKEN = judge_branch(make_record("AB", GREEN, RED), (), 5000)


def test_job_without_a_known_error_is_not_explained() -> None:
    found = explain_request(BROKEN, make_request(21, "B", 1200, unit="E", lint=""))
    assert found.explained_errors == (("unit", "E"),)
    assert found.own == (("lint", ""),)
    assert not found.is_all


def test_nothing_failed_is_nothing_explained() -> None:
    found = explain_request(BROKEN, make_request(21, "B", 1200, unit="ok"))
    assert (found.is_all, found.is_green, found.last_end) == (False, False, None)


def test_newest_attempt_of_a_job_counts() -> None:
    request = make_request(21, "B", 1200, unit="E")
    passed = replace(request.jobs[0], job_id=99_999, outcome=JobOutcome.PASSED, errors=())
    assert not explain_request(
        BROKEN, replace(request, jobs=(passed, *request.jobs))
    ).explained_errors


@pytest.mark.parametrize("state", [IncidentState.SUSPECTED, IncidentState.WITHDRAWN])
def test_incident_that_nobody_is_told_of_explains_nothing(state: IncidentState) -> None:
    record = replace(BROKEN, incidents=(replace(BROKEN.incidents[0], state=state),))
    assert not explain_request(record, make_request(21, "B", 1200, unit="E")).explained_errors


@pytest.mark.parametrize(
    ("base", "at", "is_explained"),
    [
        ("B", 1200, True),
        ("B", 9000, True),
        ("C", 2200, False),
        ("C", 1300, False),
        ("A", 1300, True),
        ("A", 9000, False),
        ("", 1300, True),
        ("", 9000, False),
        ("unknown", 9000, False),
    ],
)
def test_after_the_end_the_code_and_the_time_decide(
    base: str, at: float, is_explained: bool
) -> None:
    passed = make_pipeline(3, "C", 2100, unit="ok")
    record = judge_branch(make_record("ABC", GREEN, RED, passed), (), 5000)
    found = explain_request(record, make_request(21, base, at, unit="E"))
    assert found.is_all == is_explained
    assert found.is_green == is_explained
    if found.last_end:
        assert found.last_end.until_pipeline == 3


def test_incident_that_has_left_the_history_explains_what_failed_in_its_time() -> None:
    kept = replace(BROKEN, landings=(), pipelines=())
    assert explain_request(kept, make_request(21, "B", 1200, unit="E")).is_all
    closed = judge_branch(
        replace(BROKEN, pipelines=(GREEN, RED, make_pipeline(3, "B", 2100, unit="ok"))), (), 5000
    )
    flake = explain_request(closed, make_request(21, "B", 1200, unit="E"))
    assert not flake.explained_errors


def test_merged_and_mending_requests_are_not_hit() -> None:
    over = replace(make_request(22, "B", 1200, unit="E"), is_over=True)
    mender = make_request(23, "B", 1300, unit="ok", lint="E")
    requests = [make_request(21, "B", 1200, unit="E"), over, mender]
    record = judge_branch(BROKEN, requests, 5000)
    assert record.incidents[0].menders == (23,)
    assert list_hits(record, requests) == {"branch-main-2": (21,)}


@pytest.mark.parametrize("is_over", [False, True])
def test_who_runs_behind_a_fix_fails_by_itself_also_when_the_fix_is_over(is_over: bool) -> None:
    mender = replace(make_request(23, "B", 1300, unit="ok"), is_over=is_over)
    behind = replace(
        make_request(24, "B", 1400, unit="E"), kind=PipelineKind.MERGE_TRAIN, cars=(23,)
    )
    record = judge_branch(BROKEN, [mender, behind], 5000)
    assert record.incidents[0].menders == (() if is_over else (23,))
    assert explain_request(record, behind).own == (("unit", "E"),)


# ---------------------------------------------------------------------------------- run again


def _make_outage() -> tuple[BranchRecord, list[RequestRecord]]:
    requests = [make_request(iid, "A", 250.0 + iid, unit="E") for iid in (21, 22, 23)]
    pipelines = (
        GREEN,
        make_pipeline(2, "A", 200, unit="E"),
        make_pipeline(3, "A", 220, unit="E"),
        make_pipeline(4, "A", 500, unit="ok"),
    )
    return judge_branch(make_record("A", *pipelines), requests, 5000), requests


def test_the_newest_are_run_again_first_and_each_once() -> None:
    record, requests = _make_outage()
    (incident,) = record.incidents
    chosen = choose_runs_again(record, incident, requests)
    assert [iid for iid, _ in chosen] == [23, 22, 21]
    asked = replace(requests[1], run_again=(requests[1].jobs[0].job_id,))
    chosen = choose_runs_again(record, incident, [requests[0], asked, requests[2]])
    assert [iid for iid, _ in chosen] == [23, 21]


def test_what_really_ran_is_counted_by_the_incident_that_was_why() -> None:
    _, requests = _make_outage()
    ran = replace(requests[0], run_again=(1, 2), ran_for=((1, "i1"), (2, "i1"), (3, "i2")))
    refused = replace(requests[1], run_again=(4,))
    assert [count_runs(each, [ran, refused]) for each in ("i1", "i2", "i3")] == [1, 1, 0]


@pytest.mark.parametrize(
    "change",
    [{"is_over": True}, {"is_member": False}, {"kind": PipelineKind.MERGE_TRAIN}],
)
def test_what_must_not_run_again(change: dict[str, object]) -> None:
    record, requests = _make_outage()
    changed = replace(requests[2], **change)  # type: ignore[arg-type]
    assert choose_runs_again(record, record.incidents[0], [changed]) == ()


# ---------------------------------------------------------------------------------- trains

TRAIN = make_record("A", make_pipeline(1, "A", 100, build="ok"))


def _make_car(iid: int, base: str, cars: tuple[int, ...], outcome: str) -> RequestRecord:
    made = make_request(iid, base, 1000.0 + iid, build=outcome)
    return replace(made, kind=PipelineKind.MERGE_TRAIN, cars=cars)


def test_request_outside_of_a_train_is_broken_by_nobody() -> None:
    assert find_breaker(TRAIN, make_request(31, "A", 1100, build="E"), ()) == TrainBreak()


@pytest.mark.parametrize(
    ("front", "cause", "car"),
    [
        ("ok", TrainCause.OWN, 32),
        ("E", TrainCause.CAR, 31),
        ("-", TrainCause.UNKNOWN, 0),
        ("F", TrainCause.UNKNOWN, 0),
    ],
)
def test_first_failure_after_a_pass_names_the_car(front: str, cause: TrainCause, car: int) -> None:
    request = _make_car(32, "A", (31,), "E")
    found = find_breaker(TRAIN, request, [_make_car(31, "A", (), front), request])
    assert (found.cause, found.car) == (cause, car)


def test_branch_whose_job_is_not_known_under_the_train_proves_nothing() -> None:
    request = _make_car(31, "A", (), "E")
    unknown = make_record("A", make_pipeline(1, "A", 100, lint="ok"))
    assert find_breaker(unknown, request, [request]) == TrainBreak()
    assert find_breaker(TRAIN, replace(request, base="?"), [request]) == TrainBreak()


def test_branch_that_fails_under_the_train_without_an_incident() -> None:
    request = _make_car(31, "A", (), "E")
    red = make_record("A", make_pipeline(1, "A", 100, build="E"))
    assert find_breaker(red, request, [request]).cause is TrainCause.BRANCH


@pytest.mark.parametrize(
    ("fix", "cause", "car"),
    [
        ({"build": "ok"}, TrainCause.OWN, 32),
        ({"lint": "ok"}, TrainCause.BRANCH, 0),
        ({"build": "E"}, TrainCause.BRANCH, 0),
        ({"build": "-"}, TrainCause.BRANCH, 0),
    ],
)
def test_what_a_car_in_front_has_mended_is_broken_by_who_is_behind_it(
    fix: dict[str, str], cause: TrainCause, car: int
) -> None:
    red = make_record("A", make_pipeline(1, "A", 100, build="E"))
    front = replace(make_request(31, "A", 1031, **fix), kind=PipelineKind.MERGE_TRAIN)
    request = _make_car(32, "A", (31,), "E")
    found = find_breaker(red, request, [front, request])
    assert (found.cause, found.car) == (cause, car)


def test_car_that_has_landed_since_is_the_same_code() -> None:
    front = _make_car(31, "A", (), "ok")
    landed = replace(TRAIN, landings=(*TRAIN.landings, Landing("B", 1100, mr_iid=31)))
    middle = _make_car(32, "B", (), "E")
    last = _make_car(33, "A", (31, 32), "E")
    found = find_breaker(landed, last, [front, middle, last])
    assert (found.cause, found.car) == (TrainCause.CAR, 32)
    assert found.explained_errors == (("build", "E"),)


@pytest.mark.parametrize(
    ("other", "partner"),
    [
        (_make_car(33, "A", (31,), "ok"), 32),
        (_make_car(33, "A", (), "ok"), 0),
        (_make_car(33, "A", (31,), "E"), 0),
        (_make_car(34, "A", (31,), "ok"), 0),
    ],
)
def test_only_together_with_one_car_in_front(other: RequestRecord, partner: int) -> None:
    runs = [_make_car(31, "A", (), "ok"), _make_car(32, "A", (31,), "ok"), other]
    request = _make_car(33, "A", (31, 32), "E")
    found = find_breaker(TRAIN, request, [*runs, request])
    assert (found.cause, found.together_with) == (TrainCause.OWN, partner)


def test_what_is_taken_back_is_named_by_its_commits_or_its_merge_request() -> None:
    landing = Landing("A", 100, mr_iid=12, mr_sha="tip")
    for names in (("A",), ("tip",), ("!12",), ("!1", "!12")):
        assert is_revert(names, landing)
    for other in ([], ["B"], ["!1"], ["!123"], ["12"]):
        assert not is_revert(other, landing)
    assert not is_revert(("!0", ""), Landing("A", 100))


@pytest.mark.parametrize(
    ("text", "blames"),
    [
        ("The clock stands still.", False),
        ("Since !11 the clock stands still.", True),
        ("Since !12 the clock stands still.", False),
        ("!12 or !11", True),
        ("!110 and !1 are other merge requests", False),
        ("Broken by aaaaaaaaaa.", True),
        ("Broken by bbbbbbbbbb.", False),
        ("Broken by aaaaaa.", False),
        ("The tip 1111111 has done it.", True),
    ],
)
def test_a_model_blames_nobody_without_proof(text: str, blames: bool) -> None:
    landings = (
        Landing("a" * 40, 100, mr_iid=11, mr_sha="1" * 40),
        Landing("b" * 40, 200, mr_iid=12),
    )
    failure = BranchFailure("k", "E", ("unit",), 2, 300.0, suspect="b" * 40)
    incident = Incident("i", IncidentState.OPEN, (failure,))
    record = BranchRecord(7, "team/one", "main", landings)
    assert blames_unproven(record, incident, text) is blames
