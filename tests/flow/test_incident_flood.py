"""Many merge requests fail because of their red branch: what each of them costs. Counts, no times;
`make bench ARGS=flood` has more of them."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.floods import FIRST_MR, OTHER_MR, Flood
from tests.simulators.gitlab import GitLabSim
from worker.conversation.triggers import PipelineFailed
from worker.queue.project_slots import ProjectSlots

pytestmark = pytest.mark.slow

REQUESTS = 20


def test_a_flood_is_one_story_and_every_note_costs_the_same(sim: GitLabSim, tmp_path: Path) -> None:
    flood = Flood.make(sim, tmp_path, REQUESTS)
    cost = flood.run()
    hit = range(FIRST_MR, FIRST_MR + REQUESTS)
    assert set(cost.told) == {*hit, OTHER_MR}
    assert all("**Already failing on `main`**" in cost.told[iid] for iid in hit)
    assert all("**Green again:** `main`" in cost.told_at_last[iid] for iid in hit)
    assert "Already failing" not in cost.told[OTHER_MR]
    assert cost.paid == 2  # the branch, and the other project's merge request
    first, *rest = (sum(each.asked.values()) for each in cost.notes)
    assert max(rest) <= 12, cost.notes[-1].asked
    assert first <= 14, cost.notes[0].asked
    # Flat: the last one costs what the second did.
    assert {str(each.stored) for each in cost.notes[1:]} == {str(cost.notes[1].stored)}
    assert {str(each.asked) for each in cost.notes[1:]} == {str(cost.notes[1].asked)}
    # All are told that it is green again: three requests each, whatever the branch itself takes.
    assert sum(cost.green.asked.values()) <= 3 * REQUESTS + 15, cost.green.asked
    (record,) = flood.product.deps.storage.incidents.list_branches()
    (incident,) = record.incidents
    assert incident.told_requests == incident.short == tuple(hit)
    assert sim.retried == []


def test_another_projects_failure_is_not_held_up_by_a_flood(sim: GitLabSim, tmp_path: Path) -> None:
    """All of the flood is taken before it; half of a worker's threads are kept for others."""
    flood = Flood.make(sim, tmp_path, 4)
    deps = flood.product.deps
    failed = [each for each in flood.product.play("30m") if isinstance(each, PipelineFailed)]
    failed.sort(key=lambda each: each.mr_iid == OTHER_MR)
    journal, leases, records = deps.queue.journal, deps.queue.leases, deps.storage.sessions.records
    slots = ProjectSlots(records, journal, leases, lambda trigger, since: None, cap=2)
    free = []
    with ExitStack() as running:
        for trigger in failed:
            owner, _ = running.enter_context(leases.register_work())
            journal.add_trigger(trigger)
            entry = journal.take_trigger(trigger, owner, 0.0)
            free.append(running.enter_context(slots.hold_slot(entry)))
    assert free == [True, True, False, False, True]
