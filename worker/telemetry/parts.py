"""Wraps the parts of a job in metrics and traces.

Each wrapper implements its part's Protocol. A method that adds only a time or a count is its part's
method, decorated; one that adds nothing is that method itself. mypy checks both.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Histogram

from sandbox.base import Driver, ExecResult, Sandbox, SandboxError, SandboxGone
from worker import DISTRIBUTION
from worker.conversation.context import NoteRef, Subject
from worker.conversation.events import Event
from worker.conversation.model import Model, Reply, Request
from worker.errors import ConfigError, ForgeError, ModelError, StoreError
from worker.gitlab.ports import NoteWriter, Reactions
from worker.models.wrapper import ModelWrapper
from worker.sessions.objects import Objects
from worker.telemetry.metrics import Metrics, make_watcher
from worker.turns.parts import Deps
from worker.verdict.aftermath import load_aftermath

if TYPE_CHECKING:
    from worker.telemetry.traces import Traces


_CIRCUITS = ("closed", "probing", "open")


class Telemetry:
    """The metrics of one process, and its traces if any.

    Tools that are not among `tools` are counted as "other".
    """

    def __init__(self, tools: Collection[str], traces: "Traces | None" = None) -> None:
        self.metrics = Metrics()
        self._count = make_watcher(self.metrics, time.monotonic, frozenset(tools))
        self._traces = traces

    def watch(self, event: Event) -> None:
        """See conversation.events.Watcher."""
        self._count(event)
        if self._traces:
            self._traces.watch(event)

    def count_webhook(self, kind: str, outcome: str) -> None:
        """Count a request to the receiver."""
        self.metrics.webhooks.labels(kind, outcome).inc()

    def count_attempt(self, model: str, error: ModelError, again: bool) -> None:
        """Count a provider's failed attempt; `again` says that another attempt follows."""
        provider = model.partition("/")[0]
        self.metrics.provider_errors.labels(provider, error.kind).inc()
        if again:
            self.metrics.provider_retries.labels(provider).inc()

    def set_circuit(self, provider: str, circuit: str) -> None:
        """Record the state of a provider's circuit breaker: "closed", "probing" or "open"."""
        self.metrics.circuits.labels(provider).set(_CIRCUITS.index(circuit))

    def wrap_objects(self, objects: Objects) -> Objects:
        """Wrap a store's objects, so that calls are timed."""
        return CountedObjects(objects, self.metrics)

    def wrap_deps(self, deps: Deps) -> Deps:
        """Wrap the parts of a job, so that their calls are counted."""
        choices = {name: self._wrap_model(make) for name, make in deps.runtime.choices.items()}
        make_model, make_reply = deps.runtime.make_model, deps.runtime.make_reply_model
        runtime = replace(
            deps.runtime,
            sandboxes=CountedDriver(deps.runtime.sandboxes, self.metrics),
            model=self._wrap_model(deps.runtime.model),
            choices=choices,
            make_model=lambda wanted: self._wrap_model(partial(make_model, wanted))(),
            make_reply_model=lambda wanted: self._wrap_model(partial(make_reply, wanted))(),
            wrap_sandbox=lambda sandbox: CountedSandbox(sandbox, self.metrics),
        )
        gitlab = replace(
            deps.gitlab,
            notes=CountedNoteWriter(deps.gitlab.notes, self.metrics),
            reactions=_CountedReactions(deps.gitlab.reactions, self.metrics),
        )
        return replace(deps, runtime=runtime, gitlab=gitlab)

    def count_model(self, model: Model) -> Model:
        """Wrap a model, so that its calls are counted."""
        return CountedModel(model, self.metrics)

    def _wrap_model(self, make: Callable[[], Model]) -> Callable[[], Model]:
        def make_counted() -> Model:
            model = make()
            traced = self._traces.wrap_model(model) if self._traces else model
            return self.count_model(traced)

        return make_counted


def open_traces(
    endpoint: str, tools: Collection[str], providers: Mapping[str, str]
) -> "Traces | None":
    """Open traces to the collector at `endpoint`, or return None if that is "".

    Raises ConfigError if OpenTelemetry is not installed.
    """
    if not endpoint:
        return None
    try:
        from worker.telemetry.traces import Traces, open_exporter
    except ImportError as error:
        raise ConfigError(
            f"traces.endpoint ($OTEL_EXPORTER_OTLP_ENDPOINT) needs OpenTelemetry ({error.name} is "
            f"not there): pip install '{DISTRIBUTION}[otel]'"
        ) from error
    return Traces(open_exporter(endpoint), frozenset(tools), providers)


_AFTER = "/after.json"
_KILLED = 137


@contextmanager
def _time_call(histogram: Histogram, *labels: str) -> Iterator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        histogram.labels(*labels).observe(time.monotonic() - started)


class CountedModel(ModelWrapper):
    """See conversation.model.Model."""

    def __init__(self, model: Model, metrics: Metrics) -> None:
        super().__init__(model)
        self._metrics = metrics

    def reply(self, request: Request) -> Reply:
        """See Model."""
        started, outcome = time.monotonic(), "failed"
        try:
            reply = super().reply(request)
            outcome = "answered"
        finally:
            seconds = time.monotonic() - started
            self._metrics.calls.labels(self.name, outcome).observe(seconds)
        self._count_usage(reply)
        return reply

    def _count_usage(self, reply: Reply) -> None:
        usage, name = reply.usage, self.name
        for kind, tokens in (
            ("fresh", usage.uncached_input),
            ("cached", usage.cache_read),
            ("written", usage.cache_write),
            ("output", usage.output),
        ):
            self._metrics.tokens.labels(name, kind).inc(tokens)
        if reply.cost_usd is not None:
            self._metrics.cost.labels(name).inc(reply.cost_usd)


