"""Konflux: the Tekton runs of the merge request, through the Kubernetes API. Off by default.

The host decides what may be read: the operator sets the namespace of each project, and the labels
that Pipelines as Code puts on runs bind them to a merge request. Each run that the model names is
checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import Field

from worker.conversation.context import Subject
from worker.errors import ArgumentError, SourceError
from worker.gitlab.read.api import ask_in_turn
from worker.gitlab.read.base import NoArguments, RawDocument, SourceDef, present
from worker.gitlab.read.blobs import keep_ends
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.wire import Answer
from worker.safety.untrusted import one_line
from worker.sources.web import Query, WebReader, clean_ends
from worker.tools.arguments import Arguments
from worker.verdict.finding import TaskStep


class _Metadata(Answer):
    """A Kubernetes object's name and labels."""

    name: str
    labels: dict[str, str] = Field(default={})
    creationTimestamp: str | None = None


class _Condition(Answer):
    """How far a run is: type Succeeded with status True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Terminated(Answer):
    """How a container ended."""

    exitCode: int = 0
    reason: str = ""


class _Step(Answer):
    """A step of a task: a container of the task's pod."""

    name: str = ""
    container: str = ""
    terminated: _Terminated | None = None


class _RunStatus(Answer):
    """The status of a PipelineRun or a TaskRun; pod and steps are a TaskRun's."""

    conditions: tuple[_Condition, ...] = ()
    startTime: str | None = None
    completionTime: str | None = None
    podName: str = ""
    steps: tuple[_Step, ...] = ()


class _TektonRun(Answer):
    """A PipelineRun or a TaskRun."""

    metadata: _Metadata
    status: _RunStatus = _RunStatus()

    @property
    def condition(self) -> _Condition:
        """The condition `Succeeded`; an empty one if there is none yet."""
        found = (each for each in self.status.conditions if each.type == "Succeeded")
        return next(found, _Condition())


class _ListMeta(Answer):
    """Where a list goes on: `continue` is set if it does."""

    more: str = Field(default="", alias="continue")


class _TektonRuns(Answer):
    """A page of runs."""

    items: tuple[_TektonRun, ...] = ()
    metadata: _ListMeta = _ListMeta()


PREFIXES = ("pipelinesascode.tekton.dev", "pac.test.appstudio.openshift.io")
"""Prefixes of the labels on the runs of builds, and on those of integration tests."""

LIMIT = 200
"""Most runs in one list."""

MAX_LOG = 8 * 1024 * 1024
"""Bytes of one step's log that are kept, from its start and its end."""

MAX_READ = 128 * 1024 * 1024
"""Bytes of one step's log that are read at most."""

_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_TEKTON = "/apis/tekton.dev/v1"


@dataclass(frozen=True, slots=True)
class Tenant:
    """Where a project's runs are: the namespace, and the Repository object's name in it.

    Without `repository` runs are found by commit alone, with it by merge request too.
    """

    namespace: str
    repository: str = ""


class _OfPipelineRun(Arguments):
    """Of which PipelineRun."""

    pipeline_run: str = Field(pattern=_NAME, description="From konflux_list_pipelineruns.")


class _OfTaskRun(Arguments):
    """Of which TaskRun, and which step."""

    task_run: str = Field(pattern=_NAME, description="From konflux_list_taskruns.")
    step: str = Field(
        default="",
        max_length=63,
        description="One of its steps; may be left out where only one has failed.",
    )


