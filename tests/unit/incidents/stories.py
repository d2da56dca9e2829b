"""Stories of red branches as YAML, played by the judge alone: what GitLab shows at each time.

A story's README has the format. A `World` answers as GitLab does at a time; `tests.unit.incidents.
playing` judges it and marks the outcome. Keys of errors are the story's letters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from worker.incidents.record import (
    BranchPipeline,
    BranchRecord,
    JobEnd,
    JobOutcome,
    Landing,
    PipelineKind,
    RequestRecord,
)
from worker.incidents.sightings import has_known_error, make_silent_error

Fields = Mapping[str, Any]

_KINDS = {
    "merge_request": PipelineKind.DETACHED,
    "merged_result": PipelineKind.MERGED_RESULT,
    "train": PipelineKind.MERGE_TRAIN,
}
_OF_RUNNER = {"runner_system_failure", "stuck_or_timeout_failure", "api_failure"}
START = 1_000_000.0


def read_stories(path: Path) -> list[Fields]:
    """Return the stories of a file."""
    stories: list[Fields] = yaml.safe_load(path.read_text(encoding="utf-8"))["stories"]
    return stories


def seconds(text: object) -> float:
    """Return a story's time in seconds: `2h10m`."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    found = re.findall(r"(\d+)([dhms])", str(text))
    return START + sum(int(number) * units[unit] for number, unit in found)


