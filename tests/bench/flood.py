"""A flood: 200 merge requests fail within two minutes of a red branch. What does a note cost?

One thread deals with all of them, over the simulated GitLab and a folder; the model costs nothing.
What a note costs is compared with the first one's.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.floods import Cost, Flood, Step
from tests.simulators.gitlab import GitLabSim

REQUESTS = 200
GOAL_ASKED, GOAL_PAID = 12, 2
"""Requests to GitLab for a note; sessions with a model: the branch's, and the other project's."""

_TENTH = 10


def main(words: Sequence[str] = ()) -> None:
    """Print what a note costs at the beginning and at the end of the flood, and what is posted."""
    count = int(words[0]) if words else REQUESTS
    with GitLabSim() as sim, tempfile.TemporaryDirectory() as folder:
        cost = Flood.make(sim, Path(folder), count).run()
        assert sim.unexpected_requests == []
    _print(cost, count)


def _print(cost: Cost, count: int) -> None:
    tenth = max(1, count // _TENTH)
    first, last = cost.notes[1 : 1 + tenth], cost.notes[-tenth:]
    short = sum("**Already failing on `main`**" in each for each in cost.told.values())
    green = sum("**Green again:**" in each for each in cost.told_at_last.values())
    print(f"flood: {count} merge requests fail because of main")
    print(f"  short notes {short}, of which say green again {green} (= {count})")
    print(f"  sessions with a model {cost.paid} (= {GOAL_PAID}, one of another project)")
    most = max(_count_asked(each) for each in cost.notes[1:])
    print(f"  requests of GitLab for a note: at most {most} (goal ≤ {GOAL_ASKED})")
    for kind, times in sorted(cost.notes[-1].asked.items()):
        print(f"    {times} {kind}")
    for kind in ("reads", "writes", "lists"):
        early, late = (median(each.stored[kind] for each in some) for some in (first, last))
        print(f"  {kind} of the store for a note: {early:.0f}, in the end {late:.0f}")
    early, late = (median(each.seconds for each in some) for some in (first, last))
    print(f"  a note takes {early * 1000:.0f} ms, in the end {late / early:.1f} times that")
    _print_step("red", cost.red, count)
    _print_step("green again, all told", cost.green, count)


def _print_step(name: str, step: Step, count: int) -> None:
    stored = ", ".join(f"{step.stored[kind]} {kind}" for kind in ("reads", "writes", "lists"))
    asked = _count_asked(step)
    print(f"  main is {name}: {asked} requests ({asked / count:.1f} a note), {stored}", end="")
    print(f", {step.seconds:.1f} s")


def _count_asked(step: Step) -> int:
    return sum(step.asked.values())
