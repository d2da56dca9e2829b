"""How every store keeps what is known of watched branches (sessions.incidents.IncidentStore)."""

import json
from dataclasses import replace

import pytest

from tests.contract.places import WORKERS, Place, many
from worker.errors import StoreError, Unreadable
from worker.incidents.record import (
    BranchFailure,
    BranchPipeline,
    BranchRecord,
    Incident,
    IncidentState,
    JobEnd,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
)
from worker.incidents.record_json import (
    MAX_BRANCH,
    MAX_REQUEST,
    RecordError,
    dump_branch,
    load_branch,
)
from worker.sessions.incidents import IncidentStore

NAME, REQUEST = "incidents/7/branch-main.json", "incidents/7/branch-main/42.json"
FAILED = JobEnd("test", 9, JobOutcome.FAILED, 5.5, (("key", "E assert 1 == 2"),), "https://x/9")
EMPTY = BranchRecord(7, "group/one", "main")


def open_incidents(place: Place) -> IncidentStore:
    return IncidentStore(place.store.records)


def make_full_record() -> BranchRecord:
    """Every part of a record, with a value in each field that has no default of its kind."""
    failure = BranchFailure(
        "key", "E assert 1 == 2", ("test", "tests"), 101, 5.5, landings=("a", "b"), suspect="b"
    )
    return replace(
        EMPTY,
        landings=(
            Landing("a", 1.0, "Ünïted", "dev1", 11, "c", ("x.py",), ("b",)),
            Landing("b", 2.0),
        ),
        pipelines=(BranchPipeline(101, "b", "push", 3.0, 5.5, (FAILED,), updated_at="2026"),),
        incidents=(Incident("main-101", IncidentState.OPEN, (failure,), 6.0, menders=(30,)),),
    )


FULL = make_full_record()
HIT = RequestRecord(
    *(42, 102, 7.0, PipelineKind.MERGED_RESULT, "b", ("d",)),
    cars=(40, 41),
    jobs=(FAILED,),
    author="dev2",
    is_member=True,
    told_incidents=("main-101",),
    told_text="Already failing",
    run_again=(9,),
)


def count_landing(record: BranchRecord | None) -> BranchRecord:
    found = record or EMPTY
    return replace(found, landings=(*found.landings, Landing(f"{len(found.landings):03}", 1.0)))


def test_a_branch_is_made_changed_and_removed(place: Place) -> None:
    assert open_incidents(place).read_branch(7, "main") is None
    assert open_incidents(place).change_branch(7, "main", lambda old: FULL) == FULL
    assert open_incidents(place).read_branch(7, "main") == FULL
    assert place.names() == [NAME]
    changed = open_incidents(place).change_branch(7, "main", lambda old: old and count_landing(old))
    assert changed is not None
    assert changed == open_incidents(place).read_branch(7, "main")
    assert len(changed.landings) == 3
    assert open_incidents(place).change_branch(7, "main", lambda old: None) is None
    assert place.names() == []


def test_merge_requests_lie_beside_their_branch(place: Place) -> None:
    store = open_incidents(place)
    store.change_branch(7, "main", lambda old: FULL)
    for iid in (42, 9, 100):
        store.change_request(7, "main", iid, lambda old, iid=iid: replace(HIT, mr_iid=iid))  # type: ignore[misc]
    store.change_request(7, "main.x", 1, lambda old: replace(HIT, mr_iid=1))
    assert store.read_request(7, "main", 42) == HIT
    assert store.read_request(7, "main", 1) is None
    assert [each.mr_iid for each in store.list_requests(7, "main")] == [100, 42, 9]
    assert list(store.list_branches()) == [FULL]
    assert list(place.store.list_sessions()) == []


def test_branches_are_listed_by_project(place: Place) -> None:
    store, names = open_incidents(place), ("main", "main.json", "release/1.0", "ü" * 200)
    for project in (7, 77):
        for name in names:
            made = replace(EMPTY, project_id=project, branch=name)
            store.change_branch(project, name, lambda old, made=made: made)  # type: ignore[misc]
            store.change_request(project, name, 42, lambda old: HIT)
    assert {each.branch for each in store.list_branches(7)} == set(names)
    assert len(list(store.list_branches())) == 2 * len(names)
    assert all(store.read_branch(7, name) for name in names)
    assert list(store.list_branches(8)) == []


def test_a_forgotten_merge_request_leaves_nothing(place: Place) -> None:
    store = open_incidents(place)
    store.change_branch(7, "main", lambda old: EMPTY)
    for project, branch, iid in (
        (7, "main", 42),
        (7, "next", 42),
        (7, "main", 4),
        (70, "main", 42),
    ):
        made = replace(HIT, mr_iid=iid)
        store.change_request(project, branch, iid, lambda old, made=made: made)  # type: ignore[misc]
    assert store.forget_request(7, 42) == 2
    assert place.names() == [NAME, "incidents/7/branch-main/4.json", REQUEST.replace("/7/", "/70/")]
    assert store.forget_request(7, 42) == store.forget_request(7, 0) == 0


