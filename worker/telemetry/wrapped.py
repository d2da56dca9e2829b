"""Wrappers that time and count the calls of a job's parts. Each implements its part's Protocol."""

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from prometheus_client import Histogram

from sandbox.base import Driver, ExecResult, Sandbox, SandboxError, SandboxGone
from worker.core.conversation.context import NoteRef, Subject
from worker.core.failure.aftermath import load_aftermath
from worker.core.ports import Model, Reply, Request
from worker.core.ports.gitlab import NoteWriter, OwnNote, Position, Reactions, Votes
from worker.core.ports.records import Stored
from worker.core.session_id import Marker
from worker.errors import ForgeError, StoreError
from worker.models.wrapper import ModelWrapper
from worker.sessions.objects import Objects
from worker.telemetry.metrics import Metrics

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
    """See core.ports.Model."""

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

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """See Sandbox. Exit code 137 counts as a lack of memory, as `sandbox_exec` reports it."""
        with self._count_loss():
            done = self._sandbox.exec(command, timeout=timeout, number=number, cwd=cwd)
        if done.timed_out:
            self._metrics.sandbox_kills.labels("timeout").inc()
        elif done.exit_code == _KILLED:
            self._metrics.sandbox_kills.labels("memory").inc()
        return done

    def put(self, path: str, content: Iterable[bytes]) -> int:
        """See Sandbox."""
        with self._count_loss():
            return self._sandbox.put(path, content)

    def get(self, path: str, *, limit: int) -> bytes:
        """See Sandbox."""
        with self._count_loss():
            return self._sandbox.get(path, limit=limit)

    def export(self) -> Iterator[bytes]:
        """See Sandbox."""
        return self._sandbox.export()

    def close(self) -> None:
        """See Sandbox."""
        self._sandbox.close()

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

    def exists(self, name: str) -> bool:
        """See Objects."""
        with self._time_operation("exists"):
            return self._objects.exists(name)

    def find_modification_time(self, name: str) -> float | None:
        """See Objects."""
        with self._time_operation("exists"):
            return self._objects.find_modification_time(name)

    def read(self, name: str, limit: int) -> Stored | None:
        """See Objects."""
        with self._time_operation("read"):
            return self._objects.read(name, limit)

    def create(self, name: str, content: bytes) -> bool:
        """See Objects. A pipeline's outcome is created once, so it is counted here."""
        with self._time_operation("create"):
            created = self._objects.create(name, content)
        if created and name.endswith(_AFTER):
            self._metrics.pipeline_outcomes.labels(_find_outcome(content)).inc()
        return created

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """See Objects."""
        with self._time_operation("replace"):
            return self._objects.replace(name, content, version)

    def write(self, name: str, content: bytes) -> None:
        """See Objects."""
        with self._time_operation("write"):
            self._objects.write(name, content)

    def upload(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Objects."""
        with self._time_operation("upload"):
            return self._objects.upload(name, chunks)

    def open(self, name: str) -> AbstractContextManager[Iterator[bytes]] | None:
        """See Objects."""
        with self._time_operation("open"):
            return self._objects.open(name)

    def delete(self, name: str, version: str | None = None) -> None:
        """See Objects."""
        with self._time_operation("delete"):
            self._objects.delete(name, version)

    def list_names(self, prefix: str) -> Iterator[str]:
        """See Objects."""
        names = self._objects.list_names(prefix)
        with self._time_operation("list"):
            first = next(names, None)
        if first is not None:
            yield first
            yield from names

    def describe_place(self, name: str) -> str:
        """See Objects."""
        return self._objects.describe_place(name)

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
    """See core.ports.gitlab.NoteWriter. Finding notes is not counted."""

    def __init__(self, notes: NoteWriter, metrics: Metrics) -> None:
        self._notes, self._metrics = notes, metrics

    def find_note(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """See NoteWriter."""
        return self._notes.find_note(subject, marker, discussion_id)

    def list_own_notes(self, subject: Subject) -> Iterator[OwnNote]:
        """See NoteWriter."""
        return self._notes.list_own_notes(subject)

    def post_note(
        self,
        subject: Subject,
        body: str,
        discussion_id: str,
        *,
        thread: bool = False,
        at: Position | None = None,
        internal: bool = False,
    ) -> NoteRef:
        """See NoteWriter."""
        with _time_gitlab_write(self._metrics, "post"):
            return self._notes.post_note(
                subject, body, discussion_id, thread=thread, at=at, internal=internal
            )

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """See NoteWriter. `hurried` edits are counted separately, because they may fail."""
        with _time_gitlab_write(self._metrics, "progress" if hurried else "edit"):
            self._notes.edit_note(subject, note, body, hurried=hurried)

    def resolve_thread(self, subject: Subject, note: NoteRef) -> None:
        """See NoteWriter."""
        with _time_gitlab_write(self._metrics, "resolve"):
            self._notes.resolve_thread(subject, note)


class CountedReactions:
    """See core.ports.gitlab.Reactions. Reading votes is not counted."""

    def __init__(self, reactions: Reactions, metrics: Metrics) -> None:
        self._reactions, self._metrics = reactions, metrics

    def acknowledge_note(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """See Reactions."""
        with _time_gitlab_write(self._metrics, "react"):
            self._reactions.acknowledge_note(project_id, mr_iid, note_id)

    def remove_acknowledgement(self, project_id: int, mr_iid: int, note_id: int) -> None:
        """See Reactions."""
        with _time_gitlab_write(self._metrics, "react"):
            self._reactions.remove_acknowledgement(project_id, mr_iid, note_id)

    def read_votes(self, project_id: int, mr_iid: int, note_id: int) -> Votes | None:
        """See Reactions."""
        return self._reactions.read_votes(project_id, mr_iid, note_id)


@contextmanager
def _time_gitlab_write(metrics: Metrics, operation: str) -> Iterator[None]:
    try:
        with _time_call(metrics.forge_calls, operation):
            yield
    except ForgeError as error:
        status = f"{error.status // 100}xx" if error.status else "none"
        metrics.forge_errors.labels(operation, status).inc()
        raise
