"""A cause that blames a release, an image or a runner is held against what both logs name."""

from dataclasses import replace

import pytest

from tests.unit.verdict.verdict_cases import ADDS, PASSED_LATER, facts, run
from worker.answer.cause_proof import hold_against_installed
from worker.verdict.facts import Facts, Installed, LastPass
from worker.verdict.proofs import make_ruling
from worker.verdict.remarks import plain
from worker.verdict.verdict import Verdict, decide_headline, dump_ruling, load_ruling

INFRA = Verdict.INFRASTRUCTURE
SAME = (
    Installed("runner", "", "blue-3 zxwgkjAP"),
    Installed("image", "registry.example/ci/python:3.11", "a484f697a661"),
    Installed("pip", "typing-extensions", "4.12.2"),
    Installed("pip", "click", "8.1.8"),
    Installed("tool", "ruff", "0.5.0"),
)
COMPARED = facts(may_blame_host=False, last_pass=LastPass(run(300), same=SAME))
BLAMES = (
    "A new release of click breaks the option parser.",
    "A new version of `click` (8.2) removed the class.",
    "The newly published click release drops it: a new click release.",
    "click 8.1.8 was released yesterday and removes it.",
    "click was upgraded between the two runs.",
    "The upgrade of click to 8.2 removed it.",
    "The job broke with the update to typing_extensions.",
    "typing-extensions has been updated on the index.",
    "A newer ruff version enables the rule.",
    "The base image was rebuilt and lacks libssl.",
    "A new image no longer has make.",
    "A new Docker image lacks make.",
    "registry.example/ci/python:3.11 was re-tagged.",
    "It ran on a different runner.",
    "The runner was replaced.",
)
OTHERS = (
    "A new release of attrs breaks the schema.",
    "A new release of attrs no longer supports click.",
    "The package index was down.",
    "The advisory database has a new entry for click.",
    "No new release of click is involved: the index was down.",
    "The runner ran out of disk, without a new image.",
    "The service behind the tests answered 500.",
    "click reads the terminal's width, which the runner does not have.",
    "",
)


def held(cause: str, verdict: Verdict = INFRA, made: Facts = COMPARED) -> Verdict:
    return decide_headline(
        [hold_against_installed(make_ruling(made), verdict, cause)], verdict
    ).verdict


@pytest.mark.parametrize("cause", BLAMES)
def test_what_has_not_changed_since_the_pass_is_not_to_blame(cause: str) -> None:
    assert held(cause) is Verdict.UNKNOWN


@pytest.mark.parametrize("cause", OTHERS)
def test_what_is_not_compared_or_not_blamed_may_be_the_cause(cause: str) -> None:
    assert held(cause) is INFRA


@pytest.mark.parametrize("verdict", [Verdict.CHANGE, Verdict.FLAKY, Verdict.UNKNOWN])
def test_only_infrastructure_is_held_against_it(verdict: Verdict) -> None:
    assert held(BLAMES[0], verdict) is verdict


@pytest.mark.parametrize(
    "made",
    [
        replace(COMPARED, last_pass=None),
        replace(COMPARED, last_pass=LastPass(run(300), ("click 8.1.8 → 8.2.0",), same=SAME[:3])),
        replace(COMPARED, may_blame_host=True),
        replace(COMPARED, may_blame_host=None),
    ],
    ids=["no pass", "it differs", "an outage too", "the log is not known"],
)
def test_nothing_is_refuted_where_that_is_not_known_or_not_all(made: Facts) -> None:
    assert held(BLAMES[0], made=made) is INFRA


def test_the_fact_names_the_thing_and_the_pass() -> None:
    for cause, said in (
        (BLAMES[0], "click 8.1.8 was installed in job 300 too, which passed"),
        (BLAMES[9], "registry.example/ci/python:3.11 a484f697a661 is the image of job 300 too"),
        (BLAMES[13], "it ran on the same runner as job 300, which passed"),
    ):
        ruling = hold_against_installed(make_ruling(COMPARED), INFRA, cause)
        assert plain(ruling.explain_refutation(INFRA)).startswith(said)


def test_it_is_told_before_another_refutation_and_a_proof_stays() -> None:
    both = hold_against_installed(make_ruling(replace(COMPARED, change=ADDS)), INFRA, BLAMES[0])
    assert "click 8.1.8" in plain(both.explain_refutation(INFRA))
    proven = make_ruling(replace(COMPARED, attempts=(PASSED_LATER,)))
    assert hold_against_installed(proven, INFRA, BLAMES[0]) == proven


def test_it_is_stored_and_read_back() -> None:
    ruling = make_ruling(COMPARED)
    stored = dump_ruling(ruling)
    assert load_ruling(stored) == ruling
    older = {key: value for key, value in stored.items() if key not in ("same", "last_pass")}
    assert load_ruling(older).same_as_passed == ()
