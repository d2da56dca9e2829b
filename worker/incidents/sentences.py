"""What a merge request's note says of a red branch, as Markdown. Pure.

It is a block of paragraphs at the top of the note: one for each incident, one on what helps. Each
begins with words that nothing else in a note begins with, so that the block is found in a posted
note and replaced (`replace_block`). Names and numbers stand in code: so they mention nobody and
leave no reference; a pipeline is linked where links may lead to.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from worker.incidents.explain import blames_unproven
from worker.incidents.record import (
    GONE,
    NOBODY,
    BranchFailure,
    BranchRecord,
    Incident,
    IncidentState,
    JobEnd,
    JobOutcome,
    PipelineKind,
    RequestRecord,
)
from worker.incidents.witnesses import is_one_of
from worker.safety.markdown import write_code_line
from worker.safety.neutralise import is_link_allowed, neutralise_line
from worker.safety.untrusted import one_line

_TOLD = (IncidentState.OPEN, IncidentState.CLOSED)
"""The states of the incidents that a note names."""

_MOST_JOBS, _MOST_MENDERS = 3, 2
_MAX_NAME, _MAX_CAUSE = 80, 300

_RED = "**Already failing on "
_GREEN = "**Green again:** "
_PARTLY = "**Partly green again:** "
_GONE = "**No longer on "
_WITHDRAWN = "**Not explained any more:** "
_TRAIN = "**Dropped from the merge train:** "
_CAUSE = "**What was found on "
_HELPS = "**What helps:** "
_OPENINGS = (
    *(f"{each}`" for each in (_RED, _GONE, _CAUSE)),  # a branch in code: no headline has one
    *(_GREEN, _PARTLY, _WITHDRAWN, _TRAIN, _HELPS),
)
"""How the paragraphs of a block begin."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a block is written for besides the record: `incidents` are those that it is about,
    `others` how many other merge requests they hit, `told_at` the time (epoch seconds), `hosts` the
    places that links may lead to. `is_whole`: the incidents explain all that failed, and nothing
    else was looked into."""

    incidents: Sequence[Incident]
    others: int
    told_at: float
    hosts: frozenset[str]
    is_whole: bool = True
    is_alone: bool = False
    """Whether they explained all that failed until now, and do not do that any more."""


def write_block(record: BranchRecord, request: RequestRecord, scene: Scene) -> str:
    """Return the paragraphs that hold now, "" if there is nothing to say."""
    named = dict.fromkeys(_find_newer(record, request, each) for each in scene.incidents)
    scene = replace(scene, incidents=tuple(named))
    told = [_write_incident(record, request, each, scene) for each in named]
    lines = [line for paragraphs in told for line in paragraphs]
    if lines:
        lines.append(_HELPS + _advise(record, request, scene))
    elif scene.is_whole and (why := _tell_end(record, request, scene)):
        again = "Run the failed jobs again"
        if request.kind is PipelineKind.MERGE_TRAIN:
            again = "Add this merge request to the merge train again"
        lines = [
            f"{_WITHDRAWN}{why}",
            f"{_HELPS}{again}, or write `/sandpiper analyze` to have it looked into here.",
        ]
    return "\n\n".join(lines)


def _tell_end(record: BranchRecord, request: RequestRecord, scene: Scene) -> str:
    """Return why nothing explains a failure any more, "" if that is not known."""
    branch, told = _name(record.branch), request.told_incidents
    if any(e.state is IncidentState.WITHDRAWN and e.incident_id in told for e in record.incidents):
        return f"the failure on {branch} was a flake: the same commit has passed since."
    newer = f"as newer pipelines of {branch} show, this is not what fails there."
    return newer if scene.is_alone else ""


def _find_newer(record: BranchRecord, request: RequestRecord, incident: Incident) -> Incident:
    """Return the open incident by which the same jobs are red again, the incident itself if there
    is none."""
    if incident.state is not IncidentState.CLOSED:
        return incident
    jobs = {job for each in find_failures(incident, request) for job in each.jobs}
    red_again = (
        other
        for other in record.open_incidents
        if any(not jobs.isdisjoint(each.jobs) for each in filter(_is_red, other.failures))
    )
    return next(red_again, incident)


def find_failures(incident: Incident, request: RequestRecord) -> tuple[BranchFailure, ...]:
    """Return the failures of the incident that the merge request's jobs have; all of them if none
    is found by its job, as where a job was renamed since."""
    keys = {
        (job.name, key)
        for job in request.jobs
        if job.outcome is JobOutcome.FAILED
        for key in job.keys
    }
    found = tuple(
        each for each in incident.failures if any((job, each.key) in keys for job in each.jobs)
    )
    return found or incident.failures


# ------------------------------------------------------------------------------------ the lines


def _write_incident(
    record: BranchRecord, request: RequestRecord, incident: Incident, scene: Scene
) -> list[str]:
    """Return the paragraphs on one incident: none for one of which nobody is told."""
    if incident.state not in _TOLD:
        return []
    ours = find_failures(incident, request)
    red = tuple(filter(_is_red, ours))
    branch = _name(record.branch)
    if not red:
        return _write_end(record, request, incident, scene)
    since = min(red, key=lambda each: (each.since_at, each.since_pipeline))
    facts = [_link(f"pipeline {since.since_pipeline}", since.since_url, scene.hosts)]
    if suspect := _name_landing(record, since.suspect):
        facts.append(f"broken by {suspect}")
    line = (
        f"{_RED}{branch}** since {_tell_time(since.since_at, scene.told_at)} ({', '.join(facts)})"
    )
    jobs = _list_names(_list_jobs(request, red))
    line += f": {jobs}" if jobs else ""
    if green := tuple(each for each in ours if each.until_pipeline):
        line += f"; {_tell_green(request, green, scene)}"
    parts = [_count_others(scene.others)] if scene.others > 0 else []
    menders = [f"`!{iid}`" for iid in incident.menders if iid != request.mr_iid][:_MOST_MENDERS]
    if menders:
        parts.append(f"being mended in {' and '.join(menders)}")
    paragraphs = ["; ".join([line, *parts]) + "."]
    cause = neutralise_line(one_line(incident.cause, _MAX_CAUSE), scene.hosts)
    if cause and not blames_unproven(record, incident, incident.cause):
        paragraphs.append(f"{_CAUSE}{branch}:** {cause}")
    return paragraphs


def _write_end(
    record: BranchRecord, request: RequestRecord, incident: Incident, scene: Scene
) -> list[str]:
    """Return the paragraph on failures of which none is left. Jobs that are red besides are named
    if the merge request has them, too."""
    branch, ours = _name(record.branch), find_failures(incident, request)
    last = max(ours, key=lambda each: (each.until_at, each.until_pipeline))
    when = f" since {_tell_time(last.until_at, scene.told_at)}" if last.until_at else ""
    facts = (
        [_link(f"pipeline {last.until_pipeline}", last.until_url, scene.hosts)]
        if last.until_pipeline
        else []
    )
    if all(each.ended_by == GONE for each in ours):
        jobs = _list_names(sorted({job for each in ours for job in each.jobs}))
        where = f" ({facts[0]})" if facts else ""
        return [f"{_GONE}{branch}:** {jobs or 'what failed there'}{when}{where}."]
    if mender := _name_landing(record, last.ended_by):
        facts.append(f"mended by {mender}")
    where = f" ({', '.join(facts)})" if facts else ""
    open_ones = [incident, *record.open_incidents]
    red = {job for one in open_ones for each in one.failures if _is_red(each) for job in each.jobs}
    left = sorted(name for name in red if is_one_of(name, (job.name for job in request.jobs)))
    if not red and all(each.until_at <= last.until_at for each in incident.failures):
        return [f"{_GREEN}{branch}{when}{where}."]
    jobs = _list_names(sorted({job for each in ours for job in each.jobs}))
    if not left:
        return [f"{_GREEN}{jobs} on {branch}{when}{where}."]
    not_yet = f"{_list_names(left)} {'is' if len(left) == 1 else 'are'} not yet"
    return [f"{_PARTLY}{jobs} on {branch}{when}{where}; {not_yet}."]


def _is_red(failure: BranchFailure) -> bool:
    return not failure.until_pipeline and failure.ended_by != GONE


def _tell_green(request: RequestRecord, green: Sequence[BranchFailure], scene: Scene) -> str:
    """Return which of the merge request's jobs are green again while others are not."""
    last = max(green, key=lambda each: (each.until_at, each.until_pipeline))
    jobs = _list_jobs(request, green)
    is_are = "is" if len(jobs) == 1 else "are"
    where = _link(f"pipeline {last.until_pipeline}", last.until_url, scene.hosts)
    when = _tell_time(last.until_at, scene.told_at)
    return f"{_list_names(jobs)} {is_are} green again since {when} ({where})"


