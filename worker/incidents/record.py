"""What is known of a watched branch and of the merge requests into it, as it is stored. Pure.

incidents/{project_id}/{branch}.json            a BranchRecord; `branch` is `name_branch`'s
incidents/{project_id}/{branch}/{mr_iid}.json   a RequestRecord: a merge request's newest failure

One object holds all that is known of a branch, so that one conditional write decides between two
workers: there is one incident for a failure, whichever of them was first.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from worker.safety.untrusted import one_line

SCHEMA = 1
MOST_LANDINGS, MOST_PIPELINES, MOST_INCIDENTS = 100, 60, 50
"""The most that is kept of a branch: the newest."""

NOBODY, GONE = "none", "gone"
"""Values of `BranchFailure.ended_by`: it passed again without a commit; or its job, the branch or
the project is no more."""


@dataclass(frozen=True, slots=True)
class Landing:
    """A commit that became the newest one of the branch, with all that was merged by it."""

    sha: str
    landed_at: float
    """Epoch seconds."""
    title: str = ""
    author: str = ""
    mr_iid: int = 0
    """The merge request that it brought; 0 for none, or if that is not known."""
    mr_sha: str = ""
    """That merge request's last commit, "" if not known."""
    files: tuple[str, ...] | None = None
    """The paths that it changed; None if not known."""
    reverts: tuple[str, ...] = ()
    """The commits, and the merge requests as `!12`, that its message says it reverts."""
    commits: tuple[str, ...] = ()
    """The other commits that landed with it by the first parents, the newest first: the branch was
    only moved forward."""


class JobOutcome(StrEnum):
    """How a job ended, as far as it tells something of the branch."""

    PASSED = "passed"
    FAILED = "failed"
    NO_RESULT = "none"
    """Cancelled, skipped, not played, or failed because of its runner."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """One attempt of a job that may not fail. Jobs that may fail and manual ones are left out."""

    name: str
    job_id: int
    outcome: JobOutcome
    ended_at: float = 0.0
    """Epoch seconds; 0 if not known."""
    errors: tuple[tuple[str, str], ...] = ()
    """Every decisive error of a failed job: its key and the line, redacted (`errors.list_errors`).
    Empty if the log shows none or could not be read: then nothing explains the failure. On the
    branch that is an error of its own kind (`sightings.make_silent_error`)."""
    url: str = ""
    deploys: bool = False
    """Whether it has an environment."""
    is_timeout: bool = False
    """Whether its time limit ended it: what other projects show as well is nobody's landing."""
    started_at: float = 0.0
    """Epoch seconds; 0 if not known. GitLab's own `retry:` begins at once."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of its errors."""
        return frozenset(key for key, _ in self.errors)


@dataclass(frozen=True, slots=True)
class BranchPipeline:
    """A pipeline of the branch that has ended, with every attempt of its jobs."""

    pipeline_id: int
    sha: str
    source: str
    created_at: float
    ended_at: float
    jobs: tuple[JobEnd, ...]
    url: str = ""
    updated_at: str = ""
    """GitLab's own text: another one says that jobs have run again since they were read."""


class IncidentState(StrEnum):
    """What an incident is at."""

    SUSPECTED = "suspected"
    """Seen once, without a landing that explains it: nobody is told."""
    OPEN = "open"
    CLOSED = "closed"
    WITHDRAWN = "withdrawn"
    """It was a flake: never told, or taken back."""


