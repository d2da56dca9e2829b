"""The text of an incident's own issue: what is red since when, by what, whom it hits, how it ended.
Pure.

Names, titles and numbers of merge requests stand in code: so they notify nobody, and no merge
request gets a line "mentioned in issue" whenever the text is edited. Pipelines are linked.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from worker.incidents.explain import blames_unproven, count_runs
from worker.incidents.record import (
    GONE,
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    Landing,
    RequestRecord,
)
from worker.incidents.sightings import SILENT_TEXT, is_silent
from worker.safety.markdown import Kind, Marker, write_code_line
from worker.safety.neutralise import is_link_allowed, neutralise_line
from worker.safety.sentences import before_code
from worker.safety.untrusted import one_line

_MOST_ERRORS, _MOST_LANDINGS, _MOST_SPELLS, _MOST_REQUESTS, _MOST_OWNERS = 4, 6, 2, 20, 8
_MAX_NAME, _MAX_LINE, _MAX_CAUSE = 80, 200, 600

_FOOT = (
    "<sub>Sandpiper keeps this text up to date and closes the issue when the branch is green "
    "again: write below it, not into it.</sub>"
)


@dataclass(frozen=True, slots=True)
class IssueScene:
    """What an issue is written for besides the record: the `requests` into the branch, the `owners`
    of what the error names, the places that links may lead to, and what removes secrets."""

    requests: Sequence[RequestRecord]
    owners: Sequence[str]
    hosts: frozenset[str]
    redact: Callable[[str], str]


def make_issue_marker(record: BranchRecord, incident: Incident) -> Marker:
    """Return what the incident's issue is known by."""
    name = f"{record.project_id}/{record.branch}/{incident.incident_id}"
    return Marker(hashlib.sha256(name.encode()).hexdigest()[:20], kind=Kind.INCIDENT)


def write_issue_title(record: BranchRecord, incident: Incident) -> str:
    """Return the title of a new issue."""
    jobs = sorted({job for each in incident.failures for job in each.jobs})
    return f"{_name(record.branch)} is red: {_join(jobs, 2)}"


def write_issue_body(record: BranchRecord, incident: Incident, scene: IssueScene) -> str:
    """Return the text of the issue, which begins with its marker: at most 40 lines."""
    parts = [make_issue_marker(record, incident).text(), _write_head(record, incident, scene)]
    if incident.state is IncidentState.WITHDRAWN:
        return "\n\n".join([*parts, _FOOT])
    spells = _group_failures(incident)
    for failures in spells[:_MOST_SPELLS]:
        parts.append("\n".join(_write_spell(record, failures, scene, alone=len(spells) == 1)))
    if len(spells) > _MOST_SPELLS:
        parts.append(f"And {len(spells) - _MOST_SPELLS} more that came later.")
    parts += _write_finding(record, incident, scene)
    if told := list(_write_around(incident, scene)):
        parts.append("\n".join(told))
    return "\n\n".join([*parts, _FOOT])


# ------------------------------------------------------------------------------------- the head


def _write_head(record: BranchRecord, incident: Incident, scene: IssueScene) -> str:
    branch = _name(record.branch)
    red = [each for each in incident.failures if not each.until_pipeline] or [incident.first]
    first = min(red, key=lambda each: (each.since_at, each.since_pipeline, each.key))
    pipeline = _link_pipeline(first.since_pipeline, first.since_url, scene)
    since = f"{_tell_time(first.since_at)} ({pipeline})"
    if incident.state is IncidentState.WITHDRAWN and all(
        is_silent(each.key) for each in incident.failures
    ):
        return (
            f"**Taken back.** A job failed on {branch} at {since} without a known error: it was a "
            "flake, or its error is known by now, and told by another incident."
        )
    if incident.state is IncidentState.WITHDRAWN:
        return (
            f"**Taken back: it was a flake.** A job failed on {branch} at {since}, and the same "
            "commit has passed since."
        )
    last = max(incident.failures, key=lambda each: (each.until_at, each.until_pipeline))
    if incident.is_open or not last.until_at:
        over = "" if incident.is_open else " It is over."
        return f"**{branch} is red** since {since}.{over}"
    until = f"{_tell_time(last.until_at)}"
    if last.until_pipeline:
        until += f" ({_link_pipeline(last.until_pipeline, last.until_url, scene)})"
    if all(each.ended_by == GONE for each in incident.failures):
        return f"**What failed on {branch} is gone**: red from {since} to {until}."
    return f"**{branch} is green again** since {until}; it was red from {since} on."


def _group_failures(incident: Incident) -> list[list[BranchFailure]]:
    """Return the failures by their beginning, suspect and end, the first ones first."""
    groups: dict[tuple[int, str, int, str], list[BranchFailure]] = {}
    for each in sorted(
        incident.failures, key=lambda each: (each.since_at, each.since_pipeline, each.key)
    ):
        groups.setdefault(
            (each.since_pipeline, each.suspect, each.until_pipeline, each.ended_by), []
        ).append(each)
    return list(groups.values())


