"""Whether a verdict was right, judged by what came after it. Pure.

The first of `_RULES` that applies decides; if none applies, it stays open. Only verdicts that claim
something can be right or wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from worker.core.failure.verdict import Verdict
from worker.core.finding.model import CLAIMS


class Label(StrEnum):
    """Whether a verdict was right."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Sequel:
    """A verdict, and what came after it.

    `became` is what became of the pipeline (see `aftermath.BECAME`), "" if that is not known.
    `touches_named` says whether the commits that fixed it change a file that the answer names, None
    if that is not known. `is_target_red` says that GitLab's record has the same failure on the
    target branch. `later_verdict` is a different verdict that a later turn gave, else "".
    """

    verdict: str
    became: str = ""
    touches_named: bool | None = None
    is_target_red: bool = False
    upvotes: int = 0
    downvotes: int = 0
    later_verdict: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A label, and the reason for it."""

    label: Label
    reason: str = ""


_PASSES_AGAIN = frozenset({Verdict.FLAKY, Verdict.INFRASTRUCTURE})


def judge_verdict(sequel: Sequel) -> Judgement:
    """Return whether a verdict was right."""
    if sequel.verdict not in CLAIMS:
        return Judgement(Label.OPEN, "it claims nothing")
    found = (rule(sequel) for rule in _RULES)
    return next(filter(None, found), Judgement(Label.OPEN))


def _judge_by_later_turn(sequel: Sequel) -> Judgement | None:
    if not sequel.later_verdict:
        return None
    return Judgement(Label.CONTRADICTED, f"a later turn says: {sequel.later_verdict}")


def _judge_by_downvotes(sequel: Sequel) -> Judgement | None:
    if sequel.downvotes <= sequel.upvotes:
        return None
    return Judgement(Label.CONTRADICTED, "readers say that it is wrong")


def _judge_by_pass(sequel: Sequel) -> Judgement | None:
    if sequel.became != "passed_again":
        return None
    if sequel.verdict in _PASSES_AGAIN:
        return Judgement(Label.CONFIRMED, "it passed again without a change")
    if sequel.verdict == Verdict.CHANGE:
        return Judgement(Label.CONTRADICTED, "it passed again without a change")
    return None


def _judge_by_fix(sequel: Sequel) -> Judgement | None:
    if sequel.became == "fixed" and sequel.verdict == Verdict.CHANGE and sequel.touches_named:
        return Judgement(Label.CONFIRMED, "a commit to a file that it names fixed it")
    return None


def _judge_by_target(sequel: Sequel) -> Judgement | None:
    if sequel.is_target_red and sequel.verdict == Verdict.TARGET:
        return Judgement(Label.CONFIRMED, "the target branch fails in the same way")
    return None


def _judge_by_upvotes(sequel: Sequel) -> Judgement | None:
    if sequel.upvotes > sequel.downvotes:
        return Judgement(Label.CONFIRMED, "readers say that it is right")
    return None


_RULES: tuple[Callable[[Sequel], Judgement | None], ...] = (
    _judge_by_later_turn,
    _judge_by_downvotes,
    _judge_by_pass,
    _judge_by_fix,
    _judge_by_target,
    _judge_by_upvotes,
)