def _advise(record: BranchRecord, request: RequestRecord, scene: Scene) -> str:
    """Return what to do. GitLab's retry takes the same commit, so where code mended the branch it
    can only fail again."""
    branch = _name(record.branch)
    told = [each for each in scene.incidents if each.state in _TOLD]
    ours = [one for each in told for one in find_failures(each, request)]
    if any(map(_is_red, ours)):
        what = "Nothing to do here" + ("" if scene.is_whole else " for that part")
        then = ", and whether to rebase or to run the jobs again"
        if request.kind is PipelineKind.MERGE_TRAIN:
            then = ": then add this merge request to the merge train again"
        return f"{what}. This note will say when {branch} is green again{then}."
    if request.kind is PipelineKind.MERGE_TRAIN:
        return "Add this merge request to the merge train again."
    jobs = _list_names(_list_jobs(request, ours)) or "the failed jobs"
    if all(each.ended_by == NOBODY for each in ours):
        return f"Run {jobs} again: {branch} passed without a change of the code, so this may, too."
    what_for = "" if scene.is_whole else f" for {jobs}"
    if request.kind is PipelineKind.MERGED_RESULT:
        return (
            f"Run a new pipeline{what_for}, which takes {branch} as it is now; a retry runs the "
            "old merge and fails again."
        )
    return f"Rebase onto {branch}{what_for}; a retry runs the same commit and fails again."


