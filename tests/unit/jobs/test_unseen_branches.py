"""A merge request fails before the branch's own event has come: what GitLab shows of the branch is
read before a model is paid, and what follows from it is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.played_branches import GREEN, RED, Branch, kill
from tests.simulators.gitlab import GitLabSim
from worker.conversation.events import IncidentOpened
from worker.conversation.triggers import BranchEnded, Trigger
from worker.gitlab.read.branch import LISTED
from worker.incidents.record import IncidentState

pytestmark = pytest.mark.slow

SHORT = "Explained by the branch, no model was asked"


def split(triggers: Sequence[Trigger]) -> tuple[list[Trigger], list[Trigger]]:
    """Return what the branch's own events ask for, and the rest."""
    own: list[Trigger] = [each for each in triggers if isinstance(each, BranchEnded)]
    return own, [each for each in triggers if each not in own]


def list_asked(branch: Branch, since: int) -> list[str]:
    """List what was asked of GitLab about pipelines of `main` since then."""
    asked = [f"{each.path}?{each.query}" for each in branch.sim.requests[since:]]
    about = ("ref=main", "/pipelines/101/", "/pipelines/102/")
    return [each for each in asked if any(part in each for part in about)]


@pytest.mark.parametrize("until", ["0m", "7m"], ids=["nothing is known", "it was green"])
def test_a_branch_that_has_failed_unseen_explains_a_merge_request(
    landed: Branch, until: str
) -> None:
    landed.run_all(until)
    late, failed = split(landed.play("25m"))
    for each in failed:
        landed.run(each)
    assert set(landed.notes) == {21, 22}
    assert all(SHORT in body for body in landed.notes.values())
    assert landed.analyses == 1, "the branch itself is looked into"
    assert sum(isinstance(each, IncidentOpened) for each in landed.events) == 1
    before = landed.notes
    for trigger in reversed(late):
        landed.run(trigger)
    assert landed.notes == before
    assert landed.analyses == 1
    assert sum(isinstance(each, IncidentOpened) for each in landed.events) == 1


def test_what_one_merge_request_has_read_of_the_branch_no_other_reads(landed: Branch) -> None:
    landed.run_all("7m")
    _, failed = split(landed.play("25m"))
    asked = []
    for each in failed:
        since = len(landed.sim.requests)
        landed.run(each)
        asked.append(list_asked(landed, since))
    assert any("/pipelines/102/jobs" in each for each in asked[0])
    assert [each for each in asked[1] if "/pipelines/102/jobs" in each] == []


GREEN_ALWAYS: list[Mapping[str, Any]] = [
    {"at": "0m", "land": "A", "mr": 1},
    {"at": "6m", "pipeline": 101, "commit": "A", "jobs": GREEN},
    {"at": "10m", "land": "B", "mr": 2, "files": ["src/ferry.py"]},
    {"at": "16m", "pipeline": 102, "commit": "B", "jobs": GREEN},
    {"at": "17m", "open": 21, "base": "B", "files": ["src/a.py"]},
    {"at": "24m", "pipeline": 121, "mr": 21, "jobs": RED},
]


@pytest.mark.parametrize("until", ["0m", "7m", "17m"], ids=["nothing", "the older", "all"])
def test_of_a_green_branch_one_list_is_asked_for(
    sim: GitLabSim, tmp_path: Path, until: str
) -> None:
    green = Branch(sim, tmp_path, GREEN_ALWAYS)
    green.run_all(until)
    _, (failed,) = split(green.play("25m"))
    since, known = len(sim.requests), green.store.read_branch(green.project, "main")
    green.run(failed)
    # The other lists are the analysis's: it compares runs.
    asked = [each for each in list_asked(green, since) if f"ref=main&per_page={LISTED}" in each]
    assert len(asked) == 1
    assert green.store.read_branch(green.project, "main") == known
    assert SHORT not in green.notes[21]
    assert "A seat is lost." in green.notes[21]


@pytest.mark.parametrize(
    "point",
    ["after the branch is stored", "after the commit"],
)
def test_a_worker_that_dies_meanwhile_leaves_one_of_everything(landed: Branch, point: str) -> None:
    landed.run_all("7m")
    late, (first, second) = split(landed.play("25m"))
    kill(landed, first, point)
    for trigger in (first, second, *late, first):
        landed.run(trigger)
    assert set(landed.notes) == {21, 22}
    assert all(SHORT in body for body in landed.notes.values())
    assert landed.analyses == 1
    assert landed.incident.state is IncidentState.OPEN
    assert landed.issues == ["opened"]
