"""What GitLab's record proves and refutes, and that it leaves alone what it cannot know."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest

from tests.unit.verdict.verdict_cases import (
    ADDS,
    AGAIN,
    BASE,
    CASES,
    CHANGE,
    FLAKY,
    INFRA,
    NEW,
    OLD,
    PASSED_LATER,
    TARGET,
    UNKNOWN,
    Case,
    facts,
    on,
    reason,
    run,
    target,
)
from worker.verdict import remarks
from worker.verdict.fact_sentences import describe_facts
from worker.verdict.facts import Facts, JobRun, Target, Unknown
from worker.verdict.proofs import make_ruling
from worker.verdict.remarks import plain
from worker.verdict.verdict import FinalVerdict, Verdict, decide_headline, dump_ruling, load_ruling


def _final(case: Case) -> Verdict:
    return decide_headline([make_ruling(each) for each in case.errors], case.model).verdict


def _naive(case: Case) -> Verdict:
    """What one would write first: any pass is a flake, any red target an old failure."""
    each = case.errors[0]
    passed = isinstance(each.attempts, tuple) and any(r.status == "success" for r in each.attempts)
    red = isinstance(each.target, Target) and any(r.status == "failed" for r in each.target.runs)
    if "system" in each.run.reason or "timeout" in each.run.reason:
        return INFRA
    if passed or any(r.status == "success" for r in each.runs_of_other_sources):
        return FLAKY
    return TARGET if red else case.model


def _f1(decide: Callable[[Case], Verdict], cases: Iterable[Case]) -> dict[Verdict, float]:
    """F1 by class: 2 TP / (2 TP + FP + FN)."""
    pairs = [(decide(case), case.truth) for case in cases]
    return {kind: _of(kind, pairs) for kind in (CHANGE, TARGET, FLAKY, INFRA, UNKNOWN)}


def _of(kind: Verdict, pairs: list[tuple[Verdict, Verdict]]) -> float:
    named = sum((said == kind) + (truth == kind) for said, truth in pairs)
    return 2 * pairs.count((kind, kind)) / named


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_is_right(case: Case) -> None:
    assert _final(case) == case.truth


def test_f1_of_every_class_is_at_least_nine_tenths_where_model_and_first_thought_fail() -> None:
    assert len(CASES) >= 40
    assert min(_f1(_final, CASES).values()) >= 0.9
    assert max(_f1(lambda case: case.model, CASES).values()) < 0.9
    assert max(_f1(_naive, CASES).values()) < 0.9


def test_the_cases_say_truly_who_decides() -> None:
    for case in CASES:
        deciding = {
            "code": case.model != case.truth
            and any(make_ruling(each).hard for each in case.errors),
            "model": case.model == case.truth,
            "nobody": case.model != case.truth
            and not any(make_ruling(e).hard for e in case.errors),
        }
        assert deciding[case.by], case.name
    assert sum(case.by == "code" for case in CASES) >= 20
    assert sum(case.by == "model" for case in CASES) >= 20


@pytest.mark.parametrize("said", [CHANGE, TARGET, INFRA])
def test_a_model_that_is_overruled_is_named_with_the_proof(said: Verdict) -> None:
    made = decide_headline([make_ruling(facts(attempts=(PASSED_LATER,)))], said)
    assert (made.verdict, made.model) == (FLAKY, said)
    assert plain(made.because) == (
        "unit-tests failed in job 500 and passed on the same commit in job 501"
    )


@pytest.mark.parametrize("said", [UNKNOWN, Verdict.ABSTAIN, FLAKY])
def test_a_model_that_does_not_claim_otherwise_is_not_overruled(said: Verdict) -> None:
    assert decide_headline([make_ruling(facts(attempts=(PASSED_LATER,)))], said) == FinalVerdict(
        FLAKY, said
    )


def test_without_rulings_the_model_is_believed() -> None:
    assert decide_headline([], CHANGE) == FinalVerdict(CHANGE, CHANGE)


def test_a_refuted_verdict_is_unknown_and_says_why() -> None:
    made = decide_headline([make_ruling(facts())], TARGET)
    assert (made.verdict, made.model) == (UNKNOWN, TARGET)
    assert "unit-tests passed when it last ran on main" in plain(made.because)


def test_the_mended_target_branch_is_worth_a_rebase() -> None:
    ruling = make_ruling(facts(target=target((NEW, "pass"), (BASE, "same"))))
    assert "a rebase brings that" in plain(ruling.because)


def test_the_distance_in_time_is_told() -> None:
    red = replace(run(399, sha=NEW), started_at="2026-11-20T07:00:00.000Z")
    made = facts(
        run=run(500, started_at="2026-11-20T09:00:00.000Z"), target=Target("main", (red,), 1)
    )
    assert "same failure on main: pipeline 3990, job 399, 2 h before this failure" in plain(
        make_ruling(made).because
    )


def test_the_record_tells_what_is_known_and_what_is_not() -> None:
    made = reason(
        "runner_system_failure",
        attempts=(run(501),),
        target=target((NEW, "other"), (BASE, "pass")),
        elsewhere=Unknown("GitLab answered 500"),
    )
    told = [plain(each) for each in describe_facts(made)]
    assert told == [
        "GitLab's failure reason: runner_system_failure",
        "other runs on this commit: 1 failed in another way (job 501) with e1",
        "this job on main, newest 2 pipelines: 1 passed (job 399); 1 failed in another way "
        "(job 400) with e2",
        "on the commit this pipeline is built on: 1 passed (job 399)",
        "main has new commits since",
        "not known of other merge requests: GitLab answered 500",
    ]


NOW = "2026-11-25T09:00:00.000Z"
JANUARY = "2026-01-14T09:00:00.000Z"


def _tell(of_main: Sequence[JobRun], earlier: Sequence[JobRun] = ()) -> list[str]:
    made = facts(
        run=replace(run(500), started_at=NOW),
        target=Target("main", tuple(of_main), len(of_main), BASE),
        earlier=tuple(earlier),
    )
    return [plain(each) for each in describe_facts(made)]


def test_it_is_told_how_old_the_only_pass_on_the_target_branch_is() -> None:
    green = replace(run(399, "success", sha=BASE), started_at=JANUARY)
    assert "job 399 passed on main on 2026-01-14, 315 d before this failure" in _tell([green])
    for recent in (NOW, "2026-11-25T01:00:00.000Z", "", "2026-12-24T09:00:00.000Z"):
        assert not any("before" in each for each in _tell([replace(green, started_at=recent)]))


def test_of_several_passes_it_is_told_how_old_the_last_one_is() -> None:
    greens = [
        replace(run(number, "success", sha=BASE), started_at=at)
        for number, at in ((399, "2026-11-19T09:00:00.000Z"), (398, JANUARY))
    ]
    earlier = replace(run(450, "success", sha=NEW), started_at="2026-11-20T09:00:00.000Z")
    told = _tell(greens, [earlier])
    assert "2 passed (job 399, job 398; the last on 2026-11-19, 6 d before)" in told[1]
    assert told[0] == (
        "in earlier pipelines of this merge request on other commits: 1 passed (job 450; on "
        "2026-11-20, 5 d before)"
    )


def test_a_ruling_is_stored_and_read_back() -> None:
    made = facts(attempts=(PASSED_LATER,))
    red = facts(target=target((NEW, "same"), (BASE, "same")))
    for each in (made, facts(), reason("api_failure"), red):
        ruling = make_ruling(each, describe_facts(each))
        assert load_ruling(dump_ruling(ruling)) == ruling
        older = {key: value for key, value in dump_ruling(ruling).items() if key != "origin"}
        assert load_ruling(older) == replace(ruling, origin=())


def test_a_ruling_of_an_earlier_version_refutes_only_what_it_did_then() -> None:
    stored = dump_ruling(make_ruling(facts(change=ADDS, attempts=(AGAIN,))))
    assert load_ruling(stored).refuted_verdicts == {FLAKY, TARGET}
    older = load_ruling({key: value for key, value in stored.items() if key != "refuted"})
    assert older.refuted_verdicts == {TARGET}
    assert decide_headline([older], TARGET).is_refuted
    assert decide_headline([older], FLAKY) == FinalVerdict(FLAKY, FLAKY)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("2026-11-20T09:00:00Z", "2026-11-20T09:00:30Z", "30 s before"),
        ("2026-11-20T09:00:00Z", "2026-11-20T06:00:00Z", "3 h after"),
        ("2026-11-10T09:00:00Z", "2026-11-20T09:00:00Z", "10 d before"),
        ("", "2026-11-20T09:00:00Z", ""),
        ("yesterday", "2026-11-20T09:00:00", ""),
        ("2026-11-20T09:00:00", "2026-11-20T09:00:00Z", ""),
    ],
)
def test_how_far_apart_two_times_are(one: str, other: str, words: str) -> None:
    assert remarks.describe_distance(one, other) == words


def test_an_unknown_error_is_never_the_same() -> None:
    made = Facts("x", run(1, errors=frozenset()))
    assert not made.has_same_error(run(2, errors=frozenset()))


@pytest.mark.parametrize(
    ("passed", "failed", "said"),
    [
        (26, 514, "job 400 (in 26 s, where this run took 514 s)"),
        (126, 514, "job 400"),
        (2, 40, "job 400"),
        (0, 514, "job 400"),
    ],
)
def test_a_pass_that_took_a_fraction_of_the_time_is_told_as_such(
    passed: float, failed: float, said: str
) -> None:
    green = run(400, "success", sha=BASE, seconds=passed)
    made = facts(target=Target("main", (green,), 1, BASE), run=run(41, seconds=failed))
    assert plain(decide_headline([make_ruling(made)], TARGET).because).endswith(said)


def test_the_pass_on_the_commit_the_change_is_built_on_is_told_once() -> None:
    told = [
        plain(each) for each in describe_facts(facts(target=target((BASE, "pass"), (OLD, "pass"))))
    ]
    assert told == ["this job on main, newest 2 pipelines: 2 passed (job 400, job 399)"]
    assert "on the commit this pipeline is built on: pipeline 4000, job 400" in plain(
        decide_headline(
            [make_ruling(facts(target=target((BASE, "pass"), (OLD, "pass"))))], TARGET
        ).because
    )


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("other", "1 failed in another way"), ("pass", "1 passed"), ("running", "none has ended")],
)
def test_another_run_on_the_commit_the_change_is_built_on_is_told(outcome: str, said: str) -> None:
    made = facts(target=target((NEW, "pass"), (BASE, outcome)))
    told = [plain(each) for each in describe_facts(made)]
    assert any(each.startswith(f"on the commit this pipeline is built on: {said}") for each in told)


def test_a_failure_of_another_kind_that_came_and_went_there_is_told() -> None:
    came = (replace(on(BASE, "other", 398), url=""), replace(on(BASE, "pass", 399), url=""))
    made = facts(target=Target("main", came, 2, BASE))
    words = "on one commit of main it failed in another way and then passed: job 398, job 399"
    assert words in [plain(each) for each in describe_facts(made)]
    made = facts(target=Target("main", tuple(reversed(came))[:1], 1, BASE))
    assert not any("and then passed" in plain(each) for each in describe_facts(made))


def test_some_of_the_errors_that_came_and_went_there_are_told() -> None:
    came = (replace(on(BASE, "same", 398), url=""), replace(on(BASE, "pass", 399), url=""))
    made = facts(target=Target("main", came, 2, BASE))
    both = replace(made, run=replace(made.run, errors=made.run.errors | {"another one"}))
    words = (
        "on one commit of main it failed with some of the errors of this failure and then passed"
    )
    assert f"{words}: job 398, job 399" in [plain(each) for each in describe_facts(both)]
    assert not any("and then passed" in plain(each) for each in describe_facts(made))


def test_it_is_told_with_which_commit_the_target_branch_began_to_fail() -> None:
    red = facts(target=target((NEW, "same"), (BASE, "same"), (OLD, "pass")))
    told = [plain(each) for each in describe_facts(red)]
    assert f"it fails there in the same way since pipeline 3990 (commit {BASE[:8]})" in told
