"""What followed a note: its readers' votes, what became of the pipeline, and whether the verdict
was right. Pure.

Votes and aftermath are stored with their turn, as `feedback.json` and `after.json`, and are read as
untrusted. Only verdicts that claim something can be right or wrong; what nothing decides stays
open.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from worker.safety.untrusted import parse_object
from worker.verdict.verdict import CLAIMS, Verdict

MOST_VOTERS = 500
"""The most votes that are kept for one note."""

UP, DOWN = "up", "down"
BECAME = {
    "fixed": "fixed by a later commit",
    "passed_again": "passed on the same commit",
    "superseded": "failed again in a newer pipeline",
    "failed_again": "failed again in the same way when run again",
}
"""The values of `became` in `after.json`, each with its description."""

_SCHEMA = 1
MOST_PATHS, _PATH = 100, 300


@dataclass(frozen=True, slots=True)
class Feedback:
    """The votes on a note: a voter's pseudonym → UP or DOWN.

    `changed_at` is the time of the last change (epoch seconds).
    """

    votes: Mapping[str, str] = field(default_factory=dict)
    changed_at: float = 0.0

    @property
    def upvotes(self) -> int:
        """How many 👍."""
        return sum(vote == UP for vote in self.votes.values())

    @property
    def downvotes(self) -> int:
        """How many 👎."""
        return sum(vote == DOWN for vote in self.votes.values())


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of an analysed pipeline (a key of BECAME), by which later pipeline, and when.

    `changed_paths` are the paths that the commits in between changed, None if they are not known.
    """

    became: str
    pipeline_id: int
    sha: str
    became_at: float
    changed_paths: tuple[str, ...] | None = None


def make_pseudonym(session_id: str, user_id: int) -> str:
    """Return a user's pseudonym: always the same in one session, different in every other one."""
    return hashlib.sha256(f"{session_id}:{user_id}".encode()).hexdigest()[:16]


def dump_feedback(feedback: Feedback) -> bytes:
    """Return the bytes of `feedback.json`."""
    votes = dict(sorted(feedback.votes.items()))
    return json.dumps({"schema": _SCHEMA, "votes": votes, "at": feedback.changed_at}).encode()


def load_feedback(stored: bytes | None) -> Feedback:
    """Return the votes in `feedback.json`; no votes if the file is missing or damaged."""
    fields = parse_object(stored or b"")
    votes = fields.get("votes")
    if not isinstance(votes, dict):
        return Feedback()
    kept = {voter: vote for voter, vote in votes.items() if vote in (UP, DOWN)}
    return Feedback(dict(list(kept.items())[:MOST_VOTERS]), _read_number(fields.get("at")))


def load_aftermath(stored: bytes | None) -> Aftermath | None:
    """Return what `after.json` says, None if the file is missing or damaged."""
    fields = parse_object(stored or b"")
    became, sha = fields.get("became"), fields.get("sha")
    if not isinstance(became, str) or became not in BECAME:
        return None
    if not isinstance(sha, str) or not sha.isalnum():
        return None
    pipeline, at = int(_read_number(fields.get("pipeline_id"))), _read_number(fields.get("at"))
    changed = None
    if isinstance(paths := fields.get("changed"), list):
        changed = tuple(each for each in paths if isinstance(each, str))[:MOST_PATHS]
    return Aftermath(became, pipeline, sha[:64], at, changed)


def dump_aftermath(after: Aftermath) -> bytes:
    """Return the bytes of `after.json`."""
    fields: dict[str, Any] = {
        "schema": _SCHEMA,
        "became": after.became,
        "pipeline_id": after.pipeline_id,
        "sha": after.sha,
        "at": after.became_at,
    }
    if after.changed_paths is not None:
        fields["changed"] = [path[:_PATH] for path in after.changed_paths[:MOST_PATHS]]
    return json.dumps(fields).encode(errors="replace")


def describe_aftermath(feedback: Feedback, after: Aftermath | None) -> tuple[str, ...]:
    """Return the votes and the aftermath as plain lines; no lines if there is nothing to say."""
    lines = [f"reactions: {feedback.upvotes} 👍, {feedback.downvotes} 👎"] if feedback.votes else []
    if after:
        lines.append(f"pipeline {after.pipeline_id}: {BECAME[after.became]} ({after.sha[:8]})")
    return tuple(lines)


def _read_number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 2**53:
        return 0.0
    return float(value)


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