# ----------------------------------------------------------------------------------- merge trains


def write_train(
    request: RequestRecord,
    breaker: int,
    with_iids: Sequence[int] = (),
    failed: str = "",
    passed: str = "",
    *,
    whole: bool = True,
) -> str:
    """Return the paragraphs on a merge request that was dropped from its train.

    `breaker` is the merge request that broke it, perhaps this one; `with_iids` those together with
    which alone it fails. `failed` and `passed` are the two pipelines that show it, as Markdown. It
    explains the `whole` failure, or a part of it.
    """
    together = " and ".join(f"`!{iid}`" for iid in with_iids[:_MOST_MENDERS])
    with_them = f", together with {together}" if together else ""
    shown = f" ({failed})" if failed else ""
    is_first = (*request.cars, request.mr_iid)[0] == breaker
    front = "the branch without it" if is_first else "what was in front of it"
    front += " does not fail like this" + (f" ({passed})" if passed else "")
    if breaker == request.mr_iid:
        return f"{_TRAIN}this change broke it{with_them}: its pipeline failed{shown}, and {front}."
    then = ": add this merge request to the merge train again" if whole else " for that part"
    return "\n\n".join(
        (
            f"{_TRAIN}`!{breaker}` broke it{with_them}: its pipeline was the first that failed"
            f"{shown}, {front}, and this one had that change in it.",
            f"{_HELPS}Nothing to change here{then}.",
        )
    )


# -------------------------------------------------------------------------- the block in a note

_FOLD = "<details>"
_COUNT = re.compile(r"; \d+ other merge requests? (?:is|are) hit")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d (?=\d\d:\d\d UTC)")


def find_block(body: str) -> str:
    """Return the block in a note's body, "" if it has none."""
    return "\n\n".join(each for each in _split(body)[0] if each.startswith(_OPENINGS))


def replace_block(body: str, block: str) -> str:
    """Return a note's body with `block` in the place of the one that it has, at its top if it has
    none; without a block if it is "". The marker stays first."""
    paragraphs, rest = _split(body)
    places = [at for at, each in enumerate(paragraphs) if each.startswith(_OPENINGS)]
    place = places[0] if places else 1
    kept = [each for at, each in enumerate(paragraphs) if at not in places]
    kept[place:place] = [block] if block else []
    return "\n\n".join(kept) + rest


def says_the_same(block: str, other: str) -> bool:
    """Whether two blocks differ at most in how many merge requests they count, and in whether a day
    is named: a note is not edited for that."""
    return _strip_count(block) == _strip_count(other)


def _strip_count(block: str) -> str:
    return _DATE.sub("", _COUNT.sub("", block))


def _split(body: str) -> tuple[list[str], str]:
    """Return the paragraphs above the first fold, and the rest of the body."""
    head, fold, rest = body.partition(f"\n\n{_FOLD}")
    return re.split(r"\n{2,}", head), f"{fold}{rest}"


# ---------------------------------------------------------------------------------------- words


def _list_jobs(request: RequestRecord, failures: Sequence[BranchFailure]) -> list[str]:
    """Return the merge request's jobs that have the failures; the branch's, if it has none."""
    keys = {each.key for each in failures}
    names = {job for each in failures for job in each.jobs}

    def has(job: JobEnd) -> bool:
        return job.outcome is JobOutcome.FAILED and bool(job.keys & keys)

    own = [job.name for job in request.jobs if has(job) and job.name in names]
    return list(dict.fromkeys(own)) or sorted(names)


def _list_names(names: Sequence[str]) -> str:
    shown = [_name(each) for each in names[:_MOST_JOBS]]
    more = len(names) - len(shown)
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _name(text: str) -> str:
    return write_code_line(one_line(text, _MAX_NAME))


def _name_landing(record: BranchRecord, sha: str) -> str:
    """Return a landing's merge request, or its commit; "" if it is none that the record has."""
    landing = next((each for each in record.landings if sha and each.sha == sha), None)
    if landing is None:
        return ""
    return f"`!{landing.mr_iid}`" if landing.mr_iid else write_code_line(landing.sha[:8])


def _count_others(others: int) -> str:
    return f"{others} other merge request{'s are' if others > 1 else ' is'} hit"


def _link(text: str, url: str, hosts: frozenset[str]) -> str:
    return f"[{text}]({url})" if is_link_allowed(url, hosts) else text


def _tell_time(at: float, now: float) -> str:
    """Return the time of day by UTC, with the date unless it is today's."""
    try:
        then, today = (datetime.fromtimestamp(each, UTC) for each in (at, now))
    except (OverflowError, OSError, ValueError):
        return "an unknown time"
    return f"{then:%H:%M} UTC" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M} UTC"