def many(value: Any) -> list[Any]:
    """Return a value that may be one or several as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


@dataclass(slots=True)
class _Request:
    iid: int
    to: str
    project: str
    base: str
    author: str
    contains: tuple[str, ...]
    reverts: tuple[str, ...]
    over_at: float = float("inf")


@dataclass(slots=True)
class _Run:
    number: int
    made_at: float
    ended_at: float
    jobs: list[tuple[float, JobEnd]]
    commit: str = ""
    branch: str = ""
    source: str = "push"
    project: str = "one"
    request: RequestRecord | None = None


def _read_of_request(job: JobEnd) -> JobEnd:
    """Return a job as it is read of a merge request: what shows no error has none."""
    return job if has_known_error(job) else replace(job, errors=())


@dataclass(slots=True)
class World:
    """What GitLab shows of a story's projects, at any time."""

    story: Fields
    landings: dict[tuple[str, str], list[Landing]] = field(default_factory=dict)
    requests: dict[int, _Request] = field(default_factory=dict)
    runs: dict[int, _Run] = field(default_factory=dict)
    gone: dict[tuple[str, str], float] = field(default_factory=dict)
    moments: list[tuple[float, str, int]] = field(default_factory=list)
    """When something happened that is delivered: to a branch, or to a merge request."""

    def __post_init__(self) -> None:
        for event in self.story["events"]:
            for at in range(event.get("times", 1)):
                self._play(event, at)
        self._number_jobs()

    def _play(self, event: Fields, nth: int) -> None:
        at = seconds(event["at"]) + (nth * (seconds(event["every"]) - START) if nth else 0)
        project = event.get("project", "one")
        if "land" in event:
            self._land(event, at, project)
        elif "open" in event:
            self._open(event, event["open"] + nth, at, project)
        elif "rebase" in event or "update" in event:
            made = self.requests[event.get("rebase") or event["update"]]
            made.base = event.get("onto", made.base)
            made.contains = (f"{made.iid}@{at:.0f}", *made.contains * ("update" in event))
        elif "close" in event:
            self.requests[event["close"]].over_at = at
            self.moments.append((at, "request", event["close"]))
        elif "retry" in event:
            run = self.runs[event["retry"]]
            for name, value in event["jobs"].items():
                run.jobs += [(at, job) for job in self._make_jobs(name, value, [at])]
            self.moments.append((at, "run", run.number))
        elif "pipeline" in event:
            self._run(event, nth, at, project)
        elif "delete_branch" in event:
            self.gone[project, event["delete_branch"]] = at
            self.moments.append((at, event["delete_branch"], 0))
        elif "archive" in event:
            for owner, branch in self.landings:
                if owner == event["archive"]:
                    self.gone[owner, branch] = at
            self.moments.append((at, "main", 0))

    def _land(self, event: Fields, at: float, project: str) -> None:
        request = self.requests.get(event.get("mr", 0))
        if request:
            request.over_at = at
            self.moments.append((at, "request", request.iid))
        landing = Landing(
            sha=event["land"],
            landed_at=at,
            mr_iid=event.get("mr", 0),
            mr_sha=request.contains[0] if request else "",
            files=tuple(files) if isinstance(files := event.get("files"), list) else None,
            reverts=tuple(many(event.get("reverts"))),
            author=event.get("by", ""),
        )
        self.landings.setdefault((project, event.get("branch", "main")), []).append(landing)

    def _open(self, event: Fields, iid: int, at: float, project: str) -> None:
        stack = self.requests[event["stacked_on"]].contains if "stacked_on" in event else ()
        self.requests[iid] = _Request(
            iid,
            event.get("to", "main"),
            project,
            event["base"],
            event.get("by", "dev1"),
            (f"{iid}@{at:.0f}", *stack),
            tuple(many(event.get("reverts"))),
        )

    def _run(self, event: Fields, nth: int, at: float, project: str) -> None:
        made_at = at - (seconds(event.get("took", "5m")) - START)
        number = event["pipeline"] + nth
        jobs = [
            (made_at, job)
            for name, value in event["jobs"].items()
            for job in self._make_jobs(name, value, (made_at, at))
        ]
        run = _Run(number, made_at, at, jobs, project=project)
        if "mr" in event:
            owner = self.requests[event["mr"] + nth]
            run.request = RequestRecord(
                mr_iid=owner.iid,
                pipeline_id=number,
                ended_at=at,
                kind=_KINDS[event.get("kind", "merge_request")],
                base=event.get("onto", owner.base),
                contains=owner.contains,
                reverts=owner.reverts,
                cars=tuple(event.get("cars", ())),
                author=owner.author,
                is_member=owner.author.startswith("dev"),
            )
        else:
            run.commit, run.branch = event["commit"], event.get("branch", "main")
            run.source = event.get("source", "push")
        self.runs[number] = run
        self.moments.append((at, "run", number))

    def _make_jobs(self, name: str, value: Any, times: Sequence[float]) -> Iterator[JobEnd]:
        fields = value if isinstance(value, dict) else {"is": value}
        tries = fields.get("tries") or [fields["is"]]
        for nth, outcome in enumerate(tries, 1):
            if fields.get("allow_failure") or fields.get("manual") or outcome == "manual":
                continue
            at = times[0] + (times[-1] - times[0]) * nth / len(tries)
            keys = [key for key in many(outcome) if key in self.story["errors"]]
            errors = tuple((key, many(self.story["errors"][key])[0]) for key in keys)
            if outcome == "silent":
                errors = (make_silent_error(name),)
            result = JobOutcome.FAILED if errors else JobOutcome.NO_RESULT
            if fields.get("reason") in _OF_RUNNER:
                result, errors = JobOutcome.NO_RESULT, ()
            yield JobEnd(
                name,
                job_id=0,
                outcome=JobOutcome.PASSED if outcome == "ok" else result,
                ended_at=at,
                errors=errors,
                deploys=bool(fields.get("deploy")),
                is_timeout=fields.get("reason") == "job_execution_timeout",
            )

    def _number_jobs(self) -> None:
        made = sorted(
            (at, run.number, nth)
            for run in self.runs.values()
            for nth, (at, _) in enumerate(run.jobs)
        )
        for job_id, (_, number, nth) in enumerate(made, 1000):
            at, job = self.runs[number].jobs[nth]
            self.runs[number].jobs[nth] = (at, replace(job, job_id=job_id))

    def show_branch(self, project: str, branch: str, now: float) -> BranchRecord:
        """Return what GitLab shows of a branch."""
        pipelines = [
            BranchPipeline(
                run.number,
                run.commit,
                run.source,
                run.made_at,
                max([run.ended_at, *(job.ended_at for _, job in jobs)]),
                tuple(job for _, job in jobs),
            )
            for run in self.runs.values()
            if (run.project, run.branch) == (project, branch) and run.ended_at <= now
            for jobs in [[each for each in run.jobs if each[1].ended_at <= now]]
        ]
        gone_at = self.gone.get((project, branch), now + 1)
        return BranchRecord(
            1,
            project,
            branch,
            landings=tuple(e for e in self.landings[project, branch] if e.landed_at <= now),
            pipelines=tuple(sorted(pipelines, key=lambda each: each.pipeline_id)),
            gone_at=gone_at if gone_at <= now else 0.0,
        )

    def show_runs(self, iid: int, now: float) -> list[RequestRecord]:
        """Return the pipelines of a merge request that have ended, the oldest first."""
        owner = self.requests[iid]
        found = []
        for run in sorted(self.runs.values(), key=lambda each: each.number):
            if run.request and run.request.mr_iid == iid and run.ended_at <= now:
                if run.project != owner.project:
                    continue
                jobs = [_read_of_request(job) for _, job in run.jobs if job.ended_at <= now]
                newest = {job.name: job for job in sorted(jobs, key=lambda each: each.job_id)}
                ended = max([run.ended_at, *(job.ended_at for job in jobs)])
                over = owner.over_at <= now
                found.append(
                    replace(run.request, jobs=tuple(newest.values()), ended_at=ended, is_over=over)
                )
        return found
