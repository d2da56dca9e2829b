"""How the jobs of a pipeline ended: every attempt of those that may not fail, with the errors of
the failed ones, and those of the child pipelines that it has started.

A job that may fail is left out, as is a manual one and whatever an allowed trigger job has started.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient, skip_refused
from worker.gitlab.read.pipeline_jobs import find_retried_ids
from worker.incidents.errors import read_errors
from worker.incidents.record import JobEnd, JobOutcome
from worker.incidents.sightings import has_known_error, make_silent_error
from worker.logs import trace
from worker.safety.untrusted import one_line
from worker.verdict.facts import BY_ITSELF, TIME_LIMITS, parse_time

MOST_LOGS = 30
"""The most logs of one pipeline that are read: first one of each family of jobs."""

MOST_CHILDREN, MOST_DEPTH = 8, 3
"""The most child pipelines of one pipeline whose jobs are read, and how far below it."""

JOB_PAGES = 20
"""Pages of 100 jobs; of more, the oldest attempts are not read."""

MAX_LOG = 8 * 1024 * 1024
"""Most bytes of a log; the errors of a longer one are not known."""

LATE = 1800.0
"""For how many seconds after a job's end an error that is not known may still become so."""

_AT_WORK = frozenset(
    {"pending", "preparing", "running", "waiting_for_resource", "waiting_for_callback", "canceling"}
)

_LONGEST_NAME, _LONGEST_URL = 1000, 500

