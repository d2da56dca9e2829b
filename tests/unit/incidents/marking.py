"""How good a played story's outcome is: right, missing or wrong, for each field of its labels."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.incidents.playing import Note, Place, State
from tests.unit.incidents.stories import Fields, many
from worker.incidents.record import GONE, BranchFailure, Incident, IncidentState, TrainCause

RIGHT, MISSING, WRONG = "right", "missing", "wrong"
_TOLD = (IncidentState.OPEN, IncidentState.CLOSED)


@dataclass(slots=True)
class Marks:
    """The marks of a story; what is not right is said."""

    story: Fields
    is_late: bool = False
    """Whether everything was delivered at the end."""
    counts: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: dict[int, Fields] = field(default_factory=dict)

    def mark(self, mark: str, what: str) -> None:
        """Count a mark."""
        self.counts[mark] += 1
        if mark != RIGHT:
            self.said.append(f"{self.story['id']} {mark}: {what}")

    def learn(self, point: Fields) -> None:
        """Take the labels of a point over those of the points before."""
        for label, fields in (point.get("incidents") or {}).items():
            self.labels.setdefault(label, {}).update(fields)
        for who, fields in (point.get("notes") or {}).items():
            first, _, last = str(who).partition("..")
            self.notes |= dict.fromkeys(range(int(first), int(last or first) + 1), fields)

    def look(self, point: Fields, state: State, states: Sequence[State]) -> None:
        """Mark a point."""
        self.learn(point)
        where = str(point["at"])
        self._look_at_incidents(state, where)
        for iid, fields in self.notes.items():
            self._look_at_note(iid, fields, state, f"{where} note {iid}")
        self._look_at_runs(point.get("rerun"), state, where)
        for each in states:
            for row in self.story.get("never", []):
                if self._happens(row, each):
                    self.mark(WRONG, f"{where} never {row}")

    # -- incidents

    def _look_at_incidents(self, state: State, where: str) -> None:
        free = [each for each in state.incidents if each[1].state in _TOLD]
        groups = [set(group) for group in self.story.get("same") or []]
        taken: dict[str, Incident] = {}
        for label, fields in sorted(self.labels.items(), key=lambda pair: pair[0], reverse=True):
            found = self._find(fields, free)
            if found is None:
                for group in groups:
                    for other in group & set(taken) if label in group else ():
                        if set(many_keys(fields)) & {e.key for e in taken[other].failures}:
                            found = ("", ""), taken[other]
            states = set(many(fields["state"]))
            if found is None:
                fine = bool(states & {"none", "may"}) or (self.is_late and "closed" in states)
                self.mark(RIGHT if fine else MISSING, f"{where} {label}: no incident")
                continue
            if found in free:
                free.remove(found)
            incident = found[1]
            taken[label] = incident
            own = [e for e in incident.failures if e.key in many_keys(fields)]
            is_open = any(not e.ended_by and not e.until_pipeline for e in own) and incident.is_open
            now = "open" if is_open else "closed"
            if now in states or (now == "open" and "may" in states):
                self.mark(RIGHT, "")
            else:
                worse = WRONG if now == "closed" or "none" in states else MISSING
                self.mark(worse, f"{where} {label}: {now}")
            for key in many_keys(fields):
                self._look_at_failure(key, fields, incident, now, f"{where} {label}.{key}")
            allowed = {key for each in self.labels.values() for key in many_keys(each)}
            if {e.key for e in incident.failures} - (allowed if groups else {*many_keys(fields)}):
                self.mark(WRONG, f"{where} {label}: more keys {incident.failures}")
        if not free:
            self.mark(RIGHT, "")
        for _, incident in free:
            self.mark(WRONG, f"{where}: unlabelled {incident.state} {incident.failures}")

    def _find(
        self, fields: Fields, free: list[tuple[Place, Incident]]
    ) -> tuple[Place, Incident] | None:
        place = fields.get("project", "one"), fields.get("branch", "main")
        keys = set(many_keys(fields))
        fits = [
            each
            for each in free
            if each[0] == place and keys & {failure.key for failure in each[1].failures}
        ]
        named = [
            e for e in fits if any(f.since_pipeline in many(fields["since"]) for f in e[1].failures)
        ]
        return next(iter(named or reversed(fits)), None)

    def _look_at_failure(
        self, key: str, fields: Fields, incident: Incident, now: str, where: str
    ) -> None:
        keys = fields["keys"]
        named = (keys.get(key) or {}) if isinstance(keys, dict) else {}
        last = max(incident.failures, key=lambda each: (each.until_at, each.key == key))
        if last.key != key:
            fields = {name: each for name, each in fields.items() if name not in ("until", "by")}
        own = {**fields, **named}
        failure = next((each for each in incident.failures if each.key == key), None)
        if failure is None:
            self.mark(MISSING, f"{where}: not there")
            return
        good = failure.since_pipeline in many(own["since"])
        self.mark(RIGHT if good else WRONG, f"{where}: since {failure.since_pipeline}")
        if "suspect" in own:
            wanted = many(own["suspect"])
            if (failure.suspect or "none") in wanted:
                self.mark(RIGHT, "")
            else:
                mark = WRONG if failure.suspect else MISSING
                self.mark(mark, f"{where}: suspect {failure.suspect!r}, not {wanted}")
        if failure.until_pipeline and "until" in own:
            good = failure.until_pipeline in many(own["until"])
            self.mark(RIGHT if good else WRONG, f"{where}: until {failure.until_pipeline}")
        if (failure.until_pipeline or failure.ended_by) and "by" in own:
            by = failure.ended_by
            good = by in many(own["by"])
            self.mark(RIGHT if good else WRONG if by else MISSING, f"{where}: by {by!r}")

    # -- notes

    def _look_at_note(self, iid: int, fields: Fields, state: State, where: str) -> None:
        wanted = set(many(fields["note"]))
        note = state.notes.get(iid)
        if note is None:
            fine = self.is_late or bool(wanted & {"none", "may"})
            self.mark(RIGHT if fine else MISSING, f"{where}: no note")
            return
        kind, train = note.kind, note.train.cause
        if train in (TrainCause.OWN, TrainCause.CAR) and kind == "full":
            self._look_at_train(note, fields, where)
            if "train" in wanted:
                return
        allowed = {
            "short": {"short", "joined", "either", "may"},
            "joined": {"joined", "either"} | ({"short"} if self.is_late else set()),
            "part": {"part"},
            "full": {"full", "either", "joined"} if not note.explanation.incidents else {"full"},
        }[kind]
        if kind == "joined" and "short" in wanted:
            self.mark(MISSING, f"{where}: joined")
        elif wanted & allowed:
            # A note that should be joined is less when no incident is named in it.
            less = kind == "full" and "joined" in wanted and not wanted & {"full", "either"}
            self.mark(MISSING if less else RIGHT, f"{where}: {kind}")
        else:
            less = kind == "full" and bool(wanted & {"short", "part", "joined"})
            self.mark(MISSING if less else WRONG, f"{where}: {kind}, not {wanted}")
        if note.explanation.incidents and fields.get("of"):
            self._look_at_lines(iid, note, fields, where)
        if "train" in fields and kind != "full":
            is_branch = train is TrainCause.BRANCH
            good = is_branch == (fields["train"] == "branch")
            self.mark(RIGHT if good else WRONG, f"{where}: train {note.train}")

    def _look_at_train(self, note: Note, fields: Fields, where: str) -> None:
        if "train" not in fields:
            self.mark(WRONG, f"{where}: train {note.train}")
            return
        told = "self" if note.train.cause is TrainCause.OWN else note.train.car
        self.mark(RIGHT if told == fields["train"] else WRONG, f"{where}: train {note.train}")
        if "with" in fields:
            partner = note.train.together_with
            good = partner == fields["with"]
            self.mark(RIGHT if good else WRONG if partner else MISSING, f"{where}: with {partner}")

    def _look_at_lines(self, iid: int, note: Note, fields: Fields, where: str) -> None:
        found = note.explanation
        if "own" in fields:
            own = {key for _, key in found.own}
            self.mark(RIGHT if own == set(many(fields["own"])) else WRONG, f"{where}: own {own}")
        labels = [self.labels[label] for label in many(fields["of"])]
        if "pipeline" in fields:
            wanted = set(many(fields["pipeline"]))
            since = {failure.since_pipeline for failure in found.failures}
            good = since <= wanted
            mark = (RIGHT if since == wanted else MISSING) if good else WRONG
            self.mark(mark, f"{where}: pipelines {since}, not {wanted} of {labels}")
        if "others" in fields and note.hits:
            low, _, high = str(fields["others"]).partition("..")
            count = len(set(note.hits) - {iid})
            good = int(low) <= count <= int(high or low)
            self.mark(RIGHT if good else WRONG, f"{where}: others {count}")
        if "mended" in fields:
            said = say_mended(note)
            allowed = {str(each) for each in many(fields["mended"])}
            if said & allowed:
                self.mark(RIGHT, "")
            else:
                mark = MISSING if said == {"none"} else WRONG
                self.mark(mark, f"{where}: mended {said}, not {allowed}")

    # -- what is run again, and what never happens

    def _look_at_runs(self, rows: Any, state: State, where: str) -> None:
        again = set(list_rows(rows.get("again", []))) if rows else set()
        useless = set(list_rows(rows.get("useless", []))) if rows else set()
        if rows is None:
            return
        for each in sorted(state.runs_again - again - useless):
            self.mark(WRONG, f"{where}: run again {each}")
        for each in sorted(again):
            done = each in state.runs_again or self.is_late
            self.mark(RIGHT if done else MISSING, f"{where}: not run again {each}")

    def _happens(self, row: Fields, state: State) -> bool:
        told = [each for _, each in state.incidents if each.state in _TOLD]
        failures = [failure for each in told for failure in each.failures]
        open_ones = [each for each in told if each.is_open]
        if "incident" in row:
            return any(each.key == row["incident"] for each in failures)
        if "suspect" in row:
            key = row.get("key")
            named = {each.suspect for each in failures if key in (None, each.key)} - {""}
            return bool(named) if row["suspect"] == "any" else row["suspect"] in named
        if "short" in row:
            return row["short"] in state.notes and state.notes[row["short"]].kind == "short"
        if "note" in row:
            return row["note"] in state.notes
        if "hit" in row:
            return any(row["hit"] in each.hits for each in told)
        if "green" in row:
            note = state.notes.get(row["green"])
            said = say_mended(note) if note else set()
            green = [int(each[6:]) for each in said if each.startswith("green ")]
            return any("before" not in row or each < row["before"] for each in green)
        if "rerun" in row:
            return any(
                row["rerun"] in ("all", iid) and row.get("job", name) == name
                for iid, name in state.runs_again
            )
        if "blame" in row:
            return any(
                row["blame"] == note.train.car and note.train.cause is not TrainCause.UNKNOWN
                for note in state.notes.values()
            )
        if "two" in row:
            red = [
                (place, each.incident_id)
                for place, each in state.incidents
                if each in open_ones
                and any(f.key == row["two"] and is_red(f) for f in each.failures)
            ]
            return max(Counter(place for place, _ in red).values(), default=0) > 1
        if "split" in row:
            return (
                len({e.incident_id for e in told for f in e.failures if f.key in row["split"]}) > 1
            )
        if "one" in row:
            keys = [set(many_keys(self.labels[e])) if e in self.labels else {e} for e in row["one"]]
            return any(all({f.key for f in e.failures} & each for each in keys) for e in told)
        if "close" in row:
            fields = self.labels.get(row["close"])
            return fields is not None and any(
                each.key in many_keys(fields)
                and each.since_pipeline in many(fields["since"])
                and each.until_pipeline
                for each in failures
            )
        raise ValueError(row)


def is_red(failure: BranchFailure) -> bool:
    """Whether the branch still fails so."""
    return not failure.until_pipeline and not failure.ended_by


def say_mended(note: Note) -> set[str]:
    """Return what a note may say of the end, in the words of the labels."""
    found = note.explanation
    last = found.last_end
    if last:
        return {f"green {last.until_pipeline}"}
    if found.failures and all(each.ended_by == GONE for each in found.failures):
        return {"gone"}
    if found.green:
        return {"partly"}
    menders = {iid for each in found.incidents if each.is_open for iid in each.menders}
    return {f"in {iid}" for iid in menders} or {"none"}


def many_keys(fields: Fields) -> list[str]:
    """Return the keys of a label."""
    return list(fields["keys"])


def list_rows(rows: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield the merge requests and jobs of rows such as `21..23.unit`."""
    for row in rows:
        who, _, name = str(row).rpartition(".")
        first, _, last = who.partition("..")
        yield from ((iid, name) for iid in range(int(first), int(last or first) + 1))
