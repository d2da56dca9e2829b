"""Whether a verdict was right, judged by what came after it. Pure.

Only verdicts that claim something can be right or wrong; what nothing decides stays open.
"""

from dataclasses import dataclass
from enum import StrEnum

from worker.verdict.finding import CLAIMS
from worker.verdict.verdict import Verdict


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
    """Return whether a verdict was right. The first of these rules that applies decides."""
    verdict, passed_again = sequel.verdict, sequel.became == "passed_again"
    if verdict not in CLAIMS:
        return Judgement(Label.OPEN, "it claims nothing")
    if sequel.became == "failed_again" and verdict in _PASSES_AGAIN:
        return Judgement(Label.CONTRADICTED, "it failed again in the same way")
    if sequel.later_verdict:
        return Judgement(Label.CONTRADICTED, f"a later turn says: {sequel.later_verdict}")
    if sequel.downvotes > sequel.upvotes:
        return Judgement(Label.CONTRADICTED, "readers say that it is wrong")
    if passed_again and verdict in _PASSES_AGAIN:
        return Judgement(Label.CONFIRMED, "it passed again without a change")
    if passed_again and verdict == Verdict.CHANGE:
        return Judgement(Label.CONTRADICTED, "it passed again without a change")
    if sequel.became == "fixed" and verdict == Verdict.CHANGE and sequel.touches_named:
        return Judgement(Label.CONFIRMED, "a commit to a file that it names fixed it")
    if sequel.is_target_red and verdict == Verdict.TARGET:
        return Judgement(Label.CONFIRMED, "the target branch fails in the same way")
    if sequel.upvotes > sequel.downvotes:
        return Judgement(Label.CONFIRMED, "readers say that it is right")
    return Judgement(Label.OPEN)