class _Konflux:
    """Reads runs from clusters for the sessions of configured projects.

    `places` are asked in turn: the cluster, then the archive that keeps deleted objects
    (KubeArchive, which has the same paths). `ui_url` is the web UI that shows runs, or "".
    """

    def __init__(
        self, places: Sequence[WebReader], tenants: Mapping[str, Tenant], ui_url: str = ""
    ) -> None:
        self._places = tuple(places)
        self._ui_url = ui_url.rstrip("/")
        self._tenants = {project.lower(): tenant for project, tenant in tenants.items()}

    def applies(self, subject: Subject) -> bool:
        """Whether the session's project has a namespace."""
        return subject.project.lower() in self._tenants

    def list_pipeline_runs(self, args: NoArguments, reader: Reader) -> RawDocument:
        """Return the merge request's PipelineRuns as JSON, newest first."""
        tenant = self._get_tenant(reader.subject)
        missing: list[str] = []
        found: dict[str, _TektonRun] = {}
        for selector in _make_selectors(tenant, reader.subject):
            found |= self._list_runs(tenant, "pipelineruns", selector, missing)
        runs = sorted(found.values(), key=lambda run: run.metadata.creationTimestamp or "")
        found_runs = [
            present(
                name=run.metadata.name,
                **_describe_outcome(run),
                sha=_get_label(run, "sha"),
                event=_get_label(run, "event-type"),
                component=run.metadata.labels.get("appstudio.openshift.io/component", ""),
                scenario=run.metadata.labels.get("test.appstudio.openshift.io/scenario", ""),
            )
            for run in reversed(runs)
        ]
        if not runs:
            missing.append("runs: the cluster has none for this merge request (any more)")
        return RawDocument({"pipeline_runs": found_runs}, "; ".join(missing))

    def list_task_runs(self, args: _OfPipelineRun, reader: Reader) -> RawDocument:
        """Return the TaskRuns of one PipelineRun as JSON, failed ones first."""
        tenant = self._get_tenant(reader.subject)
        self._find_own_run(tenant, "pipelineruns", args.pipeline_run, reader.subject)
        missing: list[str] = []
        selector = f"tekton.dev/pipelineRun={args.pipeline_run}"
        runs = self._list_runs(tenant, "taskruns", selector, missing).values()
        found_runs = []
        for run in sorted(
            runs, key=lambda run: (run.condition.status != "False", run.status.startTime or "")
        ):
            steps = [
                present(name=step.name, exit_code=ended.exitCode, reason=ended.reason)
                for step in run.status.steps
                if (ended := step.terminated)
            ]
            task = run.metadata.labels.get("tekton.dev/pipelineTask", "")
            outcome = _describe_outcome(run)
            found_runs.append(present(name=run.metadata.name, task=task, **outcome, steps=steps))
        return RawDocument({"task_runs": found_runs}, "; ".join(missing))

    def read_pod_log(self, args: _OfTaskRun, reader: Reader) -> RawDocument:
        """Return the log of one step of a TaskRun. Quotes use its line numbers."""
        tenant = self._get_tenant(reader.subject)
        run = self._find_own_run(tenant, "taskruns", args.task_run, reader.subject)
        if not run.status.podName:
            why = one_line(run.condition.message, 300)
            raise SourceError(f"task run {args.task_run} has no pod, it never started: {why}")
        step = _choose_step(run.status.steps, args.step)
        pod = quote(run.status.podName, safe="")
        path = f"/api/v1/namespaces/{tenant.namespace}/pods/{pod}/log"
        what, query = f"the log of {step.container}", {"container": step.container}
        blob = ask_in_turn(
            self._places,
            lambda place: keep_ends(place.chunks(path, what, MAX_READ, query), MAX_LOG),
        )
        log, missing = clean_ends(blob, what)
        return RawDocument(
            log,
            missing,
            final=step.terminated is not None,
            is_log=True,
            place=TaskStep(args.task_run, step.name),
            url=self._make_page_url(tenant, run),
        )

    def _make_page_url(self, tenant: Tenant, run: _TektonRun) -> str:
        """Return the web page with the log of a TaskRun, "" if it is not known."""
        pipeline_run = run.metadata.labels.get("tekton.dev/pipelineRun", "")
        if not self._ui_url or not pipeline_run:
            return ""
        task = run.metadata.labels.get("tekton.dev/pipelineTask", "")
        page = f"{self._ui_url}/ns/{tenant.namespace}/pipelinerun/{quote(pipeline_run, safe='')}"
        return f"{page}/logs/{quote(task, safe='')}" if task else f"{page}/logs"

    def _get_tenant(self, subject: Subject) -> Tenant:
        return self._tenants[subject.project.lower()]

    def _list_runs(
        self, tenant: Tenant, kind: str, selector: str, missing: list[str]
    ) -> dict[str, _TektonRun]:
        """List runs by name from all places; failures go to `missing`; raises if all fail."""
        path = f"{_TEKTON}/namespaces/{tenant.namespace}/{kind}"
        query: Query = {"labelSelector": selector, "limit": LIMIT}
        found: dict[str, _TektonRun] = {}
        failures: list[SourceError] = []
        for place in reversed(self._places):
            try:
                page = place.one(path, _TektonRuns, f"the {kind}", query)
            except SourceError as error:
                failures.append(error)
                continue
            found |= {run.metadata.name: run for run in page.items}
            if page.metadata.more:
                missing.append(f"{kind} after the first {LIMIT}")
        if len(failures) == len(self._places):
            raise failures[-1]
        missing += map(str, failures)
        return found

    def _find_own_run(self, tenant: Tenant, kind: str, name: str, subject: Subject) -> _TektonRun:
        """Find the run of that name. Raises SourceError if it lacks the merge request's labels."""
        path = f"{_TEKTON}/namespaces/{tenant.namespace}/{kind}/{name}"
        what = f"{kind.removesuffix('s')} {name}"
        run = ask_in_turn(self._places, lambda place: place.one(path, _TektonRun, what))
        wanted = _make_selectors(tenant, subject)
        has = {f"{key}={value}" for key, value in run.metadata.labels.items()}
        if not any(has.issuperset(selector.split(",")) for selector in wanted):
            raise SourceError(f"{what} is not of this merge request")
        return run


