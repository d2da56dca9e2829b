"""Wraps the parts of a job in metrics and traces."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from worker import DISTRIBUTION
from worker.conversation.events import Event
from worker.conversation.model import Model
from worker.errors import ConfigError, ModelError
from worker.sessions.objects import Objects
from worker.telemetry.counting import make_watcher
from worker.telemetry.metrics import Metrics
from worker.telemetry.wrapped import (
    CountedDriver,
    CountedModel,
    CountedNoteWriter,
    CountedObjects,
    CountedReactions,
    CountedSandbox,
)
from worker.turns.parts import Deps

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
            reactions=CountedReactions(deps.gitlab.reactions, self.metrics),
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
