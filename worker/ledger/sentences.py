"""What the ledger says of a test, in words. Pure."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from worker.ledger.history import Life, Seen
from worker.ledger.record import RanOn
from worker.safety.untrusted import one_line

MAX_NAME = 120
_MOST_BRANCHES = 2
_DAY = 86400.0


class Name(str):
    """A part of a sentence that is a stranger's: whoever posts it makes it harmless."""

    __slots__ = ()


Words = tuple[str, ...]
"""The parts of a sentence without its full stop; () if there is nothing to say."""


def describe_life(life: Life, pipeline_id: int, mr_iid: int, now: float) -> Words:
    """Say what is known of a test that has failed in a pipeline, that of a merge request (0: of
    none), by the others in which its job ran. `now` is in epoch seconds."""
    own = [each for each in life.failures if each.pipeline_id == pipeline_id]
    others = [each for each in life.failures if each.pipeline_id != pipeline_id]
    runs = life.runs - len(own)
    if runs <= 0:
        return ()
    days = max(math.ceil((now - life.since_at) / _DAY), 1)
    counted = f"{_count(runs, 'run')} of its job in {_count(days, 'day')}"
    if not others:
        parts = [f"no other failure in {counted}"]
    else:
        parts = [f"failed in {len(others)} of {counted}", *_tell_places(others, mr_iid)]
    parts += _tell_passes(others, own)
    if len(life.together) == 1:
        parts += ["; has only failed together with ", _name(life.together[0].name)]
    elif life.together:
        parts.append(f"; has only failed together with the same {len(life.together)} other tests")
    if life.former:
        place = life.former[0].place if life.former[0].name == life.test.name else ""
        parts += ["; perhaps ", _name(" ".join(filter(None, [place, life.former[0].name])))]
        parts.append(" before, which had failed too")
    return tuple(parts)


def _tell_places(failures: Sequence[Seen], mr_iid: int) -> Iterator[str]:
    """Tell where a test has failed: on the default branch, other branches, merge requests."""
    total = len(failures)
    if mr_iid and all(each.mr_iid == mr_iid for each in failures):
        yield f", {_tell_times(total, total)}in this merge request"
        return
    on_default = Counter(each.ref for each in failures if each.ran_on is RanOn.DEFAULT)
    on_others = Counter(each.ref for each in failures if each.ran_on is RanOn.BRANCH)
    for branch, count in [*on_default.most_common(), *on_others.most_common(_MOST_BRANCHES)]:
        yield f", {_tell_times(count, total)}on "
        yield _name(branch)
    if (left := len(on_others) - _MOST_BRANCHES) > 0:
        yield f" and on {_count(left, 'other branch', 'other branches')}"
    if ours := sum(each.mr_iid == mr_iid for each in failures if each.mr_iid):
        yield f", {_tell_times(ours, total)}in this merge request"
    theirs = [each for each in failures if each.mr_iid not in (0, mr_iid)]
    if requests := len({each.mr_iid for each in theirs}):
        what = _count(requests, "other merge request" if mr_iid else "merge request")
        yield f", {_tell_times(len(theirs), total)}in {what}"


def _tell_passes(others: Sequence[Seen], own: Sequence[Seen]) -> Iterator[str]:
    """Tell where it is proven that the failures were flakes."""
    again = sum(each.passed_again for each in others)
    if again == len(others) > 1:
        yield "; passed again on the same commit each time"
    elif again:
        yield f"; {_tell_times(again, len(others))}passed again on the same commit"
    proof = next((each for each in own if each.passed_again), None)
    if proof and proof.passed_in == proof.pipeline_id:
        yield "; has passed in this pipeline too"
    elif proof:
        yield f"; has passed on this commit too, in pipeline {proof.passed_in}"


def _tell_times(count: int, total: int) -> str:
    if count == total:
        return "all " if total > 1 else ""
    return {1: "once ", 2: "twice "}.get(count, f"{count} times ")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _name(text: str) -> Name:
    return Name(one_line(text, MAX_NAME) or "(no name)")
