"""Wrappers that time and count the calls of a job's parts. Each implements its part's Protocol.

A method that adds only a time or a count is its part's method, decorated; one that adds nothing is
that method itself. mypy checks both against the Protocol.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import Histogram

from sandbox.base import Driver, ExecResult, Sandbox, SandboxError, SandboxGone
from worker.conversation.context import NoteRef, Subject
from worker.conversation.model import Model, Reply, Request
from worker.errors import ForgeError, StoreError
from worker.gitlab.ports import NoteWriter, Reactions
from worker.models.wrapper import ModelWrapper
from worker.sessions.objects import Objects
from worker.telemetry.metrics import Metrics
from worker.verdict.aftermath import load_aftermath

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
            self._metrics.pipeline_outcomes.labels(_find_outcome(content)).inc()
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


def _find_outcome(content: bytes) -> str:
    after = load_aftermath(content)
    return after.became if after else "other"


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


class CountedReactions:
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
