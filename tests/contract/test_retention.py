"""What is too old, or to be forgotten, leaves nothing behind in any place that holds sessions."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.places import Place
from tests.fakes import says
from tests.jobs import FINDING, Job, run_trigger
from tests.parts import change_parts
from tests.simulators.gitlab import GitLabSim
from worker.conversation.context import SessionKey
from worker.conversation.triggers import Replied
from worker.incidents.record import (
    BranchFailure,
    BranchPipeline,
    BranchRecord,
    Incident,
    IncidentState,
    RequestRecord,
)
from worker.jobs import retention
from worker.jobs.ledger import remove_old_days
from worker.jobs.verdict_days import count_ended_days
from worker.ledger.record import DayRecord, FailedTest, NamedTest, PipelineTests, RanOn
from worker.queue.journal import Journal, name_entry
from worker.queue.leases import Leases
from worker.sessions.folder import FolderStore
from worker.sessions.incidents import IncidentStore
from worker.sessions.layout import name_day
from worker.sessions.ledger import LedgerStore
from worker.sessions.projects import MemoryPart
from worker.sessions.store import Claim
from worker.sessions.table import guard_store
from worker.settings.runs import LedgerSettings
from worker.turns.day_budget import DayBudget
from worker.turns.parts import Deps, Finished
from worker.verdict import known, project_memory
from worker.verdict.jobs import Survey
from worker.verdict.verdict import Verdict

DAY = 86_400.0
KEY = "feedfacefeedface"


def make_over_incident(closed_at: float) -> Incident:
    failure = BranchFailure("key", "E", ("test",), 1, closed_at - 60)
    return Incident("main-1", IncidentState.CLOSED, (failure,), closed_at=closed_at)


class Kept:
    """One merge request with everything that is ever stored of one."""

    def __init__(self, sim: GitLabSim, place: Place, folder: Path) -> None:
        self.at, self.place = Job(sim, folder), place
        store = place.store
        self.at.store = store  # type: ignore[assignment]
        self.leases = Leases(store, self.at.clock)
        self.at.leases = self.leases
        self.store = store
        self.journal = Journal(store.records, self.leases, self.at.clock)
        self.project, self.iid = self.at.scene.project.id, self.at.scene.mr.iid

    def deps(self) -> Deps:
        store, clock = self.store, self.at.clock
        budget = DayBudget(store.records, clock, 100.0)
        return self.at.build_deps(
            incidents=IncidentStore(store.records),
            ledger=LedgerStore(store.records),
            ledger_settings=LedgerSettings(days=0),  # the simulator's days are not ours
            known_failures=store.known_failures,
            recent=store.recent_turns,
            budget=budget,
        )

    def lived(self) -> None:
        """An analysis, an answer, a verdict of people, a known failure, a parked trigger."""
        self.at.script_answers(FINDING, says("So."))
        trigger = self.at.make_trigger()
        assert isinstance(run_trigger(trigger, self.deps()), Finished)
        (root,) = self.at.list_notes()
        note = self.at.write_comment("Why?", root.discussion_id)
        heard = Replied(self.project, self.iid, note.discussion_id, note.id)
        assert isinstance(run_trigger(heard, self.deps()), Finished)
        (key,) = [
            each
            for each in self.store.list_sessions()
            if self.store.find_latest_turn(each) is not None
        ]
        self.key = key
        now = self.at.clock.now()
        incidents, over = IncidentStore(self.store.records), make_over_incident(now)
        branch = BranchRecord(self.project, "group/app", "main", incidents=(over,))
        incidents.change_branch(self.project, "main", lambda stored: branch)
        told = {"told_incidents": ("main-1",), "told_text": "SECRET lines"}
        failed = RequestRecord(self.iid, 1, now, author="SECRET", **told)  # type: ignore[arg-type]
        incidents.change_request(self.project, "main", self.iid, lambda stored: failed)
        self.keep_tests(now)
        self.store.change_feedback(key, 0, lambda stored: b"{}")
        self.store.write_aftermath(key, 0, b'{"became": "fixed"}')
        seen = known.Sighting(self.iid, 1, 2, "test", "abc", now)
        found = known.make_past_finding(Verdict.FLAKY, "SECRET cause", "wait", "", self.iid, now)
        entry = known.dump_known_failure(known.add_sighting(None, KEY, seen, found))
        self.store.known_failures.change_entry(self.project, KEY, lambda stored: entry)
        source = project_memory.Source(self.iid, self.key.session_id)
        fact = project_memory.make_fact("SECRET fact", "flaky", Survey(), now, source)
        facts = project_memory.dump_facts([fact])
        self.store.known_failures.change_memory(self.project, lambda stored: facts)
        words = known.dump_words([known.ErrorWords(KEY, frozenset({"secret_word"}), now)])
        self.store.known_failures.change_memory(
            self.project, lambda stored: words, MemoryPart.WORDS
        )
        with self.leases.register_work() as (owner, _):
            parked = Replied(self.project, self.iid, "thread", 99)
            begun = self.journal.take_trigger(parked, owner)
            self.journal.park_entry(begun, "SECRET reason")
        assert len(list(count_ended_days(self.store, now + DAY))) == 1

    def keep_tests(self, now: float) -> None:
        """A test has failed in the merge request's pipeline."""
        failed = FailedTest(NamedTest("unit", "", "test_seats"), "unit", "SECRET line")
        tests = PipelineTests(
            *(1, "a" * 40, "merge_request_event", RanOn.REQUEST, now),
            mr_iid=self.iid,
            updated_at="2026",
            failures=(failed,),
        )
        record = DayRecord(self.project, "group/app", name_day(now)).put([tests])
        ledger = self.deps().storage.ledger
        assert ledger.change_day(self.project, record.day, lambda stored: record) == record

    def leaves(self) -> set[str]:
        return {name.rpartition("/")[2] for name in self.place.names()}

    def expire(self, days: float = 90.0, most: int = 1000) -> list[str]:
        return list(retention.remove_expired(self.deps(), days, most))

    def expire_tests(self, days: int = 90) -> list[str]:
        deps = change_parts(self.deps(), ledger_settings=LedgerSettings(days=days))
        told = list(remove_old_days(deps, act=False))
        assert list(remove_old_days(deps)) == [each.replace("would be ", "") for each in told]
        return told


