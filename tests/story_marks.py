"""How good it is what people see of a red branch: right, missing or wrong, by a story's labels.

Incidents are marked by the store's records, notes by their text alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.incidents.record import GONE, NOBODY, BranchFailure, Incident, IncidentState

Fields = Mapping[str, Any]
RIGHT, MISSING, WRONG = "right", "missing", "wrong"
_TOLD = (IncidentState.OPEN, IncidentState.CLOSED)


def many(value: Any) -> list[Any]:
    """Return a value that may be one or several as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def list_numbers(who: object) -> range:
    """Return the numbers of `21..23`."""
    first, _, last = str(who).partition("..")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True, slots=True)
class NoteText:
    """What a note says, read from its visible text."""

    is_short: bool
    names_incident: bool
    pipelines: frozenset[int]
    """The pipelines since which the branch is red."""
    others: int
    mended: str
    """As in the labels: none, partly, gone, `in 130`, `green 103`."""
    breaker: str = ""
    """Who broke the merge train: `self`, a merge request's number; "" if that is not said."""
    partner: int = 0
    """The merge request together with which alone it fails."""


def read_note(body: str) -> NoteText:
    """Read a note as its readers do."""
    lines = [line for line in body.split("\n") if line.startswith("**")]
    red = [line for line in lines if line.startswith("**Already failing on `")]
    green = [line for line in lines if line.startswith(("**Green again:", "**Partly green"))]
    since = re.findall(
        r"since [^\n(]*\(\[pipeline (\d+)\]", "\n".join(line.split(";")[0] for line in red)
    )
    until = re.findall(r"\[pipeline (\d+)\]", "\n".join(green))
    others = re.findall(r"(\d+) other merge request", "\n".join(red))
    menders = re.findall(r"being mended in `!(\d+)`", "\n".join(red))
    mended = "none"
    if green and not red and "not yet" not in "".join(green):
        mended = f"green {until[-1]}" if until else "?"
    elif green or any("green again since" in line for line in red):
        mended = "partly"
    elif menders:
        mended = f"in {menders[0]}"
    elif any(line.startswith("**No longer on") for line in lines):
        mended = "gone"
    names = bool(red or green) or mended == "gone"
    dropped = "\n".join(
        line for line in lines if line.startswith("**Dropped from the merge train:")
    )
    broke = re.search(
        r":\*\* (this change|`!(\d+)`) broke it(?:, together with `!(\d+)`)?", dropped
    )
    by_place = re.search(r"Explained by the (branch|merge train), no model was asked", body)
    return NoteText(
        bool(by_place) and (names or bool(broke)),
        names,
        frozenset(map(int, since)),
        int(others[0]) if others else 0,
        mended,
        (broke[2] or "self") if broke else "",
        int(broke[3] or 0) if broke else 0,
    )


