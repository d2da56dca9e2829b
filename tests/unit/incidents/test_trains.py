"""Who broke a merge train, by the runs of its cars."""

from collections.abc import Mapping

import pytest

from worker.incidents.record import (
    BranchPipeline,
    BranchRecord,
    JobEnd,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
    TrainBreak,
    TrainCause,
)
from worker.incidents.trains import find_breaker

Jobs = Mapping[str, str]
"""Jobs by their names: `ok`, `-` for no result, or their errors' keys."""

NOBODY = (TrainCause.UNKNOWN, 0)


def make_jobs(number: int, jobs: Jobs) -> tuple[JobEnd, ...]:
    outcomes = {"ok": JobOutcome.PASSED, "-": JobOutcome.NO_RESULT}
    return tuple(
        JobEnd(
            name,
            number * 10 + at,
            outcomes.get(end, JobOutcome.FAILED),
            number * 60.0,
            tuple((key, f"error {key}") for key in end.split() if end not in outcomes),
        )
        for at, (name, end) in enumerate(jobs.items())
    )


def make_run(
    iid: int, jobs: Jobs, *cars: int, base: str = "A", kind: PipelineKind = PipelineKind.MERGE_TRAIN
) -> RequestRecord:
    number = 300 + iid
    return RequestRecord(
        iid, number, number * 60.0, kind, base, (f"head{iid}",), cars=cars,
        jobs=make_jobs(number, jobs),
    )  # fmt: skip


def make_branch(jobs: Jobs | None) -> BranchRecord:
    ran = () if jobs is None else make_jobs(101, jobs)
    pipeline = BranchPipeline(101, "A", "push", 6000.0, 6060.0, ran)
    return BranchRecord(
        1, "team/one", "main", (Landing("A", 5900.0),), () if jobs is None else (pipeline,)
    )


GREEN = {"unit": "ok"}


def find(
    *runs: RequestRecord, branch: Jobs | None = GREEN, others: tuple[RequestRecord, ...] = ()
) -> TrainBreak:
    """Find who broke the train of the last of the runs."""
    return find_breaker(make_branch(branch), runs[-1], runs[:-1], others)


RED, ALONE = {"unit": "E"}, PipelineKind.DETACHED
ONE, TWO, THREE = make_run(1, GREEN), make_run(2, RED, 1), make_run(3, RED, 1, 2)

