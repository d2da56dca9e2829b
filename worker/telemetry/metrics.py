"""Every metric of Sandpiper, by name, the page that Prometheus reads, and what counts events.

Labels have few values, and never text from outside (names of projects, branches, or tools that a
model invents). `webhooks` counts requests to the receiver, `triggers` the results of the work.
"""

from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass, field

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
    start_http_server,
)

from worker import __version__
from worker.conversation.context import INCIDENT, Status
from worker.conversation.events import (
    Backlog,
    Event,
    IncidentClosed,
    IncidentOpened,
    JobRetried,
    Milestone,
    Stage,
    ToolRan,
    TriggerBegun,
    TriggerLeft,
    TurnEnded,
    VerdictJudged,
    VotesChanged,
    Watcher,
)
from worker.errors import ConfigError
from worker.settings.models import Signal
from worker.verdict.verdict import Verdict

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAIT = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
_RUN = (1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800)
_CALL = (0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_RED = (300, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 259_200)
_ITERATIONS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 50, 100)


class Metrics:
    """The metrics of one process. Safe to share between threads."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        about = Info("sandpiper_build", "What is running.", registry=self.registry)
        about.info({"version": __version__})
        self._make_work_metrics()
        self._make_model_metrics()
        self._make_part_metrics()
        self._make_note_metrics()
        self._make_incident_metrics()

    def render_page(self) -> bytes:
        """Return the page that Prometheus reads, in its text format 0.0.4."""
        return generate_latest(self.registry)

    def serve(self, port: int, host: str = "0.0.0.0") -> Callable[[], None]:
        """Serve the page on a port in a thread, and return a function that stops it.

        Raises ConfigError.
        """
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            raise ConfigError(f"metrics.port: {port} cannot be opened: {error}") from error

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join(5)

        return stop

    def _make_work_metrics(self) -> None:
        self.webhooks = self._make_counter(
            "sandpiper_webhooks",
            "Requests at the door: accepted, ignored, rejected (not ours), unavailable (no queue).",
            "kind",
            "outcome",
        )
        self.triggers = self._make_counter(
            "sandpiper_triggers",
            "Triggers a worker was done with: done, partial, failed, told, settled, counted, "
            "watched, skipped; held, retried, handed_over, parked, error.",
            "kind",
            "outcome",
        )
        self.queue_wait = self._make_histogram(
            "sandpiper_queue_wait_seconds", "From the queue's door to a worker.", _WAIT, "kind"
        )
        self.journal = self._make_gauge(
            "sandpiper_journal_entries", "Triggers in the journal, as last seen.", "state"
        )
        self.journal_age = self._make_gauge(
            "sandpiper_journal_oldest_seconds", "Age of the oldest trigger that is not done."
        )
        self.running_sessions = self._make_gauge(
            "sandpiper_sessions_running", "Triggers that this process is working on."
        )

    def _make_model_metrics(self) -> None:
        self.calls = self._make_histogram(
            "sandpiper_model_call_seconds", "One iteration's wait, retries included.", _CALL,
            "model", "outcome",
        )  # fmt: skip
        self.tokens = self._make_counter(
            "sandpiper_model_tokens", "fresh, cached and written input, and output.",
            "model", "kind",
        )  # fmt: skip
        self.cost = self._make_counter(
            "sandpiper_model_cost_usd", "Dollars, as far as known.", "model"
        )
        self.provider_errors = self._make_counter(
            "sandpiper_provider_errors", "Attempts that a provider failed.", "provider", "kind"
        )
        self.provider_retries = self._make_counter(
            "sandpiper_provider_retries", "Attempts that were made again.", "provider"
        )
        self.circuits = self._make_gauge(
            "sandpiper_provider_circuit", "0 closed, 1 letting one request through, 2 open.",
            "provider",
        )  # fmt: skip
        self.fallbacks = self._make_counter(
            "sandpiper_model_fallbacks", "Turns that another model took over.", "model"
        )

        self.tier_calls = self._make_counter(
            "sandpiper_tier_calls", "Model calls of turns with a tier.", "tier", "level", "model"
        )
        self.verdict_labels = self._make_counter(
            "sandpiper_verdict_labels",
            "Verdicts that were confirmed or contradicted by what came after them.",
            "verdict",
            "label",
        )
        self.tier_raises = self._make_counter(
            "sandpiper_tier_raises", "Turns in which a stronger model went on.", "tier", "signal"
        )

    def _make_part_metrics(self) -> None:
        self.sandbox_starts = self._make_histogram(
            "sandpiper_sandbox_start_seconds", "Starts: fresh, restored (with files), adopted.",
            _FAST, "kind",
        )  # fmt: skip
        self.sandbox_failures = self._make_counter(
            "sandpiper_sandbox_start_failures", "Sandboxes that did not start.", "kind"
        )
        self.sandbox_kills = self._make_counter(
            "sandpiper_sandbox_kills",
            "Commands ended by force (timeout, memory) and containers that died (lost).",
            "reason",
        )
        self.store_calls = self._make_histogram(
            "sandpiper_store_seconds", "The session store.", _FAST, "operation"
        )
        self.store_errors = self._make_counter(
            "sandpiper_store_errors", "transient: worth another try.", "operation", "kind"
        )
        self.forge_calls = self._make_histogram(
            "sandpiper_gitlab_write_seconds", "Writing to GitLab.", _FAST, "operation"
        )
        self.forge_errors = self._make_counter(
            "sandpiper_gitlab_write_errors", "By status class, none for no answer.",
            "operation", "status",
        )  # fmt: skip
        self.tools = self._make_histogram(
            "sandpiper_tool_seconds", "Tool calls of the model.", _FAST, "tool", "outcome"
        )

    def _make_note_metrics(self) -> None:
        self.to_placeholder = self._make_histogram(
            "sandpiper_placeholder_seconds", "From the queue's door to the first sign.", _WAIT
        )
        self.to_note = self._make_histogram(
            "sandpiper_note_seconds", "From the queue's door to the result.", _RUN
        )
        self.iterations = self._make_histogram(
            "sandpiper_run_iterations", "Model calls of a turn.", _ITERATIONS, "outcome"
        )
        self.notes = self._make_counter(
            "sandpiper_notes", "By verdict (or answer, failure) and by whom: model, rule, known.",
            "verdict", "origin",
        )  # fmt: skip
        self.redactions = self._make_counter(
            "sandpiper_redactions", "Secrets taken out of what a turn has read.", "kind"
        )
        self.folds = self._make_counter(
            "sandpiper_folds", "How conversations were kept inside the window.", "kind"
        )
        self.reactions = self._make_counter(
            "sandpiper_reactions", "up and down on our notes, given and withdrawn.",
            "reaction", "change",
        )  # fmt: skip
        self.pipeline_outcomes = self._make_counter(
            "sandpiper_pipelines_after", "What became of analysed pipelines.", "became"
        )

    def _make_incident_metrics(self) -> None:
        self.incidents = self._make_counter(
            "sandpiper_incidents",
            "Red branches: opened (also anew), closed, withdrawn (it was a flake).",
            "change",
        )
        self.retries = self._make_counter(
            "sandpiper_retries",
            "Jobs that `retry` has run again: begun, passed, failed (again in the same way).",
            "verdict",
            "change",
        )
        self.red_seconds = self._make_histogram(
            "sandpiper_incident_seconds", "From an incident's opening to its end.", _RED
        )
        self.hits = self._make_counter(
            "sandpiper_incident_hits",
            "Notes that begin with a red branch: short (all they say, without a model), part.",
            "kind",
        )

    def _make_counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _make_gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, registry=self.registry)

    def _make_histogram(
        self, name: str, about: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(name, about, labels, buckets=buckets, registry=self.registry)


_ORIGINS = ("rule", "known", "incident", "train")


@dataclass(slots=True)
class _Work:
    """The trigger that a thread works on; `since` is when it was queued, in monotonic seconds."""

    since: float
    waited: float | None = None
    seen: set[Milestone] = field(default_factory=set)


_work: ContextVar[_Work | None] = ContextVar("sandpiper_run", default=None)


def make_watcher(
    metrics: Metrics, monotonic: Callable[[], float], tools: Collection[str]
) -> Watcher:
    """Make a watcher that counts events. Tools not among `tools` are counted as "other"."""

    def watch(event: Event) -> None:
        match event:
            case TriggerBegun(trigger, waited):
                _work.set(_Work(monotonic() - (waited or 0.0), waited))
                metrics.running_sessions.inc()
            case TriggerLeft(trigger, outcome, ran):
                work = _work.get()
                # A held trigger keeps waiting; a message that came twice has not waited for a run.
                if work and work.waited is not None and ran:
                    metrics.queue_wait.labels(trigger.kind).observe(work.waited)
                _work.set(None)
                metrics.running_sessions.dec()
                metrics.triggers.labels(trigger.kind, outcome).inc()
            case Stage(milestone=Milestone() as reached) if reached:
                # Once per run: posting a note again is not a second result.
                if (work := _work.get()) and reached not in work.seen:
                    work.seen.add(reached)
                    is_note = reached is Milestone.NOTE
                    histogram = metrics.to_note if is_note else metrics.to_placeholder
                    histogram.observe(monotonic() - work.since)
            case ToolRan():
                tool = event.call.name if event.call.name in tools else "other"
                outcome = "failed" if event.is_error else "done"
                metrics.tools.labels(tool, outcome).observe(event.seconds)
            case TurnEnded():
                _count_end(metrics, event)
            case Backlog(unfinished, parked, oldest):
                metrics.journal.labels("unfinished").set(unfinished)
                metrics.journal.labels("parked").set(parked)
                metrics.journal_age.set(oldest)
            case VotesChanged(given, withdrawn):
                for change, votes in (("given", given), ("withdrawn", withdrawn)):
                    for vote in votes:
                        metrics.reactions.labels(vote, change).inc()
            case JobRetried(verdict, came):
                metrics.retries.labels(Verdict(verdict).name.lower(), came or "begun").inc()
            case IncidentOpened():
                metrics.incidents.labels("opened").inc()
            case IncidentClosed(incident):
                metrics.incidents.labels(incident.state).inc()
                if incident.closed_at > incident.opened_at > 0:
                    metrics.red_seconds.observe(incident.closed_at - incident.opened_at)
            case VerdictJudged(verdict, label):
                metrics.verdict_labels.labels(Verdict(verdict).name.lower(), label).inc()
            case _:
                pass

    return watch


def _count_end(metrics: Metrics, event: TurnEnded) -> None:
    context = event.context
    if context is None:
        return
    metrics.iterations.labels(event.outcome.status).observe(context.turn_usage.iterations)
    is_known = context.is_look and context.found_by in _ORIGINS
    verdict = Verdict(context.verdict).name.lower() if context.verdict else "answer"
    if event.outcome.status is Status.FAILED:
        verdict = "failure"
    metrics.notes.labels(verdict, context.found_by if is_known else "model").inc()
    if context.is_look and context.survey and context.survey.incidents:
        metrics.hits.labels("short" if context.found_by == INCIDENT else "part").inc()
    for kind, number, _ in context.redactions:
        metrics.redactions.labels(kind).inc(number)
    for fold in context.folds:
        if fold.made_at > context.turn_start:
            metrics.folds.labels(fold.kind).inc()
    if context.gave_way:
        metrics.fallbacks.labels(context.gave_way).inc()
    for call in context.calls:
        if call.turn == context.turn and call.tier:
            metrics.tier_calls.labels(call.tier, call.reasoning, call.model).inc()
    tier = context.tier
    if tier and tier.raised_in == context.turn:
        signal = tier.reason.removeprefix("raised: ")
        signal = signal if signal in tuple(Signal) else "asked"
        metrics.tier_raises.labels(tier.tier, signal).inc()
