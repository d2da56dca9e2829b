"""The jobs of a story's pipelines: their labels, and how the simulated GitLab runs them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.simulators.gitlab import GitLabSim, Job, Pipeline
from tests.simulators.job_traces import Told, choose_command, make_trace
from worker.lab.gitlab.world import show_time

Fields = Mapping[str, Any]

_STATUSES = {"ok": "success", "skipped": "skipped", "canceled": "canceled", "manual": "manual"}
_STAGES = ("build", "test", "deploy")
SILENT = "silent"
"""The outcome of a job that fails without a word."""
_MARKS = ("allow_failure", "manual", "deploy")
_NEVER_RAN = frozenset({"stuck_or_timeout_failure", "api_failure"})
"""The reasons of failures that no runner has seen."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a job of a pipeline is to end. `tries` are its attempts: a status of GitLab, or the texts
    of the errors with which it fails."""

    name: str
    tries: tuple[str | tuple[str, ...], ...]
    allow_failure: bool = False
    manual: bool = False
    environment: str = ""
    reason: str = "script_failure"
    command: str = ""

    @property
    def stage(self) -> str:
        """Its stage, by its name."""
        if self.environment or "deploy" in self.name:
            return "deploy"
        return "build" if "build" in self.name else "test"


class Scripts:
    """What the jobs of one story are and run: each of them the same command in all pipelines."""

    def __init__(self, errors: Mapping[str, Any], events: Sequence[Fields]) -> None:
        self._texts = {
            key: [each] if isinstance(each, str) else list(each) for key, each in errors.items()
        }
        self._used = dict.fromkeys(self._texts, 0)
        shown: dict[str, list[str]] = {}
        for name, fields in _list_fields(events):
            for letters in fields.get("tries", [fields.get("is")]):
                keys = letters if isinstance(letters, list) else [letters]
                texts = [text for key in keys for text in self._texts.get(key, ())]
                shown.setdefault(name, []).extend(texts)
        self._commands = {name: choose_command(name, texts) for name, texts in shown.items()}

    def list_jobs(self, events: Iterable[Fields]) -> list[Plan]:
        """List the jobs of some pipelines, as the CI configuration has them."""
        marks: dict[str, dict[str, Any]] = {}
        for name, fields in _list_fields(events):
            idle = {"manual": True} if fields.get("is") == "manual" else {}
            known = {key: fields[key] for key in _MARKS if key in fields}
            marks[name] = {**marks.get(name, {}), **known, **idle}
        return [self._plan(name, fields, ()) for name, fields in marks.items()]

    def list_plans(self, event: Fields) -> list[Plan]:
        """List how the jobs of a pipeline or a retry end. A text with several spellings is spelt
        each time in the next way."""
        plans: list[Plan] = []
        for name, fields in _list_fields([event]):
            tries = tuple(self._read(each) for each in fields.get("tries", [fields.get("is")]))
            plans.append(self._plan(name, fields, tries))
        return plans

    def _read(self, outcome: str | list[str]) -> str | tuple[str, ...]:
        if isinstance(outcome, str) and outcome in _STATUSES:
            return _STATUSES[outcome]
        if outcome == SILENT:
            return ()
        return tuple(
            self._spell(key) for key in ([outcome] if isinstance(outcome, str) else outcome)
        )

    def _spell(self, key: str) -> str:
        spellings = self._texts[key]
        self._used[key] += 1
        return spellings[(self._used[key] - 1) % len(spellings)]

    def _plan(self, name: str, fields: Fields, tries: tuple[str | tuple[str, ...], ...]) -> Plan:
        # GitLab lets a manual job that nobody has played hold nothing up, unless it is told to.
        is_idle = tries[-1:] == ("manual",)
        return Plan(
            name,
            tries,
            fields.get("allow_failure", is_idle),
            fields.get("manual", False) or is_idle,
            name if fields.get("deploy") else "",
            fields.get("reason", "script_failure"),
            self._commands.get(name, f"make {name}"),
        )


def _list_fields(events: Iterable[Fields]) -> Iterator[tuple[str, Fields]]:
    """List the jobs of some pipelines with what is said of them."""
    for event in events:
        for name, value in (event.get("jobs") or {}).items():
            yield name, value if isinstance(value, Mapping) else {"is": value}


def make_config(jobs: Iterable[Plan]) -> bytes:
    """Make the CI configuration of these jobs."""
    lines = [f"stages: [{', '.join(_STAGES)}]"]
    for job in jobs:
        lines += ["", f"{job.name}:", f"  stage: {job.stage}", f"  script: ['{job.command}']"]
        lines += ["  when: manual"] * job.manual
        lines += [f"  environment: {{name: {job.environment}}}"] * bool(job.environment)
        lines += ["  allow_failure: true"] * job.allow_failure
    return ("\n".join(lines) + "\n").encode()


def start_jobs(sim: GitLabSim, pipeline: Pipeline, plans: Iterable[Plan]) -> None:
    """Let the jobs of a new pipeline run."""
    for plan in plans:
        _add_attempt(sim, pipeline, plan, datetime.fromisoformat(pipeline.created_at))


def end_jobs(sim: GitLabSim, pipeline: Pipeline, plans: Iterable[Plan], moment: datetime) -> None:
    """Let the jobs end as they are to, now; attempts that were not yet begun come after those that
    were, each in its part of the time since then."""
    for plan in plans:
        before = [job for job in pipeline.jobs if job.name == plan.name]
        job = before[-1] if before and before[-1].status == "running" else None
        since = datetime.fromisoformat(job.created_at if job else pipeline.touched_at)
        since = max(since, moment - timedelta(minutes=30))
        part = (moment - since) / len(plan.tries)
        for at, outcome in enumerate(plan.tries):
            begun = since + part * at
            if job is None:
                job = _add_attempt(sim, pipeline, plan, begun)
            _end_attempt(job, plan, outcome, begun, begun + part)
            job = None


def _add_attempt(sim: GitLabSim, pipeline: Pipeline, plan: Plan, begun: datetime) -> Job:
    """Add an attempt; it is manual, may fail and deploys as the one before it."""
    before = next((job for job in reversed(pipeline.jobs) if job.name == plan.name), None)
    job = sim.add_job(
        pipeline, plan.name, stage=plan.stage, status="running", trace=None,
        allow_failure=plan.allow_failure or bool(before and before.allow_failure),
    )  # fmt: skip
    job.created_at = job.started_at = show_time(begun)
    job.manual = plan.manual or bool(before and before.manual)
    job.environment = plan.environment or (before.environment if before else "")
    job.duration = None
    return job


def _end_attempt(
    job: Job, plan: Plan, outcome: str | tuple[str, ...], begun: datetime, ended: datetime
) -> None:
    job.status = outcome if isinstance(outcome, str) else "failed"
    job.failure_reason = plan.reason if job.status == "failed" else None
    job.finished_at = show_time(ended)
    if job.status in ("skipped", "manual") or job.failure_reason in _NEVER_RAN:
        job.started_at = job.trace = None
        return
    job.duration = (ended - begun).total_seconds()
    errors = () if isinstance(outcome, str) else outcome
    job.trace = make_trace(
        Told(
            plan.name, job.pipeline.sha, job.pipeline.ref, begun, errors, job.status,
            plan.reason, plan.command,
        )
    )  # fmt: skip


def end_pipeline(pipeline: Pipeline, moment: datetime) -> None:
    """Let a pipeline end as its newest jobs have, as GitLab counts them."""
    newest = [job for job in pipeline.jobs if not job.is_retried]
    counted = [job.status for job in newest if not job.allow_failure]
    order = ("failed", "running", "pending", "created", "manual", "canceled")
    worst = next((each for each in order if each in counted), "success")
    if worst == "success" and newest and all(job.status == "skipped" for job in newest):
        worst = "skipped"
    pipeline.status = "running" if worst in ("pending", "created") else worst
    pipeline.updated_at = show_time(moment)
    pipeline.finished_at = pipeline.updated_at if pipeline.has_ended else ""
