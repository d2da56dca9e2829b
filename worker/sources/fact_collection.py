"""Collects what GitLab shows about failing jobs, within its bounds in requests and logs."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from worker.core import logs
from worker.core.facts import Change, Facts, Run, Target, Unknown
from worker.core.kinds import changes_dependency, is_ci, is_docs
from worker.core.signature import errors
from worker.core.survey import Failing, Group
from worker.core.touches import MAX_TEXT, Changed, added_lines, definitions, touches
from worker.sources import wire
from worker.sources.around import OF_MR, Around
from worker.sources.client import Listing
from worker.sources.compared_pipelines import find_pipelines, known
from worker.sources.log import Log
from worker.sources.matrix import dimensions
from worker.sources.pipeline_jobs import all_jobs
from worker.sources.reader import Reader
from worker.sources.started import BEYOND, project_of, shown, started, trigger_of

LOGS = 8
"""Logs of other runs that are read."""

MAX_LOG = 8 * 1024 * 1024
"""Bytes of a log that is compared; of a larger one the error is not known."""

RETRIED = 2
"""Logs of other jobs of the pipeline that failed and then passed."""

NAMED = 3
"""Errors that a comparison names."""

COMPARED = 4096
"""Bytes of a log's excerpt that errors are taken from. Of every log in the same way: a survey's
excerpt is chosen with a green run beside it."""

_NOT_OWN = Unknown("it is too far below the pipeline, or its trigger jobs cannot be read")

T = TypeVar("T")
Diff = Listing[wire.DiffFile] | Unknown
"""The files that the merge request changes."""


class Collection:
    """One round of reading, many requests at a time. Needs groups that have jobs."""

    def __init__(
        self, reader: Reader, pool: ThreadPoolExecutor, failing: Sequence[Group], diff: Diff
    ) -> None:
        self._reader, self._pool, self._failing, self._diff = reader, pool, failing, diff
        self._listed: dict[int, wire.Job] = {}
        self._jobs: dict[int, Sequence[wire.Job] | Unknown] = {}
        self._behind: dict[int, Sequence[wire.Job] | Unknown] = {}
        self._errors: dict[int, frozenset[str]] = {}

    def facts(self) -> list[Facts]:
        """The facts, in the order of what fails."""
        near = find_pipelines(self._reader, self._pool)
        wanted = [near.own, *near.aside]
        for each in (near.attempts, near.target, near.earlier, near.elsewhere):
            wanted += () if isinstance(each, Unknown) else each
        pipelines = list({each.id: each for each in wanted}.values())
        read = self._pool.map(lambda each: known(lambda: self._jobs_of(each)), pipelines)
        self._jobs = {each.id: jobs for each, jobs in zip(pipelines, read, strict=True)}
        self._follow(near.own, [each for each in pipelines if each.id != near.own.id])
        self._listed = {job.id: job for job in self._all(near.own)}
        self._read_logs(near)
        return [self._told(each, near) for each in self._failing]

    def _follow(self, own: wire.Pipeline, others: Sequence[wire.Pipeline]) -> None:
        """Add the jobs behind the trigger jobs, where one of them fails here."""
        listed = self._jobs[own.id]
        foreign = self._ours() - {job.id for job in _items(listed)}
        if isinstance(listed, Unknown) or not foreign:
            return
        behind = _items(started(own, self._reader))
        triggers = {trigger_of(job) for job in behind if job.id in foreign}
        if not triggers:
            return
        more = self._pool.map(lambda each: started(each, self._reader, triggers), others)
        found = zip([own, *others], [behind, *more], strict=True)
        self._behind = {each.id: jobs for each, jobs in found}

    def _ours(self) -> set[int]:
        return {job.job_id for group in self._failing for job in group.jobs if job.job_id}

    def _jobs_of(self, pipeline: wire.Pipeline) -> Sequence[wire.Job]:
        path = f"/projects/{project_of(pipeline, self._reader)}/pipelines/{pipeline.id}"
        return all_jobs(path, pipeline.id, self._reader).items

    # ------------------------------------------------------------------------------------- logs

    def _read_logs(self, near: Around) -> None:
        """The errors of the runs that failed, in the order of what they can prove."""
        target = _items(near.target)
        based = [each for each in target if each.sha == near.base]
        order = [*_items(near.attempts), *target[:1], *based, *target, *_items(near.elsewhere)]
        retried = [failed for failed, _ in self._recovered(near.own)][:RETRIED]
        pipelines = list({each.id: each for each in order}.values())
        ours = self._ours()
        failed = {
            job.id: job.pipeline or pipeline
            for pipeline in pipelines
            for job in self._named(pipeline)
            if job.status == "failed" and job.id not in ours
        }
        failed |= {job.id: near.own for job in retried}
        chosen = list(islice(failed.items(), LOGS + len(retried)))
        read = self._pool.map(lambda each: known(lambda: self._errors_of(*each)), chosen)
        firsts = [job.job_id for job in (group.jobs[0] for group in self._failing) if job.read]
        own = self._pool.map(lambda each: known(lambda: self._own_errors(each)), firsts)
        for number, found in zip(
            [*(number for number, _ in chosen), *firsts], [*read, *own], strict=True
        ):
            self._errors[number] = frozenset() if isinstance(found, Unknown) else found

    def _recovered(self, own: wire.Pipeline) -> Iterator[tuple[wire.Job, wire.Job]]:
        """Of each other job of the pipeline that passed in the end, the last failure before."""
        names = set(map(self._name, self._failing))
        jobs = sorted(_items(self._jobs.get(own.id, ())), key=lambda job: job.id)
        newest = {job.name: job for job in jobs}
        failed = {job.name: job for job in jobs if job.status == "failed"}
        for name, passed in newest.items():
            if passed.status == "success" and name in failed and name not in names:
                yield failed[name], passed

    def _own_errors(self, job_id: int) -> frozenset[str]:
        """What a job fails with here; its log was read for the survey."""
        if job_id not in self._listed:
            return frozenset()
        spool = self._reader.logs.log(job_id).spool
        if spool.size > MAX_LOG or spool.dropped:
            return frozenset()
        return errors(logs.preview(b"".join(spool.chunks()), COMPARED).split("\n"))

    def _errors_of(self, job_id: int, pipeline: wire.Pipeline) -> frozenset[str]:
        path = f"/projects/{project_of(pipeline, self._reader)}/jobs/{job_id}/trace"
        raw = self._reader.client.stream(path, f"the log of job {job_id}", MAX_LOG)
        text = logs.preview_of(raw, COMPARED)
        clean = self._reader.redact(text.encode()).decode(errors="replace")
        return errors(clean.split("\n"))

    def _named(self, pipeline: wire.Pipeline) -> Iterator[wire.Job]:
        """The pipeline's runs of jobs that fail here, newest first."""
        names = set(map(self._name, self._failing))
        jobs = sorted(self._all(pipeline), key=lambda job: -job.id)
        return (job for job in jobs if job.name in names)

    def _all(self, pipeline: wire.Pipeline) -> list[wire.Job]:
        """The pipeline's jobs, and those behind its trigger jobs, as far as they were read."""
        read = (self._jobs.get(pipeline.id, ()), self._behind.get(pipeline.id, ()))
        return [job for jobs in read for job in _items(jobs)]

    def _name(self, group: Group) -> str:
        """The job's name as GitLab has it: a survey's is cleaned."""
        job = group.jobs[0]
        return self._listed[job.job_id].name if job.job_id in self._listed else job.name

    # -------------------------------------------------------------------------------------- facts

    def _told(self, group: Group, near: Around) -> Facts:
        own = self._listed
        key = _key(self._errors.get(group.jobs[0].job_id, frozenset()))
        runs = [_failing(job, key, own.get(job.job_id), near.own) for job in group.jobs]
        made = Facts(self._name(group), runs[0], tuple(runs[1:]))
        if group.jobs[0].job_id in own:
            made = self._compared(made, near)
        else:
            jobs = self._jobs[near.own.id]
            why = jobs if isinstance(jobs, Unknown) else _NOT_OWN
            made = replace(made, attempts=why, target=why, earlier=why, elsewhere=why)
        diff = self._diff
        change = diff if isinstance(diff, Unknown) else self._change(group, diff)
        return replace(self._looked_into(made, group, near), name=shown(made.name), change=change)

    def _looked_into(self, made: Facts, group: Group, near: Around) -> Facts:
        """What the pipeline itself and the job's own log tell."""
        first, recovered = group.jobs[0], []
        for failed, passed in self._recovered(near.own):
            run = self._run(failed, near.own, made.run)
            if made.same(run):
                named = replace(run, place=failed.name)
                recovered.append((named, self._run(passed, near.own, made.run)))
        made = replace(
            made,
            siblings=tuple(self._siblings(made, near.own)),
            recovered=tuple(recovered),
            errors=len(self._errors.get(first.job_id, ())),
        )
        if not first.read or first.job_id not in self._listed:
            return made
        log = self._reader.logs.log(first.job_id)
        return replace(made, last_pass=log.last_pass(), cut=_cut(log, self._listed[first.job_id]))

    def _siblings(self, made: Facts, own: wire.Pipeline) -> Iterator[Run]:
        """The newest runs of the other jobs of the same matrix, by their names."""
        group = dimensions(made.name).get("group")
        newest = {job.name: job for job in sorted(self._all(own), key=lambda job: job.id)}
        for name, job in sorted(newest.items()):
            if group and name != made.name and dimensions(name).get("group") == group:
                yield replace(self._run(job, own, made.run), place=name)

    def _compared(self, made: Facts, near: Around) -> Facts:
        ours = {run.job_id for run in made.jobs}
        attempts = self._runs(made, near.attempts)
        aside = self._runs(made, near.aside)
        elsewhere = self._runs(made, near.elsewhere)
        return replace(
            made,
            attempts=attempts
            if isinstance(attempts, Unknown)
            else tuple(each for each in attempts if each.job_id not in ours),
            aside=() if isinstance(aside, Unknown) else aside,
            earlier=self._runs(made, near.earlier),
            elsewhere=elsewhere
            if isinstance(elsewhere, Unknown)
            else tuple(each for each in elsewhere if made.same(each)),
            target=self._target(made, near),
        )

    def _target(self, made: Facts, near: Around) -> Target | Unknown:
        runs = self._runs(made, near.target)
        if isinstance(runs, Unknown):
            return runs
        target = _items(near.target)
        moved = bool(target and near.base and target[0].sha != near.base)
        return Target(near.branch, runs, len(target), near.base, moved)

    def _runs(
        self, made: Facts, pipelines: Sequence[wire.Pipeline] | Unknown
    ) -> tuple[Run, ...] | Unknown:
        """The runs of the job, newest pipeline first; unknown if there is none in what was read
        and not all was."""
        if isinstance(pipelines, Unknown):
            return pipelines
        read = self._behind if BEYOND in made.name else self._jobs
        unread = [jobs for each in pipelines if isinstance(jobs := read[each.id], Unknown)]
        runs = tuple(
            self._run(job, each, made.run)
            for each in pipelines
            for job in self._named(each)
            if job.name == made.name
        )
        return unread[0] if unread and not runs else runs

    def _run(self, job: wire.Job, pipeline: wire.Pipeline, ours: Run) -> Run:
        of_mr = OF_MR.match(pipeline.ref)
        wanted = self._errors.get(ours.job_id, frozenset())
        found = self._errors.get(job.id, frozenset())
        lacked = wanted - found if wanted & found else frozenset()
        return Run(
            job_id=job.id,
            pipeline_id=pipeline.id,
            status=job.status,
            sha=pipeline.sha,
            reason=(job.failure_reason or "") if job.status == "failed" else "",
            error=self._error(job.id, ours),
            url=job.web_url,
            at=job.started_at or pipeline.created_at or "",
            place=f"!{of_mr[1]}" if of_mr else pipeline.ref,
            source=pipeline.source,
            started=job.started_at is not None,
            shared=len(wanted & found) if lacked else 0,
            lacked=tuple(sorted(lacked)[:NAMED]),
        )

    def _error(self, job_id: int, ours: Run) -> str:
        """The key of what a run failed with: ours, if it failed with all that our run did.

        One that fails there with less does not explain what is new here.
        """
        wanted = self._errors.get(ours.job_id, frozenset())
        found = self._errors.get(job_id, frozenset())
        return ours.error if wanted and wanted <= found else _key(found)

    def _change(self, group: Group, diff: Listing[wire.DiffFile]) -> Change:
        files, whole = diff.items, not diff.more
        paths = [path for each in files for path in dict.fromkeys((each.new_path, each.old_path))]
        changed = [
            Changed(each.new_path, each.old_path, definitions(each.diff), added_lines(each.diff))
            for each in files
        ]
        return Change(
            files=len(files),
            ci=tuple(path for path in paths if is_ci(path)),
            dependencies=tuple(
                each.new_path for each in files if changes_dependency(each.new_path, each.diff)
            ),
            only_docs=whole and bool(files) and all(is_docs(path) for path in paths),
            touches=touches(self._error_text(group), changed, self._reader.subject.project),
            whole=whole,
        )

    def _error_text(self, group: Group) -> str:
        """What the whole log says of the error, as far as it was read."""
        first = group.jobs[0]
        if not first.read or not first.job_id:
            return f"{group.text}\n{first.excerpt}"
        return f"{group.text}\n{self._reader.logs.log(first.job_id).preview(MAX_TEXT)}"