OVER = (IncidentState.CLOSED, IncidentState.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class BranchFailure:
    """One error of a branch, by its key, from its first red pipeline until it was green again."""

    key: str
    text: str
    jobs: tuple[str, ...]
    """The jobs that fail so, also under a name that a job has no more."""
    since_pipeline: int
    """The first pipeline that failed so after the last pass."""
    since_at: float
    """When that pipeline ended (epoch seconds)."""
    since_url: str = ""
    since_sha: str = ""
    green_sha: str = ""
    """The commit of the last pass before, "" if the job has never passed."""
    green_pipeline: int = 0
    landings: tuple[str, ...] = ()
    """What lies between the last pass and the first failure, the oldest first."""
    suspect: str = ""
    """The landing that is proven to have broken it, "" if none is."""
    until_pipeline: int = 0
    """The pipeline in which it was green again, 0 while it is red."""
    until_at: float = 0.0
    until_url: str = ""
    ended_by: str = ""
    """The landing that mended it, NOBODY or GONE; "" while it is red, and where several landings
    lie before the pass and none of them is proven to be it."""
    witnesses: tuple["RequestRecord", ...] = ()
    """Runs of members' merge requests that failed alike: what they prove stays proven when those
    have moved on. Of their jobs only the one that failed so is kept."""


@dataclass(frozen=True, slots=True)
class Incident:
    """The failures of a branch that turned red in one pipeline."""

    incident_id: str
    """Its name within the project, made of the branch and the pipeline that was first seen."""
    state: IncidentState
    failures: tuple[BranchFailure, ...]
    opened_at: float = 0.0
    """When it was opened, by our clock (epoch seconds); 0 if it never was."""
    closed_at: float = 0.0
    hits: tuple[int, ...] = ()
    """The merge requests that it hit, by the newest judgement."""
    menders: tuple[int, ...] = ()
    """Open merge requests that contain the red commit and pass its jobs."""
    healers: tuple[int, ...] = ()
    """The same, with those that are merged or closed: a run that has one of them in front in its
    train fails by itself."""
    session_id: str = ""
    """The session that has looked into it, "" while none has."""
    cause: str = ""
    to_do: str = ""
    verdict: str = ""
    issue_iid: int = 0
    told_requests: tuple[int, ...] = ()
    """The merge requests that were told of it, also those that are over (see `add_told`)."""
    short: tuple[int, ...] = ()
    """Those of them whose notes were written without a model."""
    seconds: float = 0.0
    """How long its session took, 0 if that is not known."""

    @property
    def first(self) -> BranchFailure:
        """The failure that began it."""
        return min(self.failures, key=lambda each: (each.since_at, each.since_pipeline, each.key))

    @property
    def is_open(self) -> bool:
        """Whether people are told that the branch is red."""
        return self.state is IncidentState.OPEN


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """All that is known of one watched branch."""

    project_id: int
    project: str
    branch: str
    landings: tuple[Landing, ...] = ()
    """The oldest first."""
    pipelines: tuple[BranchPipeline, ...] = ()
    """In the order of their ids."""
    incidents: tuple[Incident, ...] = ()
    """In the order in which they were first seen."""
    gone_at: float = 0.0
    """When the branch or its project was found to be deleted or archived; 0 while it is there."""
    waiting_cars: tuple[int, ...] = ()
    """The merge requests that failed in a merge train, and of which a run in front, or the branch's
    own, may still tell who broke it."""
    schema: int = SCHEMA

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        """The incidents of which people are told that the branch is red."""
        return tuple(each for each in self.incidents if each.is_open)

    def join(self, other: "BranchRecord") -> "BranchRecord":
        """Return what both have observed, with the incidents of `other`.

        Of a pipeline, that is the newer of two looks; landings are in the order of the branch, in
        which the two records overlap or follow each other.
        """
        newer = {each.pipeline_id: each for each in other.pipelines}
        for each in self.pipelines:
            known = newer.get(each.pipeline_id)
            if known is None or (each.updated_at, len(each.jobs)) >= (
                known.updated_at,
                len(known.jobs),
            ):
                newer[each.pipeline_id] = each
        pipelines = sorted(newer.values(), key=lambda each: each.pipeline_id)
        first, then = _put_newer_last(other.landings, self.landings)
        known_shas = {each.sha for each in then}
        older = tuple(each for each in first if each.sha not in known_shas)
        return replace(
            self,
            project=self.project or other.project,
            landings=(*older, *then)[-MOST_LANDINGS:],
            pipelines=tuple(pipelines[-MOST_PIPELINES:]),
            incidents=other.incidents,
            waiting_cars=other.waiting_cars,
        )

    def put(self, incident: Incident) -> "BranchRecord":
        """Return the record with `incident` in the place of the one with its id."""
        found = tuple(
            incident if each.incident_id == incident.incident_id else each
            for each in self.incidents
        )
        return replace(self, incidents=found if incident in found else (*found, incident))

    def add_told(self, requests: "Sequence[RequestRecord]") -> "BranchRecord":
        """Return the record whose incidents know which merge requests were told of them; it stays
        known when their newest pipelines are others."""
        found = self
        for each in self.incidents:
            new = [request for request in requests if each.incident_id in request.told_incidents]
            told = {*each.told_requests, *(request.mr_iid for request in new)}
            short = {*each.short, *(request.mr_iid for request in new if request.is_short)}
            found = found.put(
                replace(each, told_requests=tuple(sorted(told)), short=tuple(sorted(short)))
            )
        return found


def _put_newer_last(
    ours: Sequence[Landing], theirs: Sequence[Landing]
) -> Sequence[Sequence[Landing]]:
    """Return two looks at a branch in the order of time: the newer one goes on after the newest
    landing of the other. Times decide if neither does: they are whatever somebody's clock said."""
    for first, then in ((ours, theirs), (theirs, ours)):
        if not first or any(each.sha == first[-1].sha for each in then):
            return first, then
    return sorted((ours, theirs), key=lambda each: each[-1].landed_at)


class PipelineKind(StrEnum):
    """What a merge request's pipeline ran on; GitLab's words."""

    DETACHED = "detached"
    MERGED_RESULT = "merged_result"
    MERGE_TRAIN = "merge_train"


class TrainCause(StrEnum):
    """Why a car of a merge train has failed."""

    OWN = "own"
    CAR = "car"
    """Another car that is in front of it."""
    BRANCH = "branch"
    """The branch was red under the train."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TrainBreak:
    """Why a car has failed, with each of its errors (job and key)."""

    cause: TrainCause = TrainCause.UNKNOWN
    car: int = 0
    """The merge request that broke the train, its own one too; 0 if no car did, or if that is not
    known."""
    together_with: int = 0
    """The only car in front without which it passes: alone neither of them fails."""
    explained_errors: tuple[tuple[str, str], ...] = ()
    """The errors that `car` brought, or the branch."""
    own: tuple[tuple[str, str], ...] = ()
    """The others: no run without its own change shows them, or that is not known."""
    red_pipeline: int = 0
    """The first pipeline that fails so, 0 if no car broke the train."""
    green_pipeline: int = 0
    """The pipeline of what is in front of that car, which does not."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The newest pipeline of a merge request into a watched branch, and what its note was told."""

    mr_iid: int
    pipeline_id: int
    ended_at: float
    kind: PipelineKind = PipelineKind.DETACHED
    base: str = ""
    """The newest commit of the target branch that the run contained, "" if not known."""
    contains: tuple[str, ...] = ()
    """The merge request's own commits, the newest first: by them it is seen to be stacked."""
    reverts: tuple[str, ...] = ()
    """What the messages of its own commits say they revert, as in `Landing.reverts`."""
    cars: tuple[int, ...] = ()
    """The merge requests in front of it in its train, the first one first."""
    jobs: tuple[JobEnd, ...] = ()
    """The newest attempts."""
    author: str = ""
    is_member: bool = False
    """Whether its author is a member of the project: strangers prove nothing and cost nothing."""
    is_over: bool = False
    """Whether it is merged or closed."""
    session_id: str = ""
    """Whose note says what failed, "" if there is none yet."""
    told_incidents: tuple[str, ...] = ()
    """The incidents that its note names, as `{incident_id}`."""
    told_text: str = ""
    """The lines that the note has of them, so that they are found and replaced."""
    is_short: bool = False
    """Whether these lines are all that its note says: no model was asked."""
    run_again: tuple[int, ...] = ()
    """The jobs that GitLab was asked to run again for it, each once, also where it has refused."""
    ran_for: tuple[tuple[int, str], ...] = ()
    """Those that have run, or may have, with the incident because of which."""
    train: TrainBreak | None = None
    """Who broke the merge train in which it failed, None while that is not known."""


_SAFE = re.compile(r"(?!.*(?:\.json|\.[0-9a-f]{12})$)[A-Za-z0-9._-]{1,50}")
"""No other branch's shortened name, and not the object of another branch with a folder's name."""


def name_branch(branch: str) -> str:
    """Return the part of an object's name that stands for a branch: `main` is `branch-main`; a name
    with other characters is shortened and gets a hash."""
    if _SAFE.fullmatch(branch):
        return f"branch-{branch}"
    digest = hashlib.sha256(branch.encode(errors="replace")).hexdigest()[:12]
    return f"branch-{re.sub(r'[^A-Za-z0-9._-]+', '-', one_line(branch, 40))[:40]}.{digest}"