@pytest.fixture
def kept(sim: GitLabSim, place: Place, tmp_path: Path) -> Kept:
    made = Kept(sim, place, tmp_path / "unused")
    # The store's own clock stamps its objects: it and ours have to agree here.
    made.at.clock.time = time.time()
    made.lived()
    return made


def test_the_time_of_the_last_write_is_known(place: Place) -> None:
    records, began = place.store.records, time.time()
    assert records.find_modification_time("index/ab") is None
    assert records.create("index/ab", b"1/1")
    at = records.find_modification_time("index/ab")
    assert at is not None
    assert abs(at - began) < 60


def test_so_it_is_where_claims_are_kept_in_redis(tmp_path: Path, redis_url: str) -> None:
    records = guard_store(FolderStore(tmp_path), redis_url).records
    for name in ("slots/7.json", "index/ab"):
        assert records.find_modification_time(name) is None
        assert records.create(name, b"{}")
        at = records.find_modification_time(name)
        assert at is not None
        assert abs(at - time.time()) < 60


def test_what_is_old_leaves_an_empty_store(kept: Kept) -> None:
    before = {name.partition("/")[0] for name in kept.place.names()}
    assert before >= {"sessions", "index", "known", "recent", "spend", "journal", "verdicts"}
    assert before >= {"prompts", "incidents", "tests"}
    assert kept.leaves() >= {"context.json", "after.json", "feedback.json"}
    assert kept.leaves() >= {"knowledge.md", "words.index"}
    assert kept.expire() == []
    kept.at.clock.time += 89 * DAY
    assert kept.expire() == kept.expire_tests() == []
    kept.at.clock.time += 3 * DAY
    told = kept.expire()
    assert len(kept.expire_tests()) == 1
    assert f"session {kept.key.session_id} of {kept.project}!{kept.iid}: removed" in told
    assert [name for name in kept.place.names() if not name.startswith("workers/")] == []
    assert kept.expire() == []