_BY_CODE = BY_ITSELF | TIME_LIMITS
"""GitLab's reasons for a failure that may be the code's; any other is the runner's or GitLab's."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """A job as GitLab lists it."""

    pipeline_id: int
    job: wire.Job
    trigger_id: int = 0
    """The id of a trigger job of which no more is known than how it ended: it has no log."""

    @property
    def has_log(self) -> bool:
        """Whether it is a job that has a log."""
        return not self.trigger_id


@dataclass(slots=True)
class JobEndReader:
    """Reads the ends of the jobs of one project's pipelines.

    `ends` are those that were read before, by the job's id: their logs are not read again.
    `redact` takes the secrets out of a text. `project` is the project's path; without it, manual
    jobs are not told from others. With `by_any`, a job has failed by any reason: its runner's too,
    which has no error of its own.
    """

    client: ReadClient
    project_id: int
    redact: Callable[[str], str]
    ends: Mapping[int, JobEnd] = field(default_factory=dict[int, JobEnd])
    project: str = ""
    by_any: bool = False

    def read(self, pipeline_id: int) -> tuple[tuple[JobEnd, ...], bool]:
        """Return the ends of the pipeline's jobs in the order of their ids, and whether that is
        all there will be: no job is at work, as in a child pipeline that nobody waits for, and no
        log may be late. A failed job whose log was read, or cannot be, and that shows no error has
        `make_silent_error`'s. Raises SourceError."""
        listed = [*self._list_below(pipeline_id)]
        ends = self._describe(listed, with_errors=True, with_silence=True)
        unknown = [
            each for each in ends if each.outcome is JobOutcome.FAILED and not has_known_error(each)
        ]
        now = self.client.get_time() or 0.0
        late = any(each.job_id and now < each.ended_at + LATE for each in unknown)
        return ends, not late and all(each.job.status not in _AT_WORK for each in listed)

    def read_newest(
        self, pipeline_id: int, *, with_errors: bool
    ) -> tuple[tuple[JobEnd, ...], wire.Pipeline]:
        """Return the ends of the newest attempts, and the pipeline as its jobs name it."""
        listed = [*self._list_below(pipeline_id, newest=True)]
        ran = (each.job.pipeline for each in listed if each.job.pipeline)
        own = next((each for each in ran if each.id == pipeline_id), None)
        if own is None:
            path = f"/projects/{self.project_id}/pipelines/{pipeline_id}"
            own = self.client.one(path, wire.Pipeline, f"pipeline {pipeline_id}")
        return self._describe(listed, with_errors=with_errors), own

    def _describe(
        self, listed: Sequence[_Listed], *, with_errors: bool, with_silence: bool = False
    ) -> tuple[JobEnd, ...]:
        kept = [
            each for each in listed if not each.job.allow_failure and each.job.status != "manual"
        ]
        manual = self._find_manual(kept)
        kept = [each for each in kept if (each.trigger_id or each.job.id) not in manual]
        failed = [
            each for each in kept if each.has_log and find_outcome(each.job) is JobOutcome.FAILED
        ]
        errors = self._read_errors(failed) if with_errors else {}
        ends = [self._describe_one(each.job, errors.get(each.job.id, ())) for each in kept]
        if with_silence:
            # Of a trigger job there is no log; what was not read for its number says nothing.
            ends = [
                replace(each, errors=(make_silent_error(each.name),))
                if each.outcome is JobOutcome.FAILED
                and not each.errors
                and each.job_id in (0, *errors)
                else each
                for each in ends
            ]
        return tuple(sorted(ends, key=lambda each: (each.job_id, each.name)))

    def _list_below(
        self,
        pipeline_id: int,
        trail: tuple[str, ...] = (),
        *,
        newest: bool = False,
        allowed: bool = False,
    ) -> Iterator[_Listed]:
        """Yield the jobs of a pipeline and of the children that it has started."""
        path = f"/projects/{self.project_id}/pipelines/{pipeline_id}"
        what = f"the jobs of pipeline {pipeline_id}"
        # With the retried ones in any case: the survey asks the same, and is answered once.
        query = {"include_retried": "true"}
        found = self.client.many(f"{path}/jobs", wire.Job, what, query, JOB_PAGES)
        by = " > ".join(trail)
        retried = find_retried_ids(found.items) if newest else frozenset()
        for job in found.items:
            if job.id in retried:
                continue
            named = {"started_by": by, "allow_failure": job.allow_failure or allowed}
            yield _Listed(pipeline_id, job.model_copy(update=named))
        if len(trail) >= MOST_DEPTH:
            return
        what = f"the trigger jobs of pipeline {pipeline_id}"
        try:
            bridges = self.client.list_trigger_jobs(path, what)
        except NotFound:
            return
        for number, bridge in enumerate(bridges.items):
            child = bridge.downstream_pipeline
            is_own = child is not None and child.project_id in (0, self.project_id)
            may_fail = bridge.allow_failure or allowed
            if child is not None and is_own and number < MOST_CHILDREN:
                below = (*trail, bridge.name)
                yield from self._list_below(child.id, below, newest=newest, allowed=may_fail)
            elif bridge.status in ("success", "failed"):
                job = wire.Job(
                    id=0, name=bridge.name, status=bridge.status, allow_failure=may_fail,
                    failure_reason=bridge.failure_reason, started_by=by,
                )  # fmt: skip
                yield _Listed(pipeline_id, job, bridge.id or -1)

    def _find_manual(self, listed: Sequence[_Listed]) -> frozenset[int]:
        """Return the ids of the jobs that somebody has started by hand, of the pipelines in which a
        job has failed. Where GitLab does not tell, none is one."""
        pipelines = {
            each.pipeline_id for each in listed if find_outcome(each.job) is JobOutcome.FAILED
        }
        found: frozenset[int] = frozenset()
        for number in sorted(pipelines) if self.project else ():
            with skip_refused():
                found |= find_manual_jobs(self.client, self.project, number) or frozenset()
        return found

    def _describe_one(self, job: wire.Job, errors: tuple[tuple[str, str], ...]) -> JobEnd:
        return JobEnd(
            name=self.clean(str(job.ref)),
            job_id=job.id,
            outcome=find_outcome(job, by_any=self.by_any),
            ended_at=parse_time(job.finished_at or "") or 0.0,
            errors=errors,
            url=one_line(job.web_url, _LONGEST_URL),
            is_timeout=job.failure_reason in TIME_LIMITS,
            started_at=parse_time(job.started_at or "") or 0.0,
        )

    def clean(self, name: str) -> str:
        """Return a job's name on one line, without secrets."""
        return one_line(self.redact(name), _LONGEST_NAME)

    def _read_errors(self, failed: Sequence[_Listed]) -> dict[int, tuple[tuple[str, str], ...]]:
        """Read the errors of failed jobs, by their ids; () for those whose log shows none."""
        found = {
            each.job.id: before.errors
            for each in failed
            if (before := self.ends.get(each.job.id)) and has_known_error(before)
        }
        left = [each for each in failed if each.job.id not in found]
        for each in _put_families_first(left)[:MOST_LOGS]:
            found[each.job.id] = ()
            with skip_refused():
                found[each.job.id] = self._read_log(each)
        return found

    def _read_log(self, listed: _Listed) -> tuple[tuple[str, str], ...]:
        path = f"/projects/{self.project_id}/jobs/{listed.job.id}/trace"
        what = f"the log of job {listed.job.id}"
        raw = b"".join(self.client.stream(path, what, MAX_LOG))
        text = self.redact(trace.clean_trace(raw).decode("utf-8", "replace"))
        return read_errors(text.encode(), listed.job.failure_reason or "")