def test_of_changes_at_once_none_is_lost(place: Place) -> None:
    stores = [open_incidents(place) for _ in range(WORKERS // 4)]
    many(lambda at: stores[at % len(stores)].change_branch(7, "main", count_landing))
    record = open_incidents(place).read_branch(7, "main")
    assert record is not None
    assert [each.sha for each in record.landings] == [f"{at:03}" for at in range(WORKERS)]


def test_two_workers_open_one_incident(place: Place) -> None:
    open_incidents(place).change_branch(7, "main", lambda old: EMPTY)
    stores = [open_incidents(place) for _ in range(2)]

    def open_incident(number: int) -> BranchRecord | None:
        opened = replace(FULL.incidents[0], incident_id=f"main-{number}")
        return stores[number % 2].change_branch(
            7, "main", lambda old: old if old and old.incidents else (old or EMPTY).put(opened)
        )

    found = many(open_incident)
    assert all(each == open_incidents(place).read_branch(7, "main") for each in found)


def test_whom_an_incident_has_hit_stays_known(place: Place) -> None:
    store, short = open_incidents(place), replace(HIT, mr_iid=43, is_short=True)
    store.change_branch(7, "main", lambda old: FULL.add_told((HIT, short)))
    later = replace(HIT, told_incidents=()), replace(short, told_incidents=("main-99",))
    stands = store.change_branch(7, "main", lambda old: old and old.add_told(later))
    assert stands is not None
    assert [(each.told_requests, each.short) for each in stands.incidents] == [((42, 43), (43,))]


def test_whom_it_has_told_is_read_as_it_was_stored_at_first() -> None:
    told = FULL.put(replace(FULL.incidents[0], told_requests=(42, 43), hits=(43,)))
    stored = dump_branch(told).replace(b'"told_requests"', b'"hit"')
    assert b'"hit": [42, 43]' in stored
    assert load_branch(stored) == told


def test_a_dry_run_reads_and_stores_nothing(place: Place) -> None:
    open_incidents(place).change_branch(7, "main", lambda old: FULL)
    dry = IncidentStore(place.store.records, read_only=True)
    assert dry.read_branch(7, "main") == FULL
    changed = dry.change_branch(7, "main", lambda old: old and count_landing(old))
    assert changed is not None
    assert len(changed.landings) == 3
    assert dry.change_request(7, "main", 42, lambda old: HIT) == HIT
    open_incidents(place).change_request(7, "main", 4, lambda old: replace(HIT, mr_iid=4))
    dry.forget_request(7, 4)
    assert dry.read_branch(7, "main") == FULL
    assert place.names() == [NAME, REQUEST.replace("42", "4")]


def test_a_later_versions_fields_do_no_harm(place: Place) -> None:
    open_incidents(place).change_branch(7, "main", lambda old: FULL)
    stored = place.store.records.read(NAME, MAX_BRANCH)
    fields = json.loads(stored.content if stored else b"")
    fields["more"] = fields["landings"][0]["more"] = {"of": "it"}
    place.put(NAME, json.dumps(fields).encode())
    assert open_incidents(place).read_branch(7, "main") == FULL


DAMAGED = (
    *(b"", b"<html>", b"[]", b'{"project_id": 7', b"{}", b'{"project_id": 7, "project": "a"}'),
    b'{"project_id": 8, "project": "a", "branch": "main"}',
    b'{"project_id": 7, "project": "a", "branch": "mine"}',
    b'{"project_id": 7, "project": "a", "branch": ["main"]}',
    b'{"project_id": 7, "project": "a", "branch": "main", "landings": 1}',
    b'{"project_id": 7, "project": "a", "branch": "main", "landings": [{"sha": 1}]}',
    *(
        b'{"project_id": 7, "project": "a", "branch": "main", "landings": '
        b'[{"sha": "a", "landed_at": %s}]}' % number
        for number in (b"NaN", b"1e400", b"1e99", b"9" * 5000, b'"x"', b"[]", b"null")
    ),
    b'{"project_id": 7, "project": "a", "branch": "main", "x": ' + b"[" * 50_000 + b"]" * 50_000,
    bytes(range(256)),
    b'{"project_id": 7, "project": "a", "branch": "main", "lies_at": "incidents/7/x.json"}',
)


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_branch_is_absent_and_stays_until_a_second_look(
    content: bytes, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.put(NAME, content)
    assert open_incidents(place).read_branch(7, "main") is None
    assert "branch-main.json" in caplog.text
    assert list(open_incidents(place).list_branches()) == []
    with pytest.raises(Unreadable):
        open_incidents(place).change_branch(7, "main", lambda old: EMPTY)
    assert NAME in place.names()


def test_a_damaged_branch_is_set_aside_at_a_second_look_and_begun_anew(place: Place) -> None:
    place.put(NAME, DAMAGED[-1])
    records, time = place.store.records, [1000.0]
    store = IncidentStore(records, lambda: time[0])
    place.put(NAME, b'{"project_id": 7, "project": "a", "branch": "mine"}')
    with pytest.raises(Unreadable):
        store.change_branch(7, "main", count_landing)
    time[0] += 200
    assert store.change_branch(7, "main", count_landing) == count_landing(None)
    assert any(name.startswith(f"damaged/kept/{NAME}~") for name in place.names())


@pytest.mark.parametrize("content", [b"<html>", b"{}", b'{"mr_iid": 4, "pipeline_id": 1}', b"[]"])
def test_a_damaged_merge_request_is_absent(content: bytes, place: Place) -> None:
    open_incidents(place).change_request(7, "main", 9, lambda old: replace(HIT, mr_iid=9))
    place.put(REQUEST, content)
    assert open_incidents(place).read_request(7, "main", 42) is None
    assert [each.mr_iid for each in open_incidents(place).list_requests(7, "main")] == [9]


def test_text_that_no_file_can_hold_is_kept_as_far_as_it_can_be(place: Place) -> None:
    odd = replace(EMPTY, landings=(Landing("a", 1.0, title="\ud800 \0 \u202e"),))
    stands = open_incidents(place).change_branch(7, "main", lambda old: odd)
    assert stands is not None
    assert stands.landings[0].title == "? \0 \u202e"
    assert open_incidents(place).read_branch(7, "main") == stands


def test_what_is_too_large_loses_the_oldest_but_no_open_incident(place: Place) -> None:
    long = "x" * 3000
    pipelines = tuple(
        replace(
            FULL.pipelines[0],
            pipeline_id=at,
            jobs=tuple(replace(FAILED, job_id=job, url=long) for job in range(20)),
        )
        for at in range(1, 90)
    )
    landings = tuple(Landing(str(at), float(at), files=(long,)) for at in range(150))
    (open_,) = FULL.incidents
    over = tuple(
        replace(open_, incident_id=f"{state}-{at}", state=state, cause=long)
        for at in range(60)
        for state in (IncidentState.CLOSED, IncidentState.OPEN)
    )
    large = replace(EMPTY, pipelines=pipelines, landings=landings, incidents=over)
    stands = open_incidents(place).change_branch(7, "main", lambda old: large)
    assert stands is not None
    assert stands == open_incidents(place).read_branch(7, "main")
    assert 5 < len(stands.pipelines) <= 60
    assert stands.pipelines == pipelines[-len(stands.pipelines) :]
    assert 5 < len(stands.landings) <= 100
    assert stands.landings == landings[-len(stands.landings) :]
    assert stands.open_incidents == large.open_incidents
    stored = place.store.records.read(NAME, MAX_BRANCH)
    assert stored is not None
    assert len(stored.content) > MAX_BRANCH // 2


def test_one_huge_pipeline_loses_errors_and_then_explains_nothing(place: Place) -> None:
    errors = tuple((f"key {at}", "x" * 500) for at in range(3000))
    job, small = replace(FAILED, errors=errors), FAILED
    huge = replace(FULL, pipelines=(replace(FULL.pipelines[0], jobs=(small, job)),))
    stands = open_incidents(place).change_branch(7, "main", lambda old: huge)
    assert stands is not None
    assert [each.errors for each in stands.pipelines[0].jobs] == [small.errors, ()]
    request = open_incidents(place).change_request(
        7, "main", 42, lambda old: replace(HIT, jobs=(small, job))
    )
    assert request is not None
    assert [each.errors for each in request.jobs] == [small.errors, ()]
    stored = place.store.records.read(REQUEST, MAX_REQUEST)
    assert stored is not None


def test_what_cannot_be_made_to_fit_is_refused(place: Place) -> None:
    vast = replace(FULL.incidents[0], cause="x" * MAX_BRANCH)
    with pytest.raises(StoreError, match="larger than"):
        open_incidents(place).change_branch(7, "main", lambda old: EMPTY.put(vast))
    assert place.names() == []


def test_what_is_no_branchs_is_refused(place: Place) -> None:
    store = open_incidents(place)
    for project in (0, -1, 10**19):
        with pytest.raises(StoreError):
            store.read_branch(project, "main")
    with pytest.raises(StoreError):
        store.read_request(7, "main", -1)
    for other in (replace(EMPTY, branch="mine"), replace(EMPTY, project_id=8)):
        with pytest.raises(RecordError):
            store.change_branch(7, "main", lambda old, other=other: other)  # type: ignore[misc]
    with pytest.raises(RecordError):
        store.change_request(7, "main", 4, lambda old: HIT)
    assert place.names() == []
