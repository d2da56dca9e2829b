"""The job of a watched branch, over the simulated GitLab: what fails keeps nothing else waiting,
nothing is missed, and nothing is paid for twice."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import read_reason
from tests.parts import change_parts
from tests.played_branches import LANDED, RED, Answering, Branch, kill
from tests.simulators.gitlab import GitLabSim
from worker.conversation.events import IncidentClosed, IncidentOpened
from worker.conversation.model import Reply, Request
from worker.conversation.triggers import BranchEnded
from worker.errors import Busy, ForgeError, ModelError, Postponed, SourceError
from worker.incidents.record import IncidentState, RequestRecord
from worker.jobs.branch_follow_up import BranchWatched
from worker.sessions.incidents import IncidentStore
from worker.settings.runs import IncidentSettings
from worker.turns.branch_session import find_branch_key
from worker.turns.parts import Skipped

pytestmark = pytest.mark.slow


def test_events_are_told_once(landed: Branch) -> None:
    landed.run_all("40m")
    told = [each for each in landed.events if isinstance(each, IncidentOpened | IncidentClosed)]
    assert [type(each) for each in told] == [IncidentOpened, IncidentClosed]


def test_a_note_that_cannot_be_written_keeps_no_other_waiting(landed: Branch) -> None:
    landed.run_all("25m")
    (green,) = landed.play("40m")
    landed.sim.fail_next("PUT", r"merge_requests/22/notes", 502, times=5)
    with pytest.raises(ForgeError):
        landed.run(green)
    assert "**Green again:**" in landed.notes[21]
    assert "**Already failing" in landed.notes[22]
    assert landed.issues == ["closed"]
    landed.sim.clear_faults()
    landed.run(green)
    assert "**Green again:**" in landed.notes[22]


def test_a_merge_request_whose_session_is_damaged_keeps_no_other_waiting(
    landed: Branch, tmp_path: Path
) -> None:
    landed.run_all("25m")
    (damaged,) = (tmp_path / "store" / "sessions" / str(landed.project) / "22").rglob(
        "context.json"
    )
    damaged.write_bytes(b"{")
    for each in landed.play("40m"):
        landed.run(each)
    assert "**Green again:**" in landed.notes[21]
    assert landed.incident.state is IncidentState.CLOSED


def test_where_gitlab_takes_no_notes_not_all_of_them_are_tried(
    sim: GitLabSim, tmp_path: Path
) -> None:
    opened = {"at": "17m", "open": 30, "base": "B", "files": ["src/a.py"], "times": 6, "every": 0}
    failed = {"at": "26m", "pipeline": 130, "mr": 30, "jobs": RED, "times": 6, "every": "1s"}
    many = Branch(sim, tmp_path, [*LANDED[:6], opened, failed, *LANDED[8:]])
    many.run_all("28m")
    (green,) = many.play("40m")
    many.deps = change_parts(many.deps, notes=Refusing(many.deps.gitlab.notes))
    with pytest.raises(ForgeError):
        many.run(green)
    assert many.deps.gitlab.notes.tried == 3  # type: ignore[attr-defined]
    assert many.incident.state is IncidentState.CLOSED


class Refusing:
    """Notes that GitLab does not list now."""

    def __init__(self, notes: Any) -> None:
        self._notes, self.tried = notes, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._notes, name)

    def list_own_notes(self, subject: object) -> Iterator[object]:
        self.tried += 1
        raise ForgeError("GitLab is away", transient=True)


class Away(Answering):
    """A model that does not answer."""

    def reply(self, request: Request) -> Reply:
        raise ModelError("nobody answers", transient=True)


def test_nothing_waits_for_a_model_but_the_analysis(landed: Branch) -> None:
    _, red, *failed = landed.play("25m")
    away = change_parts(landed.deps, model=Away)
    landed.deps.queue.journal.add_trigger(red)
    with pytest.raises(Postponed):
        landed.run(red, away, may_postpone=True)
    assert landed.incident.is_open
    assert landed.issues == ["opened"]
    for each in failed:
        landed.run(each)
    assert len(landed.notes) == 2
    assert landed.model.asked == 0
    landed.run(red)
    assert landed.incident.session_id
    assert landed.analyses == 1


def test_an_analysis_that_may_not_begin_now_is_waited_for_unless_somebody_is_at_it(
    landed: Branch,
) -> None:
    _, red, _ = landed.play("24m")
    with pytest.raises(Busy):
        landed.run(red, may_pay=False)
    assert landed.incident.is_open
    key = find_branch_key(landed.record, landed.incident, landed.deps)
    with landed.deps.queue.leases.claim_turn(key, 0, key.session_id):
        assert isinstance(landed.run(red, may_pay=False), BranchWatched)
    assert landed.model.asked == 0
    assert isinstance(landed.run(red), BranchWatched)
    assert landed.analyses == 1


def test_what_a_run_gives_up_is_not_paid_for_in_its_name(drifted: Branch) -> None:
    _, red, first = drifted.play("24m")
    reason = "4 workers died while they were at it"
    assert read_reason(drifted.run(red, give_up_reason=reason)) == reason
    drifted.run(red)
    kill(drifted, first, "after the branch is stored")
    drifted.run(first, give_up_reason=reason)
    assert drifted.incident.is_open
    assert drifted.analyses == 0
    drifted.run(red)
    assert drifted.analyses == 1


class Hook:
    """A store that lets something happen after a method was called the first time."""

    def __init__(self, store: IncidentStore, method: str, happen: Callable[[], None]) -> None:
        self._store, self._method, self._happen = store, method, happen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._method:
            return found

        def called(*arguments: Any) -> Any:
            given = found(*arguments)
            self._method = ""
            self._happen()
            return given

        return called


def test_a_witness_that_fails_while_the_branch_is_judged_is_not_missed(drifted: Branch) -> None:
    """The merge request's run ends between the listing and the branch's record."""
    _, red, first = drifted.play("24m")

    def run_first() -> None:
        drifted.run(first)

    hooked = Hook(drifted.store, "list_requests", run_first)
    drifted.run(red, change_parts(drifted.deps, incidents=hooked))
    assert drifted.incident.is_open
    assert "**Already failing on `main`**" in drifted.notes[21]


def test_the_branch_is_the_pipelines_own_whatever_the_event_calls_it(landed: Branch) -> None:
    landed.run_all("16m")
    assert landed.incident.is_open
    (green,) = [each for each in landed.play("40m") if isinstance(each, BranchEnded)]
    landed.run(replace(green, ref="other"))
    assert landed.incident.state is IncidentState.CLOSED
    assert landed.store.read_branch(landed.project, "other") is None


def test_a_branch_is_gone_if_it_stays_so(landed: Branch) -> None:
    (*_, red) = landed.play("16m")
    landed.run(red)
    landed.story.player.projects["one"].refs.pop("main")
    with pytest.raises(SourceError) as odd:
        landed.run(red, is_last_look=False)
    assert odd.value.doubtful
    assert landed.incident.is_open
    landed.run(red)
    assert landed.incident.state is IncidentState.CLOSED


def test_what_is_long_over_costs_nothing(landed: Branch) -> None:
    landed.run_all("40m")
    trigger = BranchEnded(landed.project, 103, "", "main")
    landed.story.clock.time += 25 * 3600
    asked = len(landed.sim.requests)
    landed.run(trigger)
    paths = [each.path for each in landed.sim.requests[asked:]]
    assert not [each for each in paths if "issues" in each or "notes" in each]


def test_a_branch_that_is_not_watched_is_left_alone(landed: Branch) -> None:
    (_, red) = landed.play("16m")
    deps = change_parts(landed.deps, incident_settings=IncidentSettings(branches=("stable",)))
    assert "is not watched" in read_reason(landed.run(red, deps))
    assert landed.store.read_branch(landed.project, "main") is None


def test_a_hit_is_counted_without_reading_the_others(landed: Branch) -> None:
    landed.run_all("24m")

    def refuse(*_: object) -> tuple[RequestRecord, ...]:
        raise AssertionError("all were read")

    (last,) = landed.play("25m")
    counted = Hook(landed.store, "list_requests", refuse)  # type: ignore[arg-type]
    assert not isinstance(landed.run(last, change_parts(landed.deps, incidents=counted)), Skipped)
    assert landed.incident.hits == landed.incident.told_requests == (21, 22)
    assert "1 other merge request" in landed.notes[22]


def test_what_was_found_is_told_to_those_who_were_told_before(drifted: Branch) -> None:
    """The witness opens the incident; its own note is there before the branch is looked into."""
    drifted.run_all("24m")
    assert drifted.incident.cause == "A seat is lost."
    assert "A seat is lost." in drifted.notes[21].split("**What helps:**", maxsplit=1)[0]