CASES: dict[str, tuple[TrainBreak, tuple[TrainCause, int]]] = {
    "the first car": (find(make_run(1, RED)), (TrainCause.OWN, 1)),
    "the first car on a branch that was not run": (find(make_run(1, RED), branch=None), NOBODY),
    "the first car on a red branch": (
        find(make_run(1, RED), branch={"unit": "E"}),
        (TrainCause.BRANCH, 0),
    ),
    "behind the car that mends a red branch": (
        find(ONE, TWO, branch={"unit": "E"}),
        (TrainCause.OWN, 2),
    ),
    "behind that one and the culprit": (
        find(ONE, TWO, THREE, branch={"unit": "E"}),
        (TrainCause.CAR, 2),
    ),
    "behind that one and one that is not known": (
        find(ONE, THREE, branch={"unit": "E"}),
        NOBODY,
    ),
    "the second": (find(ONE, TWO), (TrainCause.OWN, 2)),
    "behind the second": (find(ONE, TWO, THREE), (TrainCause.CAR, 2)),
    "behind the first": (
        find(make_run(1, RED), TWO, THREE),
        (TrainCause.CAR, 1),
    ),
    "behind one that is not known": (find(ONE, THREE), NOBODY),
    "behind a cancelled one": (find(ONE, make_run(2, {"unit": "-"}, 1), THREE), NOBODY),
    "behind a cancelled one and the culprit": (
        find(make_run(1, RED), make_run(2, {"unit": "-"}, 1), THREE),
        (TrainCause.CAR, 1),
    ),
    "behind one that fails otherwise": (find(ONE, make_run(2, {"unit": "F"}, 1), THREE), NOBODY),
    "behind one with fewer errors": (
        find(ONE, make_run(2, {"unit": "F"}, 1), make_run(3, {"unit": "F E"}, 1, 2)),
        (TrainCause.CAR, 2),
    ),
    "a job that nothing in front has": (
        find(ONE, make_run(2, {"unit": "ok", "docs": "E"}, 1)),
        (TrainCause.OWN, 2),
    ),
    "a job that was skipped in front": (
        find(make_run(1, {"unit": "ok", "docs": "-"}), make_run(2, {"unit": "ok", "docs": "E"}, 1)),
        NOBODY,
    ),
    "a job that nothing in front has, which has failed": (
        find(make_run(1, {"unit": "F"}), make_run(2, {"docs": "E"}, 1)),
        NOBODY,
    ),
    "a job without a known error": (
        find(ONE, make_run(2, {"unit": ""}, 1)),
        (TrainCause.OWN, 2),
    ),
    "behind a job without a known error": (
        find(ONE, make_run(2, {"unit": ""}, 1), make_run(3, {"unit": ""}, 1, 2)),
        NOBODY,
    ),
    "no train": (find(ONE, make_run(2, RED, kind=ALONE)), NOBODY),
    "on an unknown commit": (find(ONE, make_run(2, RED, 1, base="Z")), NOBODY),
    "the same elsewhere": (find(ONE, TWO, others=(make_run(9, RED, kind=ALONE),)), NOBODY),
    "the same elsewhere, with the car in it": (
        find(ONE, TWO, others=(make_run(9, RED, 1, 2),)),
        (TrainCause.OWN, 2),
    ),
    "the same elsewhere, on what is not known": (
        find(ONE, TWO, others=(make_run(9, RED, base="Z"),)),
        (TrainCause.OWN, 2),
    ),
    "another error elsewhere": (
        find(ONE, TWO, others=(make_run(9, {"unit": "F"}, kind=ALONE),)),
        (TrainCause.OWN, 2),
    ),
}


@pytest.mark.parametrize(("found", "expected"), CASES.values(), ids=CASES)
def test_who_broke_it(found: TrainBreak, expected: tuple[TrainCause, int]) -> None:
    assert (found.cause, found.car) == expected
    assert bool(found.red_pipeline and found.green_pipeline) is bool(found.car)


def test_the_pair_of_pipelines_is_named() -> None:
    assert (find(ONE, TWO, THREE).red_pipeline, find(ONE, TWO, THREE).green_pipeline) == (302, 301)
    assert (find(ONE, TWO).red_pipeline, find(ONE, TWO).green_pipeline) == (302, 301)
    assert (find(make_run(1, RED)).red_pipeline, find(make_run(1, RED)).green_pipeline) == (
        301,
        101,
    )


def test_what_another_car_brought_is_apart_from_the_rest() -> None:
    last = make_run(3, {"unit": "E", "lint": "F", "docs": "ok"}, 1, 2)
    front = make_run(2, {"unit": "E", "lint": "ok", "docs": "ok"}, 1)
    found = find(make_run(1, {"unit": "ok", "lint": "ok"}), front, last)
    assert (found.cause, found.car) == (TrainCause.CAR, 2)
    assert (found.explained_errors, found.own) == ((("unit", "E"),), (("lint", "F"),))


def test_alone_neither_fails() -> None:
    alone = make_run(2, GREEN, kind=ALONE)
    assert find(ONE, alone, TWO).together_with == 1
    assert find(ONE, TWO).together_with == 0
    without = make_run(3, GREEN, 2)  # it lacks the first car, and the second is in it
    assert find(ONE, make_run(2, GREEN, 1), without, THREE).together_with == 1
    more = make_run(3, GREEN, 4)  # another one may have mended it
    assert find(ONE, make_run(2, GREEN, 1), more, THREE).together_with == 0
