"""A failure that resembles a known one gets it as a lead, never as an answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulators.gitlab import GitLabSim
from tests.surveyed import RACE, At, concludes
from worker.errors import StoreError
from worker.sessions.projects import MemoryPart
from worker.settings.runs import PlanBy
from worker.turns import memory
from worker.turns.parts import Finished

pytestmark = pytest.mark.slow

LIKE = RACE.replace(b"did not tick", b"did not tick in harbour seven").replace(
    b"test_tick", b"test_tick_late"
)
OTHER = RACE.replace(b"TimeoutError: the ferry clock did not tick", b"KeyError: invoice_total")
TITLE = "share most of their rare words"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    with GitLabSim() as running:
        made = At(running, tmp_path)
        made.script_answers(*([concludes("flaky")] * 9))
        yield made
        assert running.unexpected_requests == []


def analyse(at: At, title: str, trace: bytes = RACE, plan: PlanBy = PlanBy.FACTS) -> str:
    """What the model is told of a merge request that fails so."""
    scene = at.scene
    mr = at.sim.open_merge_request(
        scene.project, scene.developer, title=title, branch=title, diffs=()
    )
    assert isinstance(at.run_failed(at.flake(mr, trace), plan=plan), Finished)
    return at.first()


def test_a_failure_like_a_known_one_gets_it_as_a_lead(at: At) -> None:
    assert TITLE not in analyse(at, "a")
    told = analyse(at, "b", LIKE)
    assert TITLE in told
    assert "verdict then: flaky; cause then: The clock waits for a tick." in told
    assert "seen before" not in told


def test_another_failure_gets_none(at: At) -> None:
    analyse(at, "a")
    assert TITLE not in analyse(at, "b", OTHER)


def test_without_a_plan_nothing_is_told(at: At) -> None:
    analyse(at, "a")
    assert TITLE not in analyse(at, "b", LIKE, PlanBy.OFF)


def test_what_is_forgotten_is_no_lead(at: At) -> None:
    analyse(at, "a")
    for mr_iid in (2, 3):
        memory.forget_merge_request(at.scene.project.id, mr_iid, at.build_deps())
    words = at.store.known_failures.read_memory(at.scene.project.id, MemoryPart.WORDS)
    assert words is None
    assert TITLE not in analyse(at, "b", LIKE)


def test_a_damaged_index_costs_only_the_leads(at: At) -> None:
    analyse(at, "a")
    at.store.known_failures.change_memory(at.scene.project.id, lambda data: b"{", MemoryPart.WORDS)
    assert TITLE not in analyse(at, "b", LIKE)


def test_the_store_refuses_no_other_part(at: At) -> None:
    with pytest.raises(StoreError):
        at.store.known_failures.read_memory(0, MemoryPart.WORDS)