def test_what_would_be_removed_is_told_and_stays(kept: Kept) -> None:
    assert list(retention.list_expired(kept.deps(), 90)) == []
    kept.at.clock.time += 92 * DAY
    before = sorted(kept.place.names())
    told = list(retention.list_expired(kept.deps(), 90))
    assert f"session {kept.key.session_id} of {kept.project}!{kept.iid}: would be removed" in told
    assert sorted(kept.place.names()) == before
    # What belongs to a session is found without one in the next look only.
    removed = [line.replace("would be removed", "removed") for line in told]
    assert set(removed) <= set(kept.expire())


def test_a_sweep_is_bounded_and_the_next_one_goes_on(kept: Kept) -> None:
    kept.at.clock.time += 100 * DAY
    rounds = 0
    assert len(kept.expire_tests()) == 1
    while kept.expire(most=1):
        rounds += 1
        assert rounds < 20
    assert rounds >= 4
    assert [name for name in kept.place.names() if not name.startswith("workers/")] == []


def test_what_is_at_work_or_has_a_trigger_to_come_is_left_alone(kept: Kept) -> None:
    kept.at.clock.time += 100 * DAY
    asked = Replied(kept.project, kept.iid, "thread", 100)
    kept.journal.add_trigger(asked)
    kept.expire()
    assert kept.store.find_latest_turn(kept.key) == 1
    kept.journal.remove_trigger(asked)
    with Leases(kept.store, kept.at.clock).claim_turn(kept.key, 2, "an answer"):
        kept.expire()
        assert kept.store.find_latest_turn(kept.key) == 1
    kept.expire()
    assert kept.store.find_latest_turn(kept.key) is None
    assert kept.store.find_session(kept.key.session_id) is None


def test_a_session_that_never_ended_goes_too(kept: Kept) -> None:
    dead = Leases(kept.store, kept.at.clock)
    key = SessionKey(kept.project, 77, "abcdefabcdef")
    with dead.claim_turn(key, 0, "a run"):
        kept.store.write_checkpoint(key, 0, b"{}")
        kept.store.write_files(key, 0, [b"tar"])
        kept.store.request_stop(key, 0, "stopped")
    kept.at.clock.time += 100 * DAY
    kept.expire()
    assert [name for name in kept.place.names() if "abcdefabcdef" in name] == []


def test_tests_have_days_of_their_own_and_none_are_kept_where_they_are_off(kept: Kept) -> None:
    day = name_day(kept.at.clock.time)
    line = f"tests of project {kept.project} on {day}: would be removed"
    kept.at.clock.time += 10 * DAY
    assert kept.expire_tests(10) == []
    assert kept.expire_tests(9) == [line]
    assert kept.expire_tests(9) == []
    kept.keep_tests(kept.at.clock.time)
    assert len(kept.expire_tests(0)) == 1
    assert kept.store.find_latest_turn(kept.key) == 1


def test_forget_leaves_ids_alone(kept: Kept) -> None:
    # A run that was parked in the middle of its turn has left its files.
    kept.store.write_files(kept.key, 2, [b"SECRET tar"])
    kept.store.write_checkpoint(kept.key, 2, b"SECRET checkpoint")
    note = kept.at.write_comment("/sandpiper forget")
    heard = Replied(kept.project, kept.iid, note.discussion_id, note.id)
    kept.journal.add_trigger(heard)
    ended = run_trigger(heard, kept.deps())
    assert "Deleted" in str(ended)
    names = kept.place.names()
    of_sessions = [name for name in names if name.startswith("sessions/")]
    assert of_sessions == [
        f"sessions/{kept.project}/{kept.iid}/{kept.key.session_id}/0002/context.json"
    ]
    rest = {name.partition("/")[0] for name in names} - {"workers", "sessions"}
    assert rest <= {"index", "journal", "spend", "prompts", "incidents", "tests"}
    incidents = [name for name in names if name.startswith("incidents/")]
    assert incidents == [f"incidents/{kept.project}/branch-main.json"]
    assert [name for name in names if name.startswith("journal/")] == [name_entry(heard)]
    for name in names:
        stored = kept.store.records.read(name, 1 << 20)
        assert stored is not None
        assert b"SECRET" not in stored.content
        assert b"A race" not in stored.content