# ------------------------------------------------------------------------------------ one spell


def _write_spell(
    record: BranchRecord, failures: Sequence[BranchFailure], scene: IssueScene, *, alone: bool
) -> Iterator[str]:
    """Yield the lines of a list on failures that began and ended together."""
    first = failures[0]
    if not alone:
        pipeline = _link_pipeline(first.since_pipeline, first.since_url, scene)
        yield f"Since {_tell_time(first.since_at)} ({pipeline}):"
    shown = failures[: _MOST_ERRORS if alone else 2]
    for each in shown:
        text = write_code_line(one_line(scene.redact(each.text), _MAX_LINE)) or "no error text"
        text = SILENT_TEXT if is_silent(each.key) else text
        yield f"- In {_join(each.jobs[:3])}: {text}"
    if len(failures) > len(shown):
        yield f"- and {len(failures) - len(shown)} more"
    yield from _write_cause(record, first, scene, most=_MOST_LANDINGS if alone else 2)
    if not alone and first.until_pipeline:
        pipeline = _link_pipeline(first.until_pipeline, first.until_url, scene)
        yield f"- Green again since {_tell_time(first.until_at)} ({pipeline})"
    if mender := _find_landing(record, first.ended_by):
        yield f"- Mended by {_write_landing(mender, scene)}"
    elif first.ended_by == NOBODY:
        yield "- It passed again without a change of the code"


def _write_cause(
    record: BranchRecord, failure: BranchFailure, scene: IssueScene, most: int
) -> Iterator[str]:
    """Yield who broke it if that is proven, else what lies between pass and failure."""
    if suspect := _find_landing(record, failure.suspect):
        yield f"- Broken by {_write_landing(suspect, scene)}"
        return
    if not failure.green_sha:
        yield "- No earlier pass of it is known"
        return
    between = [each for each in (_find_landing(record, sha) for sha in failure.landings) if each]
    green = write_code_line(failure.green_sha[:8])
    if not failure.landings:
        yield f"- Nothing landed since its last pass, on {green}"
        return
    landed = _count(len(failure.landings), "change")
    yield f"- Who broke it is not proven. {landed} landed since its last pass, on {green}:"
    shown = between[-most:]
    yield from (f"  - {_write_landing(each, scene)}" for each in shown)
    if more := len(failure.landings) - len(shown):
        yield f"  - and {more} more"


def _find_landing(record: BranchRecord, sha: str) -> Landing | None:
    return next((each for each in record.landings if sha and each.sha == sha), None)


def _write_landing(landing: Landing, scene: IssueScene) -> str:
    number = f"`!{landing.mr_iid}`, " if landing.mr_iid else ""
    title = write_code_line(one_line(scene.redact(landing.title), _MAX_NAME))
    author = write_code_line(one_line(scene.redact(landing.author), _MAX_NAME))
    by = f" by {author}" if author else ""
    return f"{number}{write_code_line(landing.sha[:8])}{by}{f': {title}' if title else ''}"


# ------------------------------------------------------------------------------------- the rest


def _write_finding(record: BranchRecord, incident: Incident, scene: IssueScene) -> Iterator[str]:
    for name, text in (("Cause", incident.cause), ("To do", incident.to_do)):
        said = one_line(before_code(scene.redact(text)), _MAX_CAUSE)
        line = neutralise_line(said, scene.hosts)
        if line and not blames_unproven(record, incident, text):
            yield f"**{name}:** {line}"


def _write_around(incident: Incident, scene: IssueScene) -> Iterator[str]:
    """Yield the lines of a list on owners, menders and those who are hit."""
    if scene.owners:
        yield f"- Owners of the code in question: {_join(scene.owners, _MOST_OWNERS)}"
    if incident.menders and incident.is_open:
        yield f"- Being mended in {_join([f'!{iid}' for iid in incident.menders])}"
    new = (each.mr_iid for each in scene.requests if incident.incident_id in each.told_incidents)
    told = sorted({*incident.told_requests, *new})
    if told:
        names = _join([f"!{iid}" for iid in told], _MOST_REQUESTS)
        yield f"- Hit: {_count(len(told), 'merge request')}: {names}"
    if ran := count_runs(incident.incident_id, scene.requests):
        yield f"- Jobs were run again for {_count(ran, 'merge request')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _join(names: Sequence[str], most: int = 3) -> str:
    shown = [_name(each) for each in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _name(text: str) -> str:
    return write_code_line(one_line(text, _MAX_NAME)) or "`?`"


def _link_pipeline(number: int, url: str, scene: IssueScene) -> str:
    text = f"pipeline {number}"
    return f"[{text}]({url})" if is_link_allowed(url, scene.hosts) else text


def _tell_time(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, OSError, ValueError):
        return "an unknown time"
