"""What a project may cost in a day: counted once, kept to, told once."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import HandClock, says
from tests.jobs import FINDING, EchoToolset, Job
from tests.simulators.gitlab import Pipeline
from worker.clock import SystemClock
from worker.conversation.context import Status, Subject
from worker.errors import Unreadable
from worker.sessions.checked import SECOND_LOOK
from worker.sessions.folder import FolderStore
from worker.settings.playbook import Workflow
from worker.turns.day_budget import MOST_TURNS, Day, DayBudget, decode_day, encode_day
from worker.turns.parts import Explain, Finished, Skipped, Toolset
from worker.verdict.jobs import FailingJob, Group, RuleMatch, Survey
from worker.verdict.recalled_tests import Recall
from worker.verdict.verdict import Verdict

DAY = 86_400.0


def budget(at: Job, cap: float, total: float = 0.0) -> DayBudget:
    return DayBudget(at.store.records, at.clock, cap, total)


def another_failure(at: Job) -> Pipeline:
    at.sim.push(at.scene.mr, {"more": b"1"})
    return at.sim.run_pipeline(at.scene.mr)


def test_a_turn_that_is_told_of_again_counts_once_and_a_new_day_begins_at_nothing(
    tmp_path: Path,
) -> None:
    clock = HandClock(1_795_000_000.0)
    kept = DayBudget(FolderStore(tmp_path).records, clock, 1.0)
    kept.add_cost(7, "abcd", 0, 0.4)
    kept.add_cost(7, "abcd", 0, 0.6)
    assert kept.explain_used_up(7) == ""
    kept.add_cost(7, "abcd", 1, 0.4)
    assert "1.00 USD" in kept.explain_used_up(7)
    assert kept.explain_used_up(8) == ""
    clock.time += DAY
    assert kept.explain_used_up(7) == ""


def test_what_many_threads_spend_at_once_is_all_counted(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)

    def spend(number: int) -> None:
        DayBudget(store.records, HandClock(), 1.0).add_cost(7, f"{number:04x}", 0, 0.125)

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert DayBudget(store.records, HandClock(), 1.0).explain_used_up(7)
    assert not DayBudget(store.records, HandClock(), 1.01).explain_used_up(7)


@pytest.mark.attack("strangers")
def test_what_all_projects_spend_at_once_is_all_counted_and_stops_every_one(
    tmp_path: Path,
) -> None:
    store, start = FolderStore(tmp_path), threading.Barrier(48)

    def spend(number: int) -> None:
        kept = DayBudget(store.records, SystemClock(), 0.0, 6.0)
        start.wait(30)
        kept.add_cost(100 + number % 12, f"{number:04x}", 0, 0.125)

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    full = DayBudget(store.records, SystemClock(), 0.0, 6.0)
    assert "6.00 USD for all projects" in full.explain_used_up(100)
    assert "limits.cost_usd_per_day" in full.explain_used_up(4711)
    assert not DayBudget(store.records, SystemClock(), 0.0, 6.01).explain_used_up(100)
    assert len(list(store.records.list_names("spend/"))) == 1


def test_a_project_and_all_projects_are_counted_side_by_side(tmp_path: Path) -> None:
    kept = DayBudget(FolderStore(tmp_path).records, HandClock(), 1.0, 1.5)
    kept.add_cost(7, "abcd", 0, 1.0)
    assert "for this project" in kept.explain_used_up(7)
    assert kept.explain_used_up(8) == ""
    kept.add_cost(8, "abce", 0, 0.5)
    assert "for all projects" in kept.explain_used_up(8)
    assert {kept.explain_used_up(7), kept.explain_used_up(9)} <= set(kept.reasons)


def test_a_day_of_many_turns_stays_small_and_loses_nothing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    turns = {f"{number:020x}/0": 0.25 for number in range(MOST_TURNS)}
    full = Day(turns, 1.0, tuple(range(10**9, 10**9 + MOST_TURNS)))
    assert len(encode_day(full)) < 64 * 1024
    store.records.create("spend/7/1970-01-01.json", encode_day(full))
    DayBudget(store.records, HandClock(), 1.0).add_cost(7, "beef", 0, 0.25)
    stored = store.records.read("spend/7/1970-01-01.json", 64 * 1024)
    assert stored is not None
    assert decode_day(stored.content).total == full.total + 0.25
    assert len(decode_day(stored.content).turns) == MOST_TURNS


@pytest.mark.attack("odd answers")
@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"<html>Wait.</html>", b'{"turns": {"a"'),
        *(b'{"turns": {"a": -1}}', b'{"turns": 5}'),
    ],
)
def test_what_a_day_has_cost_is_not_written_over_because_it_could_not_be_read(
    tmp_path: Path, content: bytes
) -> None:
    clock = HandClock()
    store = FolderStore(tmp_path, now=clock.now)
    kept = DayBudget(store.records, clock, 1.0)
    kept.add_cost(7, "abcd", 0, 2.0)
    place = tmp_path / "spend/7/1970-01-01.json"
    whole = place.read_bytes()
    place.write_bytes(content)
    with pytest.raises(Unreadable):
        kept.explain_used_up(7)
    kept.add_cost(7, "bcde", 0, 2.0)
    assert place.read_bytes() == content
    place.write_bytes(whole)
    assert kept.explain_used_up(7)
    place.write_bytes(content)
    with pytest.raises(Unreadable):
        kept.explain_used_up(7)
    clock.time += SECOND_LOOK
    assert kept.explain_used_up(7) == ""
    (aside,) = (tmp_path / "damaged/kept/spend/7").iterdir()
    assert aside.read_bytes() == content


@pytest.mark.parametrize("caps", [(0.01, 0.0), (0.0, 0.01)])
def test_a_merge_request_is_told_once_that_nothing_is_left_and_the_next_day_goes_on(
    at: Job, caps: tuple[float, float]
) -> None:
    spent = budget(at, *caps)
    at.script_answers(FINDING, FINDING)
    assert isinstance(at.run_failed(budget=spent), Finished)
    told = at.run_failed(another_failure(at), budget=spent)
    assert isinstance(told, Finished)
    assert told.outcome.status is Status.FAILED
    assert "budget of 0.01 USD" in at.list_notes()[-1].body
    count = len(at.list_notes())
    skipped = at.run_failed(another_failure(at), budget=spent)
    assert isinstance(skipped, Skipped)
    assert "budget of 0.01 USD" in skipped.reason
    assert len(at.list_notes()) == count
    assert len(at.model.requests) == 1
    at.clock.time += DAY
    assert isinstance(at.run_failed(another_failure(at), budget=spent), Finished)
    assert len(at.model.requests) == 2


def test_a_question_over_the_budget_is_answered_with_the_reason(at: Job) -> None:
    spent = budget(at, 0.01)
    at.script_answers(FINDING, says("tomorrow's answer"))
    at.run_failed(budget=spent)
    (root,) = at.list_notes()
    at.run_comment(at.write_comment("Why?", root.discussion_id), budget=spent)
    assert "budget of 0.01 USD" in at.list_notes()[-1].body
    at.clock.time += DAY
    at.run_comment(at.write_comment("And now?", root.discussion_id), budget=spent)
    assert "tomorrow's answer" in at.list_notes()[-1].body


class RuleKit(EchoToolset):
    """A failure that a rule explains."""

    def survey_failures(
        self, shown: int = 0, explain: Explain | None = None, recall: Recall | None = None
    ) -> Survey:
        ruled = RuleMatch("disk", Verdict.INFRASTRUCTURE, "The disk is full.", "Free it.")
        return Survey((Group("", "", (FailingJob(1, "test"),), rule_match=ruled),))


def ruled(subject: Subject, workflow: Workflow) -> Toolset:
    return RuleKit()


@pytest.mark.parametrize("caps", [(0.01, 0.0), (0.0, 0.01)])
def test_what_a_rule_explains_costs_nothing_and_is_still_told(
    at: Job, caps: tuple[float, float]
) -> None:
    spent = budget(at, *caps)
    spent.add_cost(at.scene.project.id, "abcd", 0, 1.0)
    spent.record_told(at.scene.project.id, at.scene.mr.iid)
    ended = at.run_failed(budget=spent, toolset=ruled)
    assert isinstance(ended, Finished)
    assert "The disk is full." in at.list_notes()[-1].body
    assert at.model.requests == []


@pytest.mark.attack("costs")
@pytest.mark.parametrize("caps", [(15.0, 0.0), (0.0, 15.0)])
def test_a_turn_of_unknown_cost_counts_as_much_as_a_run_may_cost(
    at: Job, caps: tuple[float, float]
) -> None:
    spent, unknown = budget(at, *caps), replace(FINDING, cost_usd=None)
    at.script_answers(unknown, unknown, FINDING)
    assert isinstance(at.run_failed(budget=spent), Finished)
    for _ in range(2):
        assert isinstance(at.run_failed(another_failure(at), budget=spent), Finished)
    assert at.build_deps().runtime.limits.cost_usd == 10.0
    assert len(at.model.requests) == 2
    assert "budget of 15.00 USD" in at.list_notes()[-1].body
