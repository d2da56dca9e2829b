"""What GitLab refuses to run again: it does not use up the number of `incidents.rerun`."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulators.gitlab import GitLabSim
from tests.unit.turns.test_incident_actions import Branch, make_branch


@pytest.fixture
def branch(sim: GitLabSim, tmp_path: Path) -> Branch:
    return make_branch(sim, tmp_path)


@pytest.mark.parametrize("status", [403, 404])
def test_what_gitlab_refuses_does_not_count_and_is_not_asked_again(
    branch: Branch, status: int
) -> None:
    newest = [mr.iid for mr in reversed(branch.mrs)]
    for iid in newest[:2]:
        branch.sim.fail_next("POST", f"/jobs/{branch.jobs[iid].id}/retry$", status)
    for _ in range(2):
        branch.run(most=2)
    assert branch.list_runs() == newest[2:]
    assert [each.mr_iid for each in branch.read() if each.ran_for] == newest[2:]


def test_what_gitlab_shows_as_over_does_not_count(branch: Branch) -> None:
    newest = [mr.iid for mr in reversed(branch.mrs)]
    branch.mrs[-1].state = "closed"
    branch.run(most=2)
    assert branch.list_runs() == newest[1:3]


def test_an_earlier_incident_does_not_use_up_the_number(branch: Branch) -> None:
    oldest = branch.read()[-1]
    branch.store(replace(oldest, run_again=(7,), ran_for=((7, "i0"),)))
    branch.run(most=2)
    assert len(branch.list_runs()) == 2


def test_one_call_tries_a_bounded_number_in_vain(branch: Branch) -> None:
    for _ in range(19):
        branch.add_request()
    for mr in branch.mrs:
        branch.sim.fail_next("POST", f"/jobs/{branch.jobs[mr.iid].id}/retry$", 403)
    branch.run(most=4)
    asked = [seen.path for seen in branch.sim.requests if seen.path.endswith("/retry")]
    assert len(asked) == 20
    branch.run(most=4)
    assert branch.list_runs() == []
    asked = [seen.path for seen in branch.sim.requests if seen.path.endswith("/retry")]
    assert len(asked) == len(branch.mrs)
