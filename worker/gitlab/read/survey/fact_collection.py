"""Collects what GitLab shows about failing jobs, within its bounds in requests and logs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing
from worker.gitlab.read.job_runs import get_project_id, read_started_jobs
from worker.gitlab.read.pipeline_jobs import read_all_jobs
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.change import RequirementFiles, read_change
from worker.gitlab.read.survey.compared_pipelines import (
    ComparedPipelines,
    find_commits_with_change,
    find_pipelines,
    get_items,
    read_or_unknown,
    was_set_back,
)
from worker.gitlab.read.survey.compared_runs import (
    OwnLogs,
    describe_run,
    make_failing_run,
    may_blame_host,
    read_errors,
    read_own_errors,
)
from worker.gitlab.read.wire import parse_dimensions
from worker.verdict.facts import Facts, JobRun, Target, Unknown
from worker.verdict.jobs import FailingJob, Group

LOGS = 8
"""Logs of other runs that are read."""

SAMPLES = 8
"""Further logs that are read: of the other jobs of a group, one of each on the target branch."""

RETRIED = 2
"""Logs of other jobs of the pipeline that failed and then passed."""

FAILED = 3
"""Older failed pipelines of the target branch that are looked into, the newest first."""

_NOT_OWN = Unknown("it is too far below the pipeline, or its trigger jobs cannot be read")

Diff = Listing[wire.DiffFile] | Unknown
"""The files that the merge request changes."""


class FactCollector:
    """Collects the facts of one survey, with parallel requests. Each group must have jobs."""

    def __init__(
        self, reader: Reader, pool: ThreadPoolExecutor, failing: Sequence[Group], diff: Diff
    ) -> None:
        self._reader, self._pool, self._failing, self._diff = reader, pool, failing, diff
        self._listed: dict[int, wire.Job] = {}
        self._jobs: dict[int, Sequence[wire.Job] | Unknown] = {}
        self._started: dict[int, Sequence[wire.Job] | Unknown] = {}
        self._triggers: set[str] = set()
        self._errors: dict[int, frozenset[str]] = {}
        self._words: dict[str, str] = {}
        self._logs = OwnLogs(reader, (job for group in failing for job in group.jobs))
        self._requirements = RequirementFiles(reader)

    def collect_facts(self) -> list[Facts]:
        """Return the facts, in the order of the failing groups."""
        near = find_pipelines(self._reader, self._pool)
        wanted = [near.own, *near.of_other_kinds]
        for each in (near.attempts, near.target, near.earlier, near.elsewhere):
            wanted += get_items(each)
        pipelines = list({each.id: each for each in wanted}.values())
        self._read_jobs(pipelines)
        self._add_started_jobs(near.own, [each for each in pipelines if each.id != near.own.id])
        self._listed = {job.id: job for job in self._list_all_jobs(near.own)}
        near = self._read_further_back(near)
        self._read_logs(near)
        found = [self._describe_group(each, near) for each in self._failing]
        # The target branch's newest commit with the same error, except the change's base.
        broken = (
            run.sha
            for facts in found
            for run in facts.known_target.runs
            if facts.has_same_error(run) and run.sha != near.base
        )
        if not (newest := next(broken, "")):
            return found
        near = self._drop_runs_with_change(near, newest)
        return [self._describe_group(each, near) for each in self._failing]

    def _drop_runs_with_change(self, near: ComparedPipelines, newest: str) -> ComparedPipelines:
        """Remove the target's pipelines that are known to have run with the change from `near`."""
        base, reader = near.base, self._reader
        shas = read_or_unknown(lambda: find_commits_with_change(newest, base, reader))
        if isinstance(shas, Unknown) or not shas:
            return near
        target = get_items(near.target)
        left = [each for each in target if each.sha not in shas]
        recent = [each for each in target[: near.recent] if each.sha not in shas]
        taken = [each for each in target if each.sha in shas]
        return replace(near, target=left, recent=len(recent), with_change=taken)

    def _read_jobs(self, pipelines: Sequence[wire.Pipeline]) -> None:
        def read_jobs(pipeline: wire.Pipeline) -> Sequence[wire.Job]:
            path = f"/projects/{get_project_id(pipeline, self._reader)}/pipelines/{pipeline.id}"
            return read_all_jobs(path, pipeline.id, self._reader).items

        read = self._pool.map(lambda each: read_or_unknown(lambda: read_jobs(each)), pipelines)
        self._jobs |= {each.id: jobs for each, jobs in zip(pipelines, read, strict=True)}

    def _read_further_back(self, near: ComparedPipelines) -> ComparedPipelines:
        """Extend the target's pipelines of `near` back to the last one in which a job failed that
        fails here and did not finish in the newest ones. Without such a one, nothing changes."""
        recent = get_items(near.target)[: near.recent]
        ran = {
            job.ref
            for each in recent
            for job in self._list_runs(each)
            if job.status in ("success", "failed")
        }
        refs = set(map(self._get_group_ref, self._failing)) - ran
        failed = [each for each in near.older if each.status == "failed"][:FAILED]
        if not refs or not failed:
            return near
        self._read_more(failed)
        found = [
            each
            for each in failed
            if any(job.ref in refs and job.status == "failed" for job in self._list_runs(each))
        ]
        between = [each for each in near.older if found and each.id >= found[0].id]
        if not between:
            return near
        self._read_more(between)
        target = {each.id: each for each in (*recent, *between, *get_items(near.target))}
        return replace(near, target=list(target.values()), recent=len(recent) + len(between))

    def _add_started_jobs(self, own: wire.Pipeline, others: Sequence[wire.Pipeline]) -> None:
        """Add the jobs that trigger jobs have started, if the failing jobs include one of them."""
        listed = self._jobs[own.id]
        foreign = self._get_own_ids() - {job.id for job in get_items(listed)}
        if isinstance(listed, Unknown) or not foreign:
            return
        behind = get_items(read_started_jobs(own, self._reader))
        self._triggers = {job.started_by for job in behind if job.id in foreign}
        if self._triggers:
            self._started = {own.id: behind}
            self._read_started(others)

    def _read_started(self, pipelines: Sequence[wire.Pipeline]) -> None:
        read = self._pool.map(
            lambda each: read_started_jobs(each, self._reader, self._triggers), pipelines
        )
        self._started |= {each.id: jobs for each, jobs in zip(pipelines, read, strict=True)}

    def _read_more(self, pipelines: Sequence[wire.Pipeline]) -> None:
        """Read the jobs of the pipelines that were not read yet, with those that their trigger jobs
        have started, if the failing jobs include one of these."""
        self._read_jobs([each for each in pipelines if each.id not in self._jobs])
        if self._triggers:
            self._read_started([each for each in pipelines if each.id not in self._started])

    def _get_own_ids(self) -> set[int]:
        return {job.job_id for group in self._failing for job in group.jobs if job.job_id}

    # ------------------------------------------------------------------------------------- logs

    def _read_logs(self, near: ComparedPipelines) -> None:
        """Read the errors of the failed runs, those first that can prove most."""
        target = get_items(near.target)
        based = [each for each in target if each.sha == near.base]
        order = [*get_items(near.attempts), *target[:1], *based, *target]
        order += [*get_items(near.elsewhere), *get_items(near.earlier)]
        pipelines = list({each.id: each for each in order}.values())
        firsts, ours = set(map(self._get_group_ref, self._failing)), self._get_own_ids()
        failed = {
            job.id: (job, job.pipeline or pipeline)
            for pipeline in pipelines
            for job in self._list_runs(pipeline)
            if job.status == "failed" and job.id not in ours
        }
        wanted = sorted(failed.values(), key=lambda run: run[0].ref not in firsts)[:LOGS]
        samples = [
            failed[number] for number in self._sample_runs(target, firsts) if number in failed
        ]
        wanted += [run for run in samples if run not in wanted][:SAMPLES]
        retried = [(job, near.own) for job, _ in self._find_recovered(near.own)][:RETRIED]
        listed = [
            job for group in self._failing for job in group.jobs if job.job_id in self._listed
        ]
        read = [self._listed[job.job_id] for job in listed if job.read]
        own = read_own_errors(read, self._logs, self._pool)
        found = read_errors([*wanted, *retried], own.values(), self._reader, self._pool)
        found |= {job_id: each.errors for job_id, each in own.items()}
        self._errors |= {job_id: frozenset(each) for job_id, each in found.items()}
        self._words |= {
            error: words for each in own.values() for error, words in each.errors.items()
        }
        self._assume_alike([near.own, *pipelines])

    def _sample_runs(
        self, target: Sequence[wire.Pipeline], firsts: set[wire.JobRef]
    ) -> Iterable[int]:
        """Choose the newest failed runs on the target branch of the groups' other jobs, by id."""
        newest: dict[wire.JobRef, int] = {}
        for job in (job for pipeline in target for job in self._list_runs(pipeline)):
            if job.status == "failed" and job.ref not in firsts:
                newest.setdefault(job.ref, job.id)
        return newest.values()

    def _assume_alike(self, pipelines: Sequence[wire.Pipeline]) -> None:
        """Assume that jobs of one group that fail together in a pipeline have the same error there.

        Not every log is read: for an unread one, the error of the group's first job is taken. A job
        is left out if it is known to have had other errors than that job in any pipeline."""
        for group in self._failing:
            errors = self._errors.get(group.jobs[0].job_id) if group.jobs else None
            alike = [job for job in group.jobs if self._errors.get(job.job_id, errors) == errors]
            refs = list(dict.fromkeys(map(self._get_ref, alike)))
            # The first of these jobs with each other one, in the pipelines where both failed.
            pairs: list[tuple[wire.Job, wire.Job]] = []
            for pipeline in pipelines if len(refs) > 1 else ():
                jobs = sorted(self._list_all_jobs(pipeline), key=lambda job: job.id)
                newest = {job.ref: job for job in jobs}
                failed = {ref: job for ref, job in newest.items() if job.status == "failed"}
                if first := failed.get(refs[0]):
                    pairs += [(first, failed[ref]) for ref in refs[1:] if ref in failed]
            differ = {
                job.ref
                for first, job in pairs
                if {first.id, job.id} <= self._errors.keys()
                and self._errors[first.id] != self._errors[job.id]
            }
            for first, job in pairs:
                if job.ref not in differ:
                    self._errors.setdefault(job.id, self._get_errors(first.id))

    def _find_recovered(self, own: wire.Pipeline) -> Iterator[tuple[wire.Job, wire.Job]]:
        """Yield the last failed run and the passed run of each other job that passed in the end."""
        refs = set(map(self._get_group_ref, self._failing))
        jobs = sorted(get_items(self._jobs.get(own.id, ())), key=lambda job: job.id)
        newest = {job.ref: job for job in jobs}
        failed = {job.ref: job for job in jobs if job.status == "failed"}
        for ref, passed in newest.items():
            if passed.status == "success" and ref in failed and ref not in refs:
                yield failed[ref], passed

    def _list_runs(self, pipeline: wire.Pipeline) -> Iterator[wire.Job]:
        """Return the pipeline's runs of jobs that fail here, newest first."""
        refs = {self._get_ref(job) for group in self._failing for job in group.jobs}
        jobs = sorted(self._list_all_jobs(pipeline), key=lambda job: -job.id)
        return (job for job in jobs if job.ref in refs)

    def _list_all_jobs(self, pipeline: wire.Pipeline) -> list[wire.Job]:
        """List the pipeline's jobs and those that its trigger jobs have started, as far as read."""
        read = (self._jobs.get(pipeline.id, ()), self._started.get(pipeline.id, ()))
        return [job for jobs in read for job in get_items(jobs)]

    def _get_group_ref(self, group: Group) -> wire.JobRef:
        return self._get_ref(group.jobs[0])

    def _get_ref(self, job: FailingJob) -> wire.JobRef:
        """Return the job's name as GitLab has it; the name in the survey is cleaned."""
        listed = self._listed.get(job.job_id)
        return listed.ref if listed else wire.JobRef("", job.name)

    # -------------------------------------------------------------------------------------- facts

    def _describe_group(self, group: Group, near: ComparedPipelines) -> Facts:
        own = self._listed
        runs = [
            make_failing_run(job, self._get_errors(job.job_id), own.get(job.job_id), near.own)
            for job in group.jobs
        ]
        ruled = group.rule_match
        lead = ruled.verdict if ruled and not ruled.certain else ""
        refs = list(map(self._get_ref, group.jobs))
        facts = Facts(str(refs[0]), runs[0], tuple(runs[1:]), lead=lead)
        log = self._logs.find(group.jobs[0].job_id)
        change = read_change(group, log, self._reader.subject.project, self._diff)
        facts = self._add_compared_runs(facts, refs[0], near)
        facts = self._add_own_facts(facts, group, near)
        rest = [
            replace(
                self._add_compared_runs(Facts(str(ref), run, lead=lead), ref, near),
                change=change,
                may_blame_host=facts.may_blame_host,
            )
            for ref, run in zip(refs[1:], runs[1:], strict=True)
        ]
        found = self._requirements.add_unpinned(facts.last_pass, log, change)
        return replace(facts, change=change, last_pass=found, rest=tuple(rest))

    def _get_errors(self, job_id: int) -> frozenset[str]:
        return self._errors.get(job_id, frozenset())

    def _add_own_facts(self, facts: Facts, group: Group, near: ComparedPipelines) -> Facts:
        """Return the facts with those from the pipeline itself and from the job's own log."""
        first, recovered = group.jobs[0], list[tuple[JobRun, JobRun]]()
        for failed, passed in self._find_recovered(near.own):
            run = self._describe_run(failed, near.own, facts.run)
            if facts.has_same_error(run):
                named = replace(run, place=failed.name)
                recovered.append((named, self._describe_run(passed, near.own, facts.run)))
        facts = replace(
            facts,
            siblings=tuple(self._find_siblings(facts, self._get_ref(first), near.own)),
            recoveries=tuple(recovered),
        )
        log, job = self._logs.find(first.job_id), self._listed.get(first.job_id)
        if log is None or job is None:
            return facts
        return replace(
            facts,
            last_pass=log.describe_last_pass(),
            cut=log.describe_cut(job.duration),
            clock=log.describe_clock(job.started_at, self._reader.client.get_time()),
            may_blame_host=may_blame_host(log),
        )

    def _find_siblings(
        self, facts: Facts, ref: wire.JobRef, own: wire.Pipeline
    ) -> Iterator[JobRun]:
        """Yield the newest runs of the other jobs of the same matrix, by their names."""
        group = parse_dimensions(ref.name).get("group")
        newest = {job.ref: job for job in sorted(self._list_all_jobs(own), key=lambda job: job.id)}
        for other, job in sorted(newest.items()):
            of_group = parse_dimensions(other.name).get("group") == group
            if group and other != ref and other.started_by == ref.started_by and of_group:
                yield replace(self._describe_run(job, own, facts.run), place=str(other))

    def _add_compared_runs(self, facts: Facts, ref: wire.JobRef, near: ComparedPipelines) -> Facts:
        if facts.run.job_id not in self._listed:
            jobs = self._jobs[near.own.id]
            why = jobs if isinstance(jobs, Unknown) else _NOT_OWN
            return replace(facts, attempts=why, target=why, earlier=why, elsewhere=why)
        ours = {run.job_id for run in facts.jobs}
        attempts = self._find_runs(ref, near.attempts, facts.run)
        if not isinstance(attempts, Unknown):
            attempts = tuple(run for run in attempts if run.job_id not in ours)
        elsewhere = self._find_runs(ref, near.elsewhere, facts.run)
        if not isinstance(elsewhere, Unknown):
            elsewhere = tuple(filter(facts.has_same_error, elsewhere))
        others = self._find_runs(ref, near.of_other_kinds, facts.run)
        return replace(
            facts,
            attempts=attempts,
            runs_of_other_sources=tuple(get_items(others)),
            earlier=self._find_runs(ref, near.earlier, facts.run),
            elsewhere=elsewhere,
            target=self._describe_target(ref, near, facts.run),
        )

    def _describe_target(
        self, ref: wire.JobRef, near: ComparedPipelines, ours: JobRun
    ) -> Target | Unknown:
        runs = self._find_runs(ref, near.target, ours)
        if isinstance(runs, Unknown):
            return runs
        target, read = get_items(near.target), self._get_jobs_read(ref)
        unread = [each for each in target if isinstance(read.get(each.id), Unknown)]
        moved = near.base in {each.sha for each in target} and target[0].sha != near.base
        gap = len(target) > near.recent
        found = Target(
            near.branch, runs, len(target), near.base, moved, gap, len(unread),
            may_hide_base_runs=any(each.sha == near.base for each in unread),
            runs_with_change=tuple(get_items(self._find_runs(ref, near.with_change, ours))),
        )  # fmt: skip
        newest = found.runs_at_newest_commit
        first = min((each.pipeline_id for each in newest), default=0)
        recent = {each.id for each in target[: near.recent]}
        hidden = any(each.id > first or each.sha == newest[0].sha for each in unread if newest)
        seen = not newest or any(each.pipeline_id in recent for each in newest)
        turned = bool(newest) and was_set_back(target, newest[0].sha)
        return replace(found, may_hide_newer_runs=hidden or not seen or turned)

    def _get_jobs_read(self, ref: wire.JobRef) -> Mapping[int, Sequence[wire.Job] | Unknown]:
        """Return the jobs to search for this one, by pipeline id: downstream ones or others."""
        return self._started if ref.started_by else self._jobs

    def _find_runs(
        self, ref: wire.JobRef, pipelines: Sequence[wire.Pipeline] | Unknown, ours: JobRun
    ) -> tuple[JobRun, ...] | Unknown:
        """Find the runs of the job, newest pipeline first; Unknown if there are none and some
        pipelines could not be read."""
        if isinstance(pipelines, Unknown):
            return pipelines
        read = self._get_jobs_read(ref)
        unread = [jobs for each in pipelines if isinstance(jobs := read[each.id], Unknown)]
        runs = tuple(
            self._describe_run(job, each, ours)
            for each in pipelines
            for job in self._list_runs(each)
            if job.ref == ref
        )
        return unread[0] if unread and not runs else runs

    def _describe_run(self, job: wire.Job, pipeline: wire.Pipeline, ours: JobRun) -> JobRun:
        return describe_run(job, pipeline, self._get_errors(job.id), ours, self._words)
