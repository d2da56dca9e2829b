"""What a turn recalls of the project's tests before it surveys what failed."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.contexts import context
from tests.unit.jobs.reported_tests import DAY, NOW, Reported, build_deps
from worker.errors import SourceError, StoreError
from worker.jobs.ledger import record_tests
from worker.jobs.missed_tests import record_missed
from worker.ledger.record import DayRecord
from worker.sessions.folder import Folder
from worker.sessions.ledger import LedgerStore
from worker.sessions.store import SessionStore
from worker.turns.parts import Deps
from worker.turns.triage import recall_tests

EARLIER, OWN = 1, 2


def _deps(folder: Path) -> tuple[Deps, Reported]:
    """An earlier pipeline is in the ledger, the one at hand is not yet."""
    world = Reported()
    deps = build_deps(world, Folder(folder, 10.0))
    world.add(EARLIER, 3 * DAY)
    assert [*record_missed(deps, 0.0)]
    world.add(OWN, 60.0)
    return deps, world


_CONTEXT = context()
CONTEXT = replace(
    _CONTEXT,
    subject=replace(
        _CONTEXT.subject, project_id=7, pipeline_project_id=7, pipeline_id=OWN, mr_iid=5
    ),
)


def test_the_days_and_what_the_pipeline_has_reported_are_recalled(tmp_path: Path) -> None:
    deps, world = _deps(tmp_path)
    found = recall_tests(CONTEXT, deps)
    assert found
    assert [each.pipeline_id for day in found.days for each in day.pipelines] == [EARLIER]
    assert found.own == world.answers[OWN]
    assert (found.pipeline_id, found.mr_iid, found.asked_at) == (OWN, 5, NOW)
    record_tests(7, OWN, deps)  # the turn's end records it, too: both count it once
    again = recall_tests(CONTEXT, deps)
    assert again
    assert again.own == found.own


def test_without_a_report_the_days_are_recalled_alone(tmp_path: Path) -> None:
    deps, world = _deps(tmp_path)
    for answer in (SourceError("GitLab has not read all test reports yet"), "it is a child"):
        world.answers[OWN] = answer
        found = recall_tests(CONTEXT, deps)
        assert found
        assert found.own is None
        assert len(found.days) == 1


class _Unavailable(LedgerStore):
    def read_days(self, project_id: int, since: float) -> tuple[DayRecord, ...]:
        raise StoreError("the bucket does not answer")


def test_nothing_is_recalled_where_the_store_does_not_answer(tmp_path: Path) -> None:
    deps, _ = _deps(tmp_path)
    parts: Any = deps
    records = SessionStore(Folder(tmp_path, 10.0), deps.runtime.clock.now).records
    parts.storage = SimpleNamespace(ledger=_Unavailable(records))
    assert recall_tests(CONTEXT, deps) is None