def find_outcome(job: wire.Job, *, by_any: bool = False) -> JobOutcome:
    """Return what a job's end tells of the code that it ran on; `by_any` reason, a runner's fault
    too, a job has failed."""
    if job.status == "success":
        return JobOutcome.PASSED
    if by_any and job.status == "failed":
        return JobOutcome.FAILED
    is_code = job.status == "failed" and (job.failure_reason or "") in _BY_CODE
    return JobOutcome.FAILED if is_code else JobOutcome.NO_RESULT


def _put_families_first(jobs: Iterable[_Listed]) -> list[_Listed]:
    """Return the newest job of each family, then the second of each, and so on."""
    seen: dict[tuple[str, str], int] = {}
    ranked = []
    for each in sorted(jobs, key=lambda each: -each.job.id):
        family = each.job.started_by, each.job.family
        seen[family] = seen.get(family, 0) + 1
        ranked.append((seen[family], each))
    return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]


def get_end_time(jobs: Collection[JobEnd]) -> float:
    """Return when the last of the jobs ended, 0.0 if that is not known."""
    return max((each.ended_at for each in jobs), default=0.0)


_MANUAL_JOBS = """
query($path: ID!, $pipeline: CiPipelineID!) {
  project(fullPath: $path) {
    pipeline(id: $pipeline) { jobs(first: 100, whenExecuted: ["manual"]) { nodes { id } } }
  }
}
"""


class _Job(wire.Answer):
    """A job by its global id, such as `gid://gitlab/Ci::Build/12`."""

    id: str | None = None


class _Jobs(wire.Answer):
    nodes: tuple[_Job, ...] = ()


class _Pipeline(wire.Answer):
    jobs: _Jobs | None = None


class _Project(wire.Answer):
    pipeline: _Pipeline | None = None


class _Found(wire.Answer):
    project: _Project | None = None


_DIGITS = 19
_MOST_MANUAL = 100
"""As many as the query asks for: with so many, there may be more."""


def find_manual_jobs(client: ReadClient, project: str, pipeline_id: int) -> frozenset[int] | None:
    """Return the ids of a pipeline's manual jobs, every attempt, of a project by its path: REST
    does not tell which these are. None if GitLab does not tell all. Raises SourceError."""
    variables = {"path": project, "pipeline": f"gid://gitlab/Ci::Pipeline/{pipeline_id}"}
    what = f"the manual jobs of pipeline {pipeline_id}"
    found = client.ask_graph(_MANUAL_JOBS, variables, _Found, what).project
    jobs = found.pipeline.jobs if found and found.pipeline else None
    if jobs is None or len(jobs.nodes) >= _MOST_MANUAL:
        return None
    ends = ((each.id or "").rpartition("/")[2] for each in jobs.nodes)
    return frozenset(int(end) for end in ends if end.isdecimal() and len(end) < _DIGITS)
