"""A story is played: the judge looks at what GitLab shows, and the outcome is held for each point.

What a worker does around the judge is done here as plainly as possible: the branch and the merge
requests are read again when something of them is delivered, and everything by the sweep.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.unit.incidents.stories import Fields, World, seconds
from worker.incidents.explain import (
    Explanation,
    choose_runs_again,
    count_runs,
    explain_request,
    has_run,
)
from worker.incidents.judge import judge_branch
from worker.incidents.record import (
    BranchRecord,
    Incident,
    IncidentState,
    JobOutcome,
    RequestRecord,
    TrainBreak,
)
from worker.incidents.trains import find_breaker

Place = tuple[str, str]


@dataclass(slots=True)
class Note:
    """A merge request's note: how it came, and what it would say now."""

    kind: str
    explanation: Explanation
    train: TrainBreak
    hits: tuple[int, ...] = ()


@dataclass(slots=True)
class State:
    """All that is known and done at one time."""

    at: float
    incidents: list[tuple[Place, Incident]]
    notes: dict[int, Note]
    runs_again: set[tuple[int, str]]
    failed: set[int]


@dataclass(slots=True)
class Player:
    """One way to deliver a story."""

    story: Fields
    world: World = field(init=False)
    records: dict[Place, BranchRecord] = field(default_factory=dict)
    requests: dict[int, RequestRecord] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)
    runs_again: set[tuple[int, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.world = World(self.story)

    @property
    def places(self) -> list[Place]:
        """The watched branches."""
        named = (self.story.get("settings") or {}).get("branches", ["default"])
        branches = {"main" if name == "default" else name for name in named}
        return [place for place in self.world.landings if place[1] in branches]

    def play(self, order: random.Random | None) -> Iterator[tuple[Fields, State, list[State]]]:
        """Yield each point with the state then and all states since the point before.

        Without an `order` each event is delivered as it happens; with one, by chance: some late,
        some twice, some not at all before the sweep.
        """
        begun = 0.0
        for point in self.story["expect"]:
            end = seconds(point["at"])
            moments = [each for each in self.world.moments if begun < each[0] <= end]
            states = []
            if order is None:
                looks = [(each[0], [each]) for each in moments]
            elif order.random() < 0.5:
                looks = [(each[0], [each]) for each in moments if order.random() < 0.7]
            else:
                shuffled = order.sample(moments, k=len(moments)) + order.sample(
                    moments, k=len(moments) // 2
                )
                looks = [(end, [each]) for each in shuffled if order.random() < 0.8]
            for at, touched in looks:
                for _, kind, number in touched:
                    self._deliver(kind, number, at)
                states.append(self._judge(at))
            self._sweep(end, order)
            states.append(self._judge(end))
            yield point, states[-1], states
            begun = end

    def play_late(self) -> tuple[State, list[State]]:
        """Return the state when everything is delivered at the last point."""
        end = seconds(self.story["expect"][-1]["at"])
        self._sweep(end, None)
        state = self._judge(end)
        return state, [state]

    def _deliver(self, kind: str, number: int, at: float) -> None:
        run = self.world.runs[number] if kind == "run" else None
        if run and run.request:
            owner = self.world.requests[run.request.mr_iid]
            self._read_request(owner.iid, at)
            if (owner.project, owner.to) in self.places:
                self._read_branch((owner.project, owner.to), at)
        elif run:
            if (run.project, run.branch) in self.places:
                self._read_branch((run.project, run.branch), at)
        elif kind == "request":
            self._read_request(number, at)
        else:
            self._sweep(at, None)

    def _sweep(self, at: float, order: random.Random | None) -> None:
        things: list[Place | int] = [*self.places, *self.world.requests]
        if order:
            order.shuffle(things)
        for each in things:
            if isinstance(each, int):
                self._read_request(each, at)
            else:
                self._read_branch(each, at)

    def _read_branch(self, place: Place, at: float) -> None:
        shown = self.world.show_branch(*place, at)
        known = self.records.get(place)
        self.records[place] = replace(shown, incidents=known.incidents if known else ())

    def _read_request(self, iid: int, at: float) -> None:
        owner = self.world.requests[iid]
        runs = self.world.show_runs(iid, at)
        if runs and (owner.project, owner.to) in self.places:
            before = self.requests.get(iid)
            kept = (before.run_again, before.ran_for) if before else ((), ())
            told = before.told_incidents if before else ()
            self.requests[iid] = replace(
                runs[-1], run_again=kept[0], ran_for=kept[1], told_incidents=told
            )

    def _judge(self, at: float) -> State:
        for place, record in self.records.items():
            requests = self._list_requests(place)
            judged = judge_branch(record, requests, at)
            self.records[place] = judged
            for request in requests:
                self._write_note(judged, request, requests, at)
            most = (self.story.get("settings") or {}).get("rerun", 0)
            for incident in judged.incidents if most else ():
                if incident.state is IncidentState.CLOSED:
                    self._run_again(judged, incident, place, most, at)
        return State(
            at,
            [(place, each) for place, rec in self.records.items() for each in rec.incidents],
            {iid: replace(note) for iid, note in self.notes.items()},
            set(self.runs_again),
            {
                iid
                for iid, each in self.requests.items()
                if any(job.outcome is JobOutcome.FAILED for job in each.jobs)
            },
        )

    def _list_requests(self, place: Place) -> list[RequestRecord]:
        owners = self.world.requests
        return [
            each for iid, each in self.requests.items()
            if (owners[iid].project, owners[iid].to) == place
        ]  # fmt: skip

    def _write_note(
        self, record: BranchRecord, request: RequestRecord, requests: list[RequestRecord], at: float
    ) -> None:
        if not any(job.outcome is JobOutcome.FAILED for job in request.jobs):
            return
        found = explain_request(record, request)
        runs = [run for each in requests for run in self.world.show_runs(each.mr_iid, at)]
        train = find_breaker(record, request, runs)
        before = self.notes.get(request.mr_iid)
        was_full = before is not None and before.kind in ("full", "joined")
        kind = "part" if found.explained_errors else "full"
        if found.is_all:
            kind = "joined" if was_full else "short"
        hits = tuple(iid for each in found.incidents if each.is_open for iid in each.hits)
        self.notes[request.mr_iid] = Note(kind, found, train, hits)
        self.requests[request.mr_iid] = replace(
            request, told_incidents=tuple(each.incident_id for each in found.incidents)
        )

    def _run_again(
        self, record: BranchRecord, incident: Incident, place: Place, most: int, at: float
    ) -> None:
        """Before anything is run again, what has become of the merge requests is asked."""
        for iid, owner in self.world.requests.items():
            if (owner.project, owner.to) == place:
                self._read_request(iid, at)
        requests = self._list_requests(place)
        for iid, job_id in choose_runs_again(record, incident, requests):
            request = self.requests[iid]
            ran = count_runs(incident.incident_id, self.requests.values())
            if ran >= most and not has_run(request, incident.incident_id):
                continue
            name = next(job.name for job in request.jobs if job.job_id == job_id)
            self.runs_again.add((iid, name))
            told = tuple({*request.told_incidents, incident.incident_id})
            ran_for = (*request.ran_for, (job_id, incident.incident_id))
            self.requests[iid] = replace(
                request,
                run_again=(*request.run_again, job_id),
                ran_for=ran_for,
                told_incidents=told,
            )
