"""What is counted, read from the page as Prometheus reads it."""

import socket
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sandbox.base import ExecResult, SandboxGone, SandboxUnavailable
from tests.contexts import context
from tests.fakes import EMPTY, HandClock, MemorySandbox, says
from tests.jobs import FINDING, EchoToolset, Job, MemoryDriver
from tests.simulators.gitlab import GitLabSim
from worker.conversation.context import INCIDENT, Outcome, SessionKey, Status
from worker.conversation.events import IncidentClosed, IncidentOpened, TurnEnded
from worker.conversation.messages import ToolCall
from worker.conversation.triggers import Trigger
from worker.errors import ConfigError, ModelError, SandboxLost, StoreError
from worker.incidents.record import BranchFailure, Incident, IncidentState
from worker.jobs import delivery
from worker.models.wrapper import FAILURES, Breaker
from worker.queue.recovery import Recovery
from worker.sessions.folder import FolderStore
from worker.sessions.store import SessionStore
from worker.telemetry.metrics import Metrics
from worker.telemetry.parts import CountedDriver, CountedObjects, CountedSandbox, Telemetry
from worker.verdict.jobs import Survey
from worker.verdict.verdict import Verdict

KEY = SessionKey(7, 42, "0123456789abcdef0123")


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One sample of the page."""
    for family in text_string_to_metric_families(metrics.render_page().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


@pytest.fixture
def sim() -> Iterator[GitLabSim]:
    with GitLabSim() as running:
        yield running


@pytest.fixture
def told() -> Telemetry:
    return Telemetry(("look",))


def perform(at: Job, told: Telemetry, waited: float | None = 2.0) -> list[Trigger]:
    later: list[Trigger] = []
    deps = told.wrap_deps(at.build_deps())
    delivery.deliver_trigger(
        at.make_trigger(), deps, told.watch, lambda one, _: later.append(one), waited
    )
    return later


def test_incidents_and_whom_they_hit_are_counted(told: Telemetry) -> None:
    failure = BranchFailure("key", "E", ("test",), 101, 5.0)
    opened = Incident("main-101", IncidentState.OPEN, (failure,), opened_at=1000.0)
    closed = replace(opened, state=IncidentState.CLOSED, closed_at=4000.0)
    hit = context(survey=Survey(incidents=("main-101",)), outcome=Outcome(Status.DONE, ""))
    short, reply = replace(hit, found_by=INCIDENT), replace(hit, turn=1, look=0)
    ends = [TurnEnded(0, Outcome(Status.DONE, ""), "", "", each) for each in (hit, short, reply)]
    for end in (*ends, ends[1], TurnEnded(0, Outcome(Status.DONE, ""), "", "")):
        told.watch(end)
    # A clock that was set back leaves no time.
    taken_back = replace(closed, state=IncidentState.WITHDRAWN, closed_at=0.0)
    for change in (
        *(IncidentOpened(opened), IncidentClosed(closed)),
        *(IncidentOpened(opened), IncidentClosed(taken_back)),
    ):
        told.watch(change)
    changes = {"opened": 2, "closed": 1, "withdrawn": 1}
    for name, count in changes.items():
        assert value(told.metrics, "sandpiper_incidents_total", change=name) == count
    assert value(told.metrics, "sandpiper_incident_hits_total", kind="short") == 2
    assert value(told.metrics, "sandpiper_incident_hits_total", kind="part") == 1
    assert value(told.metrics, "sandpiper_incident_seconds_sum") == 3000
    assert value(told.metrics, "sandpiper_incident_seconds_count") == 1


def test_a_run_is_counted_from_the_queue_to_the_note(at: Job, told: Telemetry) -> None:
    call = ToolCall("1", "look", "{}")
    at.script_answers(says("", call, replace(call, id="2", name="invented")), FINDING)
    perform(at, told)
    metrics = told.metrics
    assert value(metrics, "sandpiper_triggers_total", kind="pipeline", outcome="done") == 1
    assert value(metrics, "sandpiper_queue_wait_seconds_sum", kind="pipeline") == 2
    assert value(metrics, "sandpiper_sessions_running") == 0
    assert value(metrics, "sandpiper_placeholder_seconds_count") == 1
    assert 2 <= (value(metrics, "sandpiper_note_seconds_sum") or 0) < 60
    assert value(metrics, "sandpiper_run_iterations_sum", outcome="done") == 2
    verdict = Verdict(at.load_context().verdict).name.lower()
    assert value(metrics, "sandpiper_notes_total", verdict=verdict, origin="model") == 1
    tokens = {"model": "test/model", "kind": "fresh"}
    assert value(metrics, "sandpiper_model_tokens_total", **tokens) == 20
    assert value(metrics, "sandpiper_model_cost_usd_total", model="test/model") == 0.02
    assert value(metrics, "sandpiper_gitlab_write_seconds_count", operation="post") == 1
    assert value(metrics, "sandpiper_sandbox_start_seconds_count", kind="fresh") == 1
    assert value(metrics, "sandpiper_tool_seconds_count", tool="look", outcome="done") == 1
    # What a model makes up is no label.
    assert value(metrics, "sandpiper_tool_seconds_count", tool="other", outcome="done") == 1


def test_a_model_that_is_down_is_a_failed_trigger_and_note(at: Job, told: Telemetry) -> None:
    at.script_answers(ModelError("down", transient=False))
    perform(at, told)
    labels = {"verdict": "failure", "origin": "model"}
    assert value(told.metrics, "sandpiper_notes_total", **labels) == 1
    labels = {"kind": "pipeline", "outcome": "failed"}
    assert value(told.metrics, "sandpiper_triggers_total", **labels) == 1
    labels = {"model": "test/model", "outcome": "failed"}
    assert value(told.metrics, "sandpiper_model_call_seconds_count", **labels) == 1


def test_the_same_trigger_again_is_skipped_and_nothing_runs(at: Job, told: Telemetry) -> None:
    at.script_answers(FINDING)
    perform(at, told)
    perform(at, told, None)
    labels = {"kind": "pipeline", "outcome": "skipped"}
    assert value(told.metrics, "sandpiper_triggers_total", **labels) == 1
    assert value(told.metrics, "sandpiper_queue_wait_seconds_count", kind="pipeline") == 1
    assert value(told.metrics, "sandpiper_note_seconds_count") == 1


def test_a_gitlab_that_is_away_is_counted_and_the_trigger_tried_again(
    at: Job, sim: GitLabSim, told: Telemetry
) -> None:
    sim.fail_next("POST", "/notes", 403, times=99)
    assert perform(at, told) == [at.make_trigger()]
    labels = {"operation": "post", "status": "4xx"}
    assert value(told.metrics, "sandpiper_gitlab_write_errors_total", **labels) == 1
    labels = {"kind": "pipeline", "outcome": "retried"}
    assert value(told.metrics, "sandpiper_triggers_total", **labels) == 1
    assert value(told.metrics, "sandpiper_sessions_running") == 0


def test_redactions_are_counted_by_kind(at: Job, told: Telemetry) -> None:
    at.script_answers(FINDING)
    toolset = EchoToolset(redacted={("gitlab-token", "the diff"): 3})
    deps = told.wrap_deps(at.build_deps(toolset=lambda subject, workflow: toolset))
    delivery.deliver_trigger(at.make_trigger(), deps, told.watch, lambda one, seconds: None)
    assert value(told.metrics, "sandpiper_redactions_total", kind="gitlab-token") == 3


def test_the_journal_is_seen_with_its_oldest_entry(at: Job, told: Telemetry) -> None:
    deps = at.build_deps()
    deps.queue.journal.add_trigger(at.make_trigger())
    at.clock.time += 90
    rescuer = Recovery(
        deps.queue.journal, deps.queue.leases, lambda one: None, at.clock, 1000.0, told.watch
    )
    rescuer.run_once()
    assert value(told.metrics, "sandpiper_journal_oldest_seconds") == 90
    assert value(told.metrics, "sandpiper_journal_entries", state="unfinished") == 1
    deps.queue.journal.remove_trigger(at.make_trigger())
    rescuer.run_once()
    deps.queue.leases.unregister()
    assert value(told.metrics, "sandpiper_journal_oldest_seconds") == 0


def test_the_providers_failures_are_counted_by_kind_with_the_retries(told: Telemetry) -> None:
    told.count_attempt("anthropic/some-model", ModelError("slow down", kind="rate_limit"), True)
    told.count_attempt("anthropic/some-model", ModelError("no", kind="bad_key"), False)
    labels = {"provider": "anthropic", "kind": "rate_limit"}
    assert value(told.metrics, "sandpiper_provider_errors_total", **labels) == 1
    assert value(told.metrics, "sandpiper_provider_retries_total", provider="anthropic") == 1


def test_the_state_of_a_circuit_is_shown(told: Telemetry) -> None:
    breaker = Breaker("anthropic", HandClock(), told.set_circuit)
    for _ in range(FAILURES):
        breaker.report_end(failed=True)
    assert value(told.metrics, "sandpiper_provider_circuit", provider="anthropic") == 2
    breaker.report_end(failed=False)
    assert value(told.metrics, "sandpiper_provider_circuit", provider="anthropic") == 0


def test_a_store_is_timed_and_what_became_of_a_pipeline_counted_once(tmp_path: Path) -> None:
    metrics = Metrics()
    store = SessionStore(CountedObjects(FolderStore(tmp_path).records, metrics))
    for _ in range(3):
        store.write_aftermath(KEY, 0, b'{"became": "fixed", "sha": "ab12"}')
    store.write_aftermath(KEY, 1, b'{"became": "</script>", "sha": "ab12"}')
    assert list(store.list_sessions()) == [KEY]
    assert value(metrics, "sandpiper_pipelines_after_total", became="fixed") == 1
    assert value(metrics, "sandpiper_pipelines_after_total", became="other") == 1
    assert value(metrics, "sandpiper_store_seconds_count", operation="create") == 4
    assert value(metrics, "sandpiper_store_seconds_count", operation="list") == 1
    with pytest.raises(StoreError):
        store.read_context(KEY, 9)
    (tmp_path / "sessions/7/42" / KEY.session_id / "0009").mkdir()
    (tmp_path / "sessions/7/42" / KEY.session_id / "0009/context.json").mkdir()
    with pytest.raises(StoreError):
        store.read_context(KEY, 9)
    labels = {"operation": "read", "kind": "final"}
    assert value(metrics, "sandpiper_store_errors_total", **labels) == 1


class Refusing(MemoryDriver):
    def start(self, session: str, archive: object = None) -> MemorySandbox:
        raise SandboxUnavailable("no engine")


def test_starts_and_kills_of_sandboxes_are_told_apart() -> None:
    metrics = Metrics()
    CountedDriver(MemoryDriver(), metrics).start("s", [b"tar"])
    assert value(metrics, "sandpiper_sandbox_start_seconds_count", kind="restored") == 1
    with pytest.raises(SandboxUnavailable):
        CountedDriver(Refusing(), metrics).start("s")
    assert value(metrics, "sandpiper_sandbox_start_failures_total", kind="fresh") == 1

    slow = ExecResult(None, EMPTY, EMPTY, 1.0, timed_out=True)
    large = ExecResult(137, EMPTY, EMPTY, 1.0)
    other = ExecResult(137, EMPTY, EMPTY, 1.0, out_of_memory=False)
    for answer in (slow, large, other, ExecResult(1, EMPTY, EMPTY, 1.0)):
        sandbox = MemorySandbox(lambda command, answer=answer: answer)  # type: ignore[misc]
        CountedSandbox(sandbox, metrics).exec("x", timeout=1, number=1)
    gone = MemorySandbox(gone=True)
    with pytest.raises(SandboxGone):
        CountedSandbox(gone, metrics).exec("x", timeout=1, number=1)
    reasons = ("timeout", "memory", "lost")
    kills = [value(metrics, "sandpiper_sandbox_kills_total", reason=each) for each in reasons]
    assert kills == [1, 1, 1]


def test_many_threads_lose_no_count() -> None:
    told = Telemetry(())

    def count() -> None:
        for _ in range(500):
            told.count_webhook("pipeline", "accepted")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = {"kind": "pipeline", "outcome": "accepted"}
    assert value(told.metrics, "sandpiper_webhooks_total", **labels) == 4000


def test_a_worker_answers_on_a_port_of_its_own() -> None:
    metrics = Metrics()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"metrics.port: {port}"):
            metrics.serve(port, "127.0.0.1")
    stop = metrics.serve(port, "127.0.0.1")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert b"sandpiper_sessions_running 0.0" in answer.read()
    stop()


def test_a_sandbox_that_is_lost_ends_the_run_and_is_counted(at: Job, told: Telemetry) -> None:
    toolset = EchoToolset()
    toolset.toolbox.fails = lambda call: SandboxLost("gone")
    at.script_answers(says("", ToolCall("1", "look", "{}")))
    deps = told.wrap_deps(at.build_deps(toolset=lambda subject, workflow: toolset))
    delivery.deliver_trigger(at.make_trigger(), deps, told.watch, lambda one, seconds: None)
    labels = {"kind": "pipeline", "outcome": "failed"}
    assert value(told.metrics, "sandpiper_triggers_total", **labels) == 1