class CountedDriver:
    """See sandbox.base.Driver."""

    def __init__(self, driver: Driver, metrics: Metrics) -> None:
        self._driver, self._metrics = driver, metrics

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        """See Driver."""
        with self._time_start("fresh" if archive is None else "restored"):
            return self._driver.start(session, archive)

    def adopt(self, session: str) -> Sandbox | None:
        """See Driver. Finding no sandbox is not counted as a start."""
        started = time.monotonic()
        adopted = self._driver.adopt(session)
        if adopted is not None:
            seconds = time.monotonic() - started
            self._metrics.sandbox_starts.labels("adopted").observe(seconds)
        return adopted

    @contextmanager
    def _time_start(self, kind: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        except SandboxError:
            self._metrics.sandbox_failures.labels(kind).inc()
            raise
        self._metrics.sandbox_starts.labels(kind).observe(time.monotonic() - started)


class CountedSandbox:
    """See sandbox.base.Sandbox."""

    def __init__(self, sandbox: Sandbox, metrics: Metrics) -> None:
        self._sandbox, self._metrics = sandbox, metrics
        self.put = self._count_loss()(sandbox.put)
        self.get = self._count_loss()(sandbox.get)
        self.export, self.close = sandbox.export, sandbox.close

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """See Sandbox. Exit code 137 counts as a lack of memory, unless it is known to be none."""
        with self._count_loss():
            done = self._sandbox.exec(command, timeout=timeout, number=number, cwd=cwd)
        if done.timed_out:
            self._metrics.sandbox_kills.labels("timeout").inc()
        elif done.exit_code == _KILLED and done.out_of_memory is not False:
            self._metrics.sandbox_kills.labels("memory").inc()
        return done

    @contextmanager
    def _count_loss(self) -> Iterator[None]:
        try:
            yield
        except SandboxGone:
            self._metrics.sandbox_kills.labels("lost").inc()
            raise


class CountedObjects:
    """See sessions.objects.Objects. `list_names` and `open` are timed until their first result."""

    def __init__(self, objects: Objects, metrics: Metrics) -> None:
        self._objects, self._metrics = objects, metrics
        self.exists = self._time_operation("exists")(objects.exists)
        self.find_modification_time = self._time_operation("exists")(objects.find_modification_time)
        self.read = self._time_operation("read")(objects.read)
        self.replace = self._time_operation("replace")(objects.replace)
        self.write = self._time_operation("write")(objects.write)
        self.upload = self._time_operation("upload")(objects.upload)
        self.open = self._time_operation("open")(objects.open)
        self.delete = self._time_operation("delete")(objects.delete)
        self.describe_place = objects.describe_place

    def create(self, name: str, content: bytes) -> bool:
        """See Objects. A pipeline's outcome is created once, so it is counted here."""
        with self._time_operation("create"):
            created = self._objects.create(name, content)
        if created and name.endswith(_AFTER):
            after = load_aftermath(content)
            self._metrics.pipeline_outcomes.labels(after.became if after else "other").inc()
        return created

    def list_names(self, prefix: str) -> Iterator[str]:
        """See Objects."""
        names = self._objects.list_names(prefix)
        with self._time_operation("list"):
            first = next(names, None)
        if first is not None:
            yield first
            yield from names

    @contextmanager
    def _time_operation(self, operation: str) -> Iterator[None]:
        try:
            with _time_call(self._metrics.store_calls, operation):
                yield
        except StoreError as error:
            kind = "transient" if error.transient else "final"
            self._metrics.store_errors.labels(operation, kind).inc()
            raise


class CountedNoteWriter:
    """See gitlab.ports.NoteWriter. Finding notes is not counted."""

    def __init__(self, notes: NoteWriter, metrics: Metrics) -> None:
        self._notes, self._metrics = notes, metrics
        self.find_note, self.list_own_notes = notes.find_note, notes.list_own_notes
        self.post_note = _time_gitlab_write(metrics, "post")(notes.post_note)
        self.resolve_thread = _time_gitlab_write(metrics, "resolve")(notes.resolve_thread)
        self.remove_copies = notes.remove_copies

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """See NoteWriter. `hurried` edits are counted separately, because they may fail."""
        with _time_gitlab_write(self._metrics, "progress" if hurried else "edit"):
            self._notes.edit_note(subject, note, body, hurried=hurried)


class _CountedReactions:
    """See gitlab.ports.Reactions. Reading votes is not counted."""

    def __init__(self, reactions: Reactions, metrics: Metrics) -> None:
        time_write = _time_gitlab_write(metrics, "react")
        self.acknowledge_note = time_write(reactions.acknowledge_note)
        self.remove_acknowledgement = time_write(reactions.remove_acknowledgement)
        self.read_votes = reactions.read_votes


@contextmanager
def _time_gitlab_write(metrics: Metrics, operation: str) -> Iterator[None]:
    try:
        with _time_call(metrics.forge_calls, operation):
            yield
    except ForgeError as error:
        status = f"{error.status // 100}xx" if error.status else "none"
        metrics.forge_errors.labels(operation, status).inc()
        raise
