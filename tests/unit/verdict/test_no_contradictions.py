"""What the survey says of one group can stand together: no sentence denies another."""

import re
from collections.abc import Iterator
from itertools import product

import pytest

from tests.unit.verdict.verdict_cases import ADDS, BASE, CI, NEW, OLD, facts, on, run, target
from worker.verdict.fact_sentences import describe_facts
from worker.verdict.facts import Change, Facts, JobRun, Target
from worker.verdict.jobs import FailingJob, Group, Hit, RuleMatch, Survey
from worker.verdict.proofs import make_ruling
from worker.verdict.survey_text import tell_survey
from worker.verdict.verdict import Verdict

DENIALS = (
    (r'settled as "flaky"', r"it fails there in the same way since"),
    (r"settled as", r"speaks against"),
    (r"it passes there since", r"it fails there in the same way since"),
    (r" passed when it last ran on main: ", r"it fails there in the same way since"),
    (r"has not passed since: ", r"and passed on the same commit in"),
    (r" has no pipeline to compare with", r"same failure on main"),
    (r"it did not run", r"same failure on main"),
    (r'settled as "(?!infrastructure)', r"recognised by rule \S+, certain"),
    (r'speaks against "flaky"', r"verdict then: flaky;"),
    (r'settled as "(?!flaky)', r"verdict then: flaky;"),
    (r'speaks against "(?:flaky|infrastructure)": the error', r"passed on this same commit"),
    (r'speaks against "(?:flaky|infrastructure)": the error', r"failed in the same way \(job 3"),
    (r"only documentation is changed", r"(?:CI configuration|dependencies) changed: "),
)
"""Two things that are not said of one group."""


def reruns(*runs: tuple[str, str, int]) -> Target:
    """The target branch, newest pipeline first: (commit, outcome, pipeline's number)."""
    made = []
    for number, (sha, outcome, pipeline) in enumerate(runs):
        each = on(sha, outcome, 400 - number)
        made.append(JobRun(each.job_id, pipeline, each.status, sha, each.reason, each.errors))
    return Target("main", tuple(made), len(made), BASE)


SAME, PASS = (run(501),), (run(499, "success"),)
TABLE: tuple[tuple[str, Facts, str, str], ...] = (
    (
        "a retry passed, and the target branch fails alike",
        facts(attempts=(run(501, "success"),), target=target((NEW, "same"), (OLD, "pass"))),
        'settled as "flaky"',
        "it fails there in the same way since",
    ),
    (
        "the target branch fails, passes and fails at its one commit",
        facts(target=target((NEW, "same"), (NEW, "pass"), (NEW, "same"))),
        'settled as "flaky"',
        "it fails there in the same way since",
    ),
    (
        "an old commit of the target branch was run again after the newest one passed",
        facts(target=reruns((BASE, "same", 30), (NEW, "pass", 20), (BASE, "same", 10))),
        "it passes there since",
        "it fails there in the same way since",
    ),
    (
        "the target branch fails and stays so",
        facts(target=target((NEW, "same"), (BASE, "same"), (OLD, "pass"))),
        "it fails there in the same way since",
        'settled as "flaky"',
    ),
    (
        "it failed twice, and passes on the target branch",
        facts(attempts=SAME),
        'speaks against "already failing on the target branch"',
        "settled as",
    ),
)


@pytest.mark.parametrize(("made", "said", "unsaid"), [row[1:] for row in TABLE],
                         ids=[row[0] for row in TABLE])  # fmt: skip
def test_of_two_sentences_that_deny_each_other_one_is_told(
    made: Facts, said: str, unsaid: str
) -> None:
    text = told(made)
    assert said in text
    assert unsaid not in text


def told(made: Facts) -> str:
    """The survey of one group, in which a rule and an earlier finding say something too."""
    job = FailingJob(500, "unit-tests", reason=made.run.reason, read=True)
    rule = RuleMatch("network", "infrastructure", "The network was away.", "Retry.")
    hit = Hit(3, 1.0, 2.0, 2.0, "flaky", "a race", "Retry.", "https://g/x")
    found = make_ruling(made)
    ruling = make_ruling(made, describe_facts(made, found.hard))
    return tell_survey(Survey((Group("k", "t", (job,), rule, hit, ruling),)))


def every_fact() -> Iterator[Facts]:
    """All combinations of what may have happened here, on the target branch and to the files."""
    outcomes = ("same", "pass", "other", "unread")
    here = [(), SAME, PASS, (*SAME, *PASS), (run(501, "success"),), (run(501), run(502, "success"))]
    there = [
        target(),
        *(target((NEW, a), (BASE, b)) for a, b in product(outcomes, outcomes)),
        *(target((NEW, a), (NEW, b), (OLD, c)) for a, b, c in product(outcomes[:2], repeat=3)),
        *(reruns((BASE, a, 30), (NEW, b, 20), (BASE, c, 10)) for a, b, c in
          product(outcomes[:2], repeat=3)),
    ]  # fmt: skip
    changes = [Change(3), Change(1, only_docs=True), CI, ADDS]
    reasons = ["script_failure", "runner_system_failure"]
    for attempts, runs, change, reason in product(here, there, changes, reasons):
        yield facts(run=run(500, reason=reason), attempts=attempts, target=runs, change=change)


def test_no_combination_of_facts_denies_itself() -> None:
    seen = set[Verdict | None]()
    for made in every_fact():
        text = told(made)
        seen.add(make_ruling(made).hard)
        for one, other in DENIALS:
            assert not (re.search(one, text) and re.search(other, text)), text
    assert seen == {None, Verdict.FLAKY, Verdict.TARGET, Verdict.INFRASTRUCTURE}