_LIMIT = re.compile(r"^Job's log exceeded limit of (\d{1,12}) bytes", re.IGNORECASE)


def _cut(log: Log, job: wire.Job) -> str:
    """That the runner stopped keeping the log, and when, in words; or ""."""
    lines = log.lines
    ends = (lines[at] for at in range(max(0, len(lines) - 10), len(lines)))
    found = next(filter(None, map(_LIMIT.match, ends)), None)
    if found is None:
        return ""
    kept = f" after {log.seconds:,} s" if log.seconds else ""
    whole = f" of the job's {job.duration:,.0f} s" if job.duration else ""
    return f"the runner cut the log at {int(found[1]):,} bytes{kept}{whole}"


def _key(found: frozenset[str]) -> str:
    joined = "\n".join(sorted(found)).encode()
    return hashlib.sha256(joined).hexdigest()[:16] if found else ""


def _failing(job: Failing, error: str, listed: wire.Job | None, pipeline: wire.Pipeline) -> Run:
    """A failing job as a run; of one that its pipeline does not list, less is known."""
    return Run(
        job_id=job.job_id,
        pipeline_id=pipeline.id if listed else 0,
        status="failed",
        sha=pipeline.sha,
        reason=job.reason,
        error=error,
        url=job.url,
        at=(listed.started_at if listed else "") or pipeline.created_at or "",
        source=pipeline.source,
        started=listed is None or listed.started_at is not None,
    )


def _items(found: Sequence[T] | Unknown) -> Sequence[T]:
    return () if isinstance(found, Unknown) else found