@dataclass(slots=True)
class StoryMarks:
    """The marks of a played story, a line for each: `s01 wrong 68m i1: …`."""

    story: Fields
    lines: list[str] = field(default_factory=list)
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: dict[int, Fields] = field(default_factory=dict)

    def mark(self, mark: str, what: str) -> None:
        """Write a mark down."""
        self.lines.append(f"{self.story['id']} {mark} {what}")

    def look(self, point: Fields, seen: Any) -> None:
        """Mark a point."""
        for label, fields in (point.get("incidents") or {}).items():
            self.labels.setdefault(label, {}).update(fields)
        for who, fields in (point.get("notes") or {}).items():
            self.notes |= dict.fromkeys(list_numbers(who), fields)
        where = str(point["at"])
        self._look_at_incidents(seen, where)
        for iid, fields in self.notes.items():
            self._look_at_note(iid, fields, seen, f"{where} note {iid}")
        rows = point.get("rerun") or {}
        again, useless = (
            set(_list_rows(rows.get("again", []))),
            set(_list_rows(rows.get("useless", []))),
        )
        if rows:
            for each in sorted(seen.runs_again - again - useless):
                self.mark(WRONG, f"{where} runs again {each}")
            for each in sorted(again):
                self.mark(
                    RIGHT if each in seen.runs_again else MISSING, f"{where} run again {each}"
                )
        if "paid" in point:
            self.mark(RIGHT if seen.paid <= point["paid"] else WRONG, f"{where} paid {seen.paid}")
        self.look_at_never(seen, where)

    def look_at_never(self, seen: Any, where: str) -> None:
        """Mark what must not be true at any time."""
        for row in self.story.get("never", []):
            if self._happens(row, seen):
                self.mark(WRONG, f"{where} never {row}")

    def _look_at_incidents(self, seen: Any, where: str) -> None:
        told = [each for each in seen.incidents if each[2].state in _TOLD]
        free = list(told)
        same = [set(group) for group in self.story.get("same") or []]
        fitting = {
            label: [each for each in told if _fits(each, fields)]
            for label, fields in self.labels.items()
        }
        named = {
            label: [each for each in fitting[label] if _begins_so(each[2], fields)]
            for label, fields in self.labels.items()
        }
        for label, fields in self.labels.items():
            states, keys = set(many(fields["state"])), list(fields["keys"])
            # What another label names is not taken for this one.
            others = [
                each for other, found in named.items() for each in found
                if other != label and not any({label, other} <= group for group in same)
            ]  # fmt: skip
            rest = [each for each in fitting[label][::-1] if each not in others]
            found = next(iter(named[label] or rest), None)
            if found is None:
                fine = states & {"none", "may"}
                self.mark(RIGHT if fine else MISSING, f"{where} {label}: no incident")
                continue
            if found in free:
                free.remove(found)
            incident = found[2]
            own = [each for each in incident.failures if each.key in keys]
            is_open = incident.is_open and any(_is_red(each) for each in own)
            now = "open" if is_open else "closed"
            if now in states or (now == "open" and "may" in states):
                self.mark(RIGHT, f"{where} {label} {now}")
            else:
                worse = WRONG if now == "closed" or "none" in states else MISSING
                self.mark(worse, f"{where} {label}: {now}, not {states}")
            for failure in own:
                self._look_at_failure(failure, fields, f"{where} {label}.{failure.key}")
            if missing := set(keys) - {each.key for each in own}:
                self.mark(MISSING, f"{where} {label}: keys {missing}")
            more = {each.key for each in incident.failures} - set(keys)
            if more - {key for each in self.labels.values() for key in each["keys"]} or (
                more and not any(label in group for group in same)
            ):
                self.mark(WRONG, f"{where} {label}: more keys {more}")
        for _, _, incident in free:
            keys = [each.key for each in incident.failures]
            self.mark(WRONG, f"{where} unlabelled {incident.state} {keys}")

    def _look_at_failure(self, failure: BranchFailure, fields: Fields, where: str) -> None:
        keys = fields["keys"]
        own = {**fields, **((keys.get(failure.key) or {}) if isinstance(keys, dict) else {})}
        good = failure.since_pipeline in many(own["since"])
        self.mark(RIGHT if good else WRONG, f"{where} since {failure.since_pipeline}")
        if "suspect" in own:
            wanted = many(own["suspect"])
            good = (failure.suspect or "none") in wanted
            mark = RIGHT if good else WRONG if failure.suspect else MISSING
            self.mark(mark, f"{where} suspect {failure.suspect!r}, not {wanted}")
        if failure.until_pipeline and "until" in own and "closed" in many(own["state"]):
            good = failure.until_pipeline in many(own["until"]) or len(list(keys)) > 1
            self.mark(RIGHT if good else WRONG, f"{where} until {failure.until_pipeline}")
        if failure.ended_by and "by" in own and len(list(keys)) == 1:
            good = failure.ended_by in many(own["by"])
            self.mark(RIGHT if good else WRONG, f"{where} by {failure.ended_by!r}")

    def _look_at_note(self, iid: int, fields: Fields, seen: Any, where: str) -> None:
        wanted, body = set(many(fields["note"])), seen.notes.get(iid)
        if body is None:
            fine = wanted & {"none", "may"}
            self.mark(RIGHT if fine else MISSING, f"{where}: no note")
            return
        if wanted == {"none"}:
            self.mark(WRONG, f"{where}: a note")
            return
        text = read_note(body)
        kind = "short" if text.is_short else "joined" if text.names_incident else "full"
        allowed = {
            "short": {"short", "joined", "either", "may", "train"},
            "joined": {"joined", "either", "part", "train"},
            "full": {"full", "either", "train"},
        }[kind]
        if wanted & allowed:
            self.mark(RIGHT, f"{where} {kind}")
        else:
            worse = WRONG if kind == "short" or wanted == {"full"} else MISSING
            self.mark(worse, f"{where}: {kind}, not {wanted}")
        self._look_at_train(text, fields, where)
        if kind == "full":
            return
        if "pipeline" in fields and text.mended[:5] not in ("green", "gone"):
            named, over = set(many(fields["pipeline"])), self._list_over(fields)
            is_whole = named - over <= text.pipelines <= named
            mark = RIGHT if is_whole else MISSING if text.pipelines < named else WRONG
            self.mark(mark, f"{where} pipelines {set(text.pipelines)}, not {named}")
        if "others" in fields:
            low, _, high = str(fields["others"]).partition("..")
            is_within = text.others <= int(high or low)
            mark = (RIGHT if text.others >= int(low) else MISSING) if is_within else WRONG
            self.mark(mark, f"{where} others {text.others}")
        if "mended" in fields:
            said = {str(each) for each in many(fields["mended"])}
            mark = RIGHT if text.mended in said else MISSING if text.mended == "none" else WRONG
            self.mark(mark, f"{where} mended {text.mended}, not {said}")

    def _list_over(self, fields: Fields) -> set[int]:
        """List the pipelines of a note's incidents that have come again: their newest is named."""
        labels = [self.labels[each] for each in many(fields.get("of")) if each in self.labels]
        older = {each["again"] for each in labels if "again" in each}
        return {pipe for each in older for pipe in many(self.labels[each]["since"])}

    def _look_at_train(self, text: NoteText, fields: Fields, where: str) -> None:
        wanted = str(fields.get("train", "")) if fields.get("train") != "branch" else ""
        if text.breaker != wanted:
            self.mark(
                WRONG if text.breaker else MISSING, f"{where} train {text.breaker!r}, not {wanted}"
            )
        elif "train" in fields:
            is_told = bool(wanted) or text.names_incident
            self.mark(RIGHT if is_told else MISSING, f"{where} train {fields['train']}")
        if "with" in fields or text.partner:
            good = text.partner == fields.get("with", 0)
            mark = RIGHT if good else WRONG if text.partner else MISSING
            self.mark(mark, f"{where} with {text.partner}, not {fields.get('with')}")

    def _happens(self, row: Fields, seen: Any) -> bool:
        told = [each for each in seen.incidents if each[2].state in _TOLD]
        failures = [failure for each in told for failure in each[2].failures]
        notes = {iid: read_note(body) for iid, body in seen.notes.items()}
        if "incident" in row:
            return any(each.key == row["incident"] for each in failures)
        if "suspect" in row:
            key = row.get("key")
            named = {each.suspect for each in failures if key in (None, each.key)} - {""}
            return bool(named) if row["suspect"] == "any" else row["suspect"] in named
        if "short" in row:
            return row["short"] in notes and notes[row["short"]].is_short
        if "note" in row:
            return row["note"] in notes
        if "hit" in row:
            return any(row["hit"] in each[2].hits for each in told)
        if "green" in row:
            found = re.fullmatch(
                r"green (\d+)", notes[row["green"]].mended if row["green"] in notes else ""
            )
            return bool(found) and ("before" not in row or int(found[1]) < row["before"])  # type: ignore[index]
        if "rerun" in row:
            return any(
                row["rerun"] in ("all", iid) and row.get("job", name) == name
                for iid, name in seen.runs_again
            )
        if "blame" in row:
            return any(
                each.breaker == str(row["blame"])
                or (each.breaker == "self" and iid == row["blame"])
                for iid, each in notes.items()
            )
        if "two" in row:
            places = [
                each[:2] for each in told
                if each[2].is_open
                and any(f.key == row["two"] and _is_red(f) for f in each[2].failures)
            ]  # fmt: skip
            return len(places) > len(set(places))
        if "split" in row:
            return (
                len(
                    {e[2].incident_id for e in told for f in e[2].failures if f.key in row["split"]}
                )
                > 1
            )
        if "one" in row:
            sets = [set(self.labels[e]["keys"]) if e in self.labels else {e} for e in row["one"]]
            return any(all({f.key for f in e[2].failures} & each for each in sets) for e in told)
        if "close" in row:
            fields = self.labels.get(row["close"])
            return fields is not None and any(
                each.key in fields["keys"]
                and each.since_pipeline in many(fields["since"])
                and each.until_pipeline
                for each in failures
            )
        raise ValueError(row)


def _fits(seen: tuple[str, str, Incident], fields: Fields) -> bool:
    place = fields.get("project", "one"), fields.get("branch", "main")
    return seen[:2] == place and any(each.key in fields["keys"] for each in seen[2].failures)


def _begins_so(incident: Incident, fields: Fields) -> bool:
    return any(each.since_pipeline in many(fields["since"]) for each in incident.failures)


def _is_red(failure: BranchFailure) -> bool:
    return not failure.until_pipeline and failure.ended_by not in (GONE, NOBODY)


def _list_rows(rows: list[Any]) -> Iterator[tuple[int, str]]:
    for row in rows:
        who, _, name = str(row).rpartition(".")
        yield from ((iid, name) for iid in list_numbers(who))
