"""A merge request that would mend a red branch is named as long as it is open, though GitLab tells
nobody that it was closed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.parts import change_parts
from tests.played_branches import GREEN, LANDED, RED, Answering, Branch
from tests.simulators.gitlab import GitLabSim
from worker.conversation.model import Reply, Request
from worker.conversation.triggers import BranchEnded

pytestmark = pytest.mark.slow

MENDED: list[Mapping[str, Any]] = [
    *LANDED[:5],
    {"at": "17m", "open": 130, "base": "B", "files": ["src/ferry.py"]},
    {"at": "20m", "pipeline": 230, "mr": 130, "jobs": GREEN},
    LANDED[6],
    {"at": "26m", "close": 130},
    {"at": "27m", "open": 22, "base": "B", "files": ["src/b.py"]},
    {"at": "32m", "pipeline": 122, "mr": 22, "jobs": RED},
    {"at": "33m", "land": "C", "mr": 3, "files": ["src/c.py"]},
    {"at": "39m", "pipeline": 103, "commit": "C", "jobs": RED},
    {"at": "50m", "land": "D", "mr": 4, "files": ["src/ferry.py"]},
    {"at": "56m", "pipeline": 104, "commit": "D", "jobs": GREEN},
]
"""`main` is red since 102; !130 mends it and is closed between the failures of !21 and !22."""

NAMED = "being mended in `!130`"
LIST = "/merge_requests"


@pytest.fixture
def mended(sim: GitLabSim, tmp_path: Path) -> Iterator[Branch]:
    made = Branch(sim, tmp_path, MENDED)
    made.run_all("25m")
    assert NAMED in made.notes[21]
    assert made.incident.menders == (130,)
    yield made
    assert sim.unexpected_requests == []


def count_lists(branch: Branch) -> int:
    """How often it was asked which merge requests are open."""
    return sum(
        seen.method == "GET" and seen.path.endswith(LIST) and "iids" in seen.query
        for seen in branch.sim.requests
    )


def test_who_fails_after_it_was_closed_is_not_told_of_it(mended: Branch) -> None:
    asked = count_lists(mended)
    for each in mended.play("32m"):
        mended.run(each)
    assert "Already failing" in mended.notes[22]
    assert "being mended" not in mended.notes[22]
    assert mended.incident.menders == ()
    assert count_lists(mended) == asked + 1


def test_a_look_at_the_branch_takes_it_out_of_notes_and_issue(mended: Branch) -> None:
    (issue,) = mended.sim.issues.issues[mended.project]
    assert "Being mended in `!130`" in issue.description
    asked = count_lists(mended)
    mended.play("26m")
    mended.run(BranchEnded(mended.project, 102, "", "main"))
    assert "being mended" not in mended.notes[21]
    assert "Being mended" not in issue.description
    assert count_lists(mended) == asked + 1


def look(branch: Branch) -> None:
    """As a sweep does, which looks at red branches in any case."""
    branch.run(BranchEnded(branch.project, 102, "", "main"))


def test_one_that_is_opened_again_is_named_again(mended: Branch) -> None:
    mended.play("26m")
    look(mended)
    mended.story.player.requests[130].state = "opened"
    look(mended)
    assert NAMED in mended.notes[21]


def test_who_is_hit_and_opened_again_is_told_of_the_end(mended: Branch) -> None:
    hit = mended.story.player.requests[21]
    hit.state = "closed"
    look(mended)
    request = mended.store.read_request(mended.project, "main", 21)
    assert request
    assert request.is_over
    hit.state = "opened"
    triggers = mended.play("57m")
    mended.run(triggers[-1])
    assert "Green again" in mended.notes[21]


class Closing(Answering):
    """A model that thinks until the mending merge request is closed."""

    branch: Branch

    def reply(self, request: Request) -> Reply:
        self.branch.play("26m")
        return super().reply(request)


def test_one_that_is_closed_while_a_model_thinks_is_not_named(
    sim: GitLabSim, tmp_path: Path
) -> None:
    opened = {"at": "18m", "open": 23, "base": "B", "files": ["src/x.py"]}
    both = {"at": "25m", "pipeline": 123, "mr": 23, "jobs": {"unit": "E", "lint": "E"}}
    branch = Branch(sim, tmp_path, [*MENDED[:7], opened, both, *MENDED[8:9]])
    triggers = list(branch.go_on("25m"))
    for each in triggers[:-1]:
        branch.run(each)
    model = Closing()
    model.branch = branch
    branch.run(triggers[-1], change_parts(branch.deps, model=lambda: model))
    assert model.asked
    assert "Already failing" in branch.notes[23]
    assert "being mended" not in branch.notes[23]


def test_where_gitlab_does_not_tell_nobody_is_named(mended: Branch) -> None:
    asked = mended.model.asked
    triggers = mended.play("32m")
    mended.sim.fail_next("GET", f"{LIST}$", 403)
    for each in triggers:
        mended.run(each)
    assert "Already failing" in mended.notes[22]
    assert "being mended" not in mended.notes[22]
    assert mended.model.asked == asked


def test_one_that_is_merged_mends_no_more(sim: GitLabSim, tmp_path: Path) -> None:
    merged = {"at": "26m", "land": "C", "mr": 130, "files": ["src/ferry.py"]}
    branch = Branch(sim, tmp_path, [*MENDED[:8], merged])
    branch.run_all("25m")
    assert NAMED in branch.notes[21]
    branch.play("26m")
    look(branch)
    assert "being mended" not in branch.notes[21]


def test_a_green_branch_asks_nothing(sim: GitLabSim, tmp_path: Path) -> None:
    branch = Branch(sim, tmp_path, MENDED[:2])
    branch.run_all("25m")
    assert count_lists(branch) == 0
