"""A watched branch as GitLab shows it now: its newest pipelines.

Level-triggered: nothing here depends on which event has led to it. What has ended and was not
changed since it was read is not read again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.job_ends import JobEndReader, get_end_time
from worker.gitlab.read.landings import LandingReader
from worker.gitlab.read.usual_errors import drop_usual_errors
from worker.incidents.record import (
    MOST_PIPELINES,
    BranchPipeline,
    BranchRecord,
    JobEnd,
    JobOutcome,
)
from worker.incidents.sightings import has_known_error
from worker.incidents.watched import is_of_branch
from worker.safety.untrusted import one_line
from worker.verdict.facts import parse_time

LISTED = 40
"""Pipelines of a branch that are listed, the newest."""

MOST_READ = 20
"""Pipelines whose jobs are read at a time: two requests for each, and its failed jobs' logs."""

LEAST_READ = 6
"""How many are read of a branch that was not looked at before, if no job fails."""

ENDED = frozenset({"success", "failed", "canceled", "skipped", "manual", "scheduled"})
"""What has ended, or goes on only when somebody or a clock says so."""

_LONGEST_URL = 500


@dataclass(frozen=True, slots=True)
class BranchReader:
    """Reads one watched branch. `redact` takes the secrets out of a text."""

    client: ReadClient
    redact: Callable[[str], str]

    def read(self, record: BranchRecord, *, only_news: bool = False) -> BranchRecord:
        """Return the record with the branch's newest pipelines that have ended, and its landings.

        Only sources count that are the branch's (see `is_of_branch`); child pipelines are part of
        their parents. Raises SourceError: what was read until then is lost, so that no half of a
        pipeline is taken for the whole. For `only_news`, the landings stay as they are unless a
        pipeline has ended.
        """
        pipelines = self._read_pipelines(record)
        if only_news and pipelines == record.pipelines:
            return record
        record = replace(record, pipelines=pipelines)
        landings = LandingReader(self.client, record.project_id, record.branch, self.redact)
        return replace(record, landings=landings.read(record))

    def _read_pipelines(self, record: BranchRecord) -> tuple[BranchPipeline, ...]:
        path, what = f"/projects/{record.project_id}", f"the pipelines of {record.branch}"
        listed = self.client.list_branch_pipelines(path, record.branch, what, LISTED).items
        known = {each.pipeline_id: each for each in record.pipelines}
        ends = {job.job_id: job for each in record.pipelines for job in each.jobs if job.job_id}
        jobs = JobEndReader(self.client, record.project_id, self.redact, ends, record.project)
        found, new = dict(known), list[int]()
        for each in listed:
            before = known.get(each.id)
            if each.status not in ENDED or not is_of_branch(each.source):
                continue
            if before and each.updated_at and before.updated_at == each.updated_at:
                continue
            if len(new) >= MOST_READ or (
                not before and not known and _reaches_back(found, len(new))
            ):
                break
            found[each.id] = _make_pipeline(each, *jobs.read(each.id))
            new.append(each.id)
        seen = [number for number, job in ends.items() if has_known_error(job)]
        found = drop_usual_errors(found, new, seen, record.project_id, self.client, self.redact)
        return tuple(found[number] for number in sorted(found))[-MOST_PIPELINES:]


def _reaches_back(found: dict[int, BranchPipeline], read: int) -> bool:
    """Whether the pipelines of a new record reach back to a pass of every job that fails."""
    if read < LEAST_READ:
        return False
    ends = [job for each in found.values() for job in each.jobs]
    passed = {each.name for each in ends if each.outcome is JobOutcome.PASSED}
    return all(each.name in passed for each in ends if each.outcome is JobOutcome.FAILED)


def _make_pipeline(
    listed: wire.Pipeline, jobs: Sequence[JobEnd], is_settled: bool
) -> BranchPipeline:
    """Return the pipeline; one that is not settled is read again the next time."""
    created = parse_time(listed.created_at or "") or 0.0
    ended = get_end_time(jobs) or parse_time(listed.updated_at or "") or created
    return BranchPipeline(
        pipeline_id=listed.id,
        sha=listed.sha,
        source=one_line(listed.source, 40),
        created_at=created,
        ended_at=max(ended, created),
        jobs=tuple(jobs),
        url=one_line(listed.web_url, _LONGEST_URL),
        updated_at=one_line(listed.updated_at or "", 40) if is_settled else "",
    )


def explain_end(client: ReadClient, project_id: int, branch: str) -> str:
    """Say why nothing more is to be expected of a branch (it, or its project, is gone or archived),
    or "". Raises SourceError."""
    try:
        project = client.one(f"/projects/{project_id}", wire.Project, f"project {project_id}")
        if project.is_archived:
            return f"project {project.path_with_namespace} is archived"
        path = f"/projects/{project_id}/repository/branches/{quote(branch, safe='')}"
        client.one(path, wire.Branch, f"branch {branch}")
    except NotFound as error:
        return str(error)
    return ""