def _choose_step(steps: Sequence[_Step], name: str) -> _Step:
    """Choose the step of this name; without a name, the only failed one or the only one.

    Raises ArgumentError if there is not exactly one.
    """
    failed = [each for each in steps if each.terminated and each.terminated.exitCode]
    found = [each for each in steps if each.name == name] if name else (failed or steps)
    if len(found) == 1:
        return found[0]
    ends = (
        f"{each.name} (exit code {each.terminated.exitCode})" if each.terminated else each.name
        for each in steps
    )
    known = ", ".join(ends) or "none"
    if name:
        raise ArgumentError(f"step: {name!r} is not one of the steps: {known}")
    raise ArgumentError(f"step: name one of the steps: {known}")


def open_konflux(
    url: str,
    archive_url: str,
    token: str,
    ca_file: str,
    tenants: Mapping[str, Tenant],
    ui_url: str = "",
) -> tuple[SourceDef[Any], ...]:
    """Make the rows; none without `url` or `tenants`. Raises ConfigError for a bad `ca_file`."""
    if not url or not tenants:
        return ()
    named = {"Konflux": url, "the Konflux archive": archive_url}
    places = [
        WebReader(where, name, token=token, variable="KONFLUX_TOKEN", ca_file=ca_file)
        for name, where in named.items()
        if where
    ]
    konflux = _Konflux(places, tenants, ui_url)
    runs = SourceDef(
        name="konflux_list_pipelineruns",
        description=(
            "The Konflux (Tekton) PipelineRuns of this merge request, builds and integration "
            "tests, with status and message, newest first."
        ),
        args=NoArguments,
        fetch=konflux.list_pipeline_runs,
        applies=konflux.applies,
    )
    tasks = SourceDef(
        name="konflux_list_taskruns",
        description="The TaskRuns of a Konflux PipelineRun with their steps, failed ones first.",
        args=_OfPipelineRun,
        fetch=konflux.list_task_runs,
        applies=konflux.applies,
    )
    log = SourceDef(
        name="konflux_get_pod_log",
        description=("The log of one step of a Konflux TaskRun, from the pod or the archive."),
        args=_OfTaskRun,
        fetch=konflux.read_pod_log,
        note="quote a line of it as `konflux TASKRUN STEP line 12: text` (`grep -n`)",
        applies=konflux.applies,
        timeout=120.0,
    )
    return runs, tasks, log


def _make_selectors(tenant: Tenant, subject: Subject) -> Iterator[str]:
    """Yield label selectors, any of which marks a run as the merge request's."""
    for prefix in PREFIXES:
        yield f"{prefix}/sha={subject.sha}"
        if tenant.repository and not subject.branch:
            repository = f"{prefix}/repository={tenant.repository}"
            yield f"{repository},{prefix}/pull-request={subject.mr_iid}"


def _get_label(run: _TektonRun, name: str) -> str:
    found = (run.metadata.labels.get(f"{prefix}/{name}", "") for prefix in PREFIXES)
    return next(filter(None, found), "")


def _describe_outcome(run: _TektonRun) -> dict[str, Any]:
    state = {"True": "succeeded", "False": "failed"}.get(run.condition.status, "running")
    return present(
        status=state,
        reason=run.condition.reason,
        message=one_line(run.condition.message, 1000),
        started_at=run.status.startTime,
        ended_at=run.status.completionTime,
    )