def test_of_a_branch_that_is_at_work_only_what_is_over_goes(kept: Kept) -> None:
    incidents, now = IncidentStore(kept.store.records), kept.at.clock.time
    old, new = make_over_incident(now - 91 * DAY), make_over_incident(now - 89 * DAY)
    stays = (
        replace(new, incident_id="main-2"),
        replace(old, incident_id="main-3", state=IncidentState.OPEN),
        replace(old, incident_id="main-4", state=IncidentState.SUSPECTED),
    )
    made = BranchRecord(kept.project, "group/app", "main", incidents=(old, *stays))
    incidents.change_branch(kept.project, "main", lambda stored: made)
    line = f"1 incidents of 'main' in project {kept.project}"
    assert list(retention.list_expired(kept.deps(), 90)) == [f"{line}: would be removed"]
    assert incidents.read_branch(kept.project, "main") == made
    assert kept.expire() == [f"{line}: removed"]
    record = incidents.read_branch(kept.project, "main")
    assert record is not None
    assert record.incidents == stays
    assert incidents.read_request(kept.project, "main", kept.iid)


def test_an_incident_that_its_pipelines_would_show_again_loses_what_we_said_of_it(
    kept: Kept,
) -> None:
    incidents, now = IncidentStore(kept.store.records), kept.at.clock.time
    old = replace(
        make_over_incident(now - 91 * DAY), cause="SECRET", session_id="ab", told_requests=(3,)
    )
    gone = replace(
        old, incident_id="main-0", failures=(replace(old.failures[0], since_pipeline=0),)
    )
    flake = replace(old, incident_id="main-2", state=IncidentState.WITHDRAWN)
    made = BranchRecord(
        *(kept.project, "group/app", "main"),
        pipelines=(BranchPipeline(1, "a", "push", now, now, ()),),
        incidents=(gone, old, flake),
    )
    incidents.change_branch(kept.project, "main", lambda stored: made)
    assert kept.expire() == [f"3 incidents of 'main' in project {kept.project}: removed"]
    record = incidents.read_branch(kept.project, "main")
    assert record is not None
    assert record.incidents == (replace(old, cause="", session_id="", told_requests=()),)
    assert record.pipelines == made.pipelines
    assert kept.expire() == []


def test_a_merge_request_that_is_to_be_told_nothing_more_goes_in_a_week(kept: Kept) -> None:
    incidents, now = IncidentStore(kept.store.records), kept.at.clock.time
    plain = RequestRecord(1, 1, now)
    for request in (
        *(plain, replace(plain, mr_iid=2, told_incidents=("main-1",))),
        replace(plain, mr_iid=3, told_incidents=("main-1",), is_over=True),
    ):
        incidents.change_request(8, "main", request.mr_iid, lambda stored, it=request: it)  # type: ignore[misc]
    of = "incidents/8/branch-main/{}.json: removed"
    kept.at.clock.time += 6 * DAY
    assert of.format(1) not in kept.expire()
    kept.at.clock.time += 2 * DAY
    assert {of.format(1), of.format(3)} == {each for each in kept.expire() if "/8/" in each}
    assert [each.mr_iid for each in incidents.list_requests(8, "main")] == [2]


def test_a_turn_that_is_committed_just_before_the_claim_is_not_removed(
    sim: GitLabSim, tmp_path: Path
) -> None:
    class LateStore(FolderStore):
        """Another worker commits the turn just before it is claimed here."""

        def claim_turn(
            self, key: SessionKey, turn: int, claim: Claim, now: float, over: Claim | None = None
        ) -> Claim | None:
            if self.find_latest_turn(key) is None:
                self.commit_turn(key, turn, b"{}")
            return super().claim_turn(key, turn, claim, now, over)

    at, store = Job(sim, tmp_path), LateStore(tmp_path)
    key = at.find_key()
    store.write_checkpoint(key, 0, b"{}")
    at.store, at.leases = store, Leases(store, at.clock)
    retention.forget_merge_request(key.project_id, key.mr_iid, at.build_deps(), at.make_trigger())
    assert store.find_latest_turn(key) == 0
