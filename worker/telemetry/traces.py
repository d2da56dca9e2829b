"""Records the events of runs as OpenTelemetry spans: run → iteration → chat and tools.

Names and attributes follow https://opentelemetry.io/docs/specs/semconv/gen-ai/. Spans contain only
ids, names, counts and times, and no text that anybody wrote. Only `parts` imports this module, and
only if traces are configured: OpenTelemetry is an optional dependency.
"""

import time
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

import requests
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from worker import __version__
from worker.conversation.events import Asking, Event, ToolRan, TriggerBegun, TriggerLeft, TurnEnded
from worker.conversation.model import Model, Reply, Request
from worker.conversation.triggers import trigger_id
from worker.errors import ModelError
from worker.models.wrapper import ModelWrapper
from worker.transport.urllib3_connections import BoundedAdapter, bind_session

TOTAL = 10.0
"""Seconds in which the collector has to have answered."""

_FAILED_OUTCOMES = ("failed", "parked", "error")
_AGENT = "sandpiper"


@dataclass(slots=True)
class _OpenSpans:
    """The open spans of a thread."""

    run: Span
    iteration: Span | None = None

    def get_innermost(self) -> Span:
        return self.iteration or self.run

    def start_iteration(self, span: Span | None) -> None:
        if self.iteration is not None:
            self.iteration.end()
        self.iteration = span


_open: ContextVar[_OpenSpans | None] = ContextVar("sandpiper_spans", default=None)


def open_exporter(endpoint: str) -> TracerProvider:
    """Open an exporter that sends spans in batches to the OTLP/HTTP collector at this base URL."""
    about = {"service.name": _AGENT, "service.version": __version__}
    provider = TracerProvider(resource=Resource.create(about))
    session = requests.Session()
    bind_session(session, BoundedAdapter(TOTAL))  # which trusts whom all others trust
    exporter = OTLPSpanExporter(
        endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=TOTAL, session=session
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class Traces:
    """A watcher and a model wrapper that make spans. Tools not among `tools` become "other".

    `providers` are the semantic conventions' names of our providers, where they differ from ours.
    """

    def __init__(
        self, provider: TracerProvider, tools: Collection[str], providers: Mapping[str, str]
    ) -> None:
        self._tracer = provider.get_tracer(_AGENT, __version__)
        self._tools = tools
        self._providers = providers

    def watch(self, event: Event) -> None:
        """See conversation.events.Watcher."""
        spans = _open.get()
        match event:
            case TriggerBegun(trigger):
                span = self._tracer.start_span(
                    f"invoke_agent {_AGENT}",
                    attributes={
                        "gen_ai.operation.name": "invoke_agent",
                        "gen_ai.agent.name": _AGENT,
                        "sandpiper.trigger.kind": trigger.kind,
                        "sandpiper.trigger.id": trigger_id(trigger),
                    },
                )
                _open.set(_OpenSpans(span))
            case Asking(iteration) if spans:
                attributes = {"sandpiper.iteration": iteration}
                spans.start_iteration(
                    self._start_span(spans.run, f"iteration {iteration}", attributes)
                )
            case ToolRan() if spans:
                self._trace_tool(event, spans)
            case TurnEnded() if spans:
                spans.start_iteration(None)
                _set_outcome(spans.run, event)
            case TriggerLeft(_, outcome) if spans:
                spans.start_iteration(None)
                spans.run.set_attribute("sandpiper.outcome", outcome)
                if outcome in _FAILED_OUTCOMES:
                    spans.run.set_status(Status(StatusCode.ERROR, outcome))
                spans.run.end()
                _open.set(None)
            case _:
                pass

    def wrap_model(self, model: Model) -> "_TracedModel":
        """Wrap a model, so that each call has a span."""
        return _TracedModel(model, self)

    def trace_call(self, model: Model, request: Request) -> Reply:
        """Call the model in a span."""
        provider, _, name = model.name.partition("/")
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._providers.get(provider, provider),
            "gen_ai.request.model": name,
            "gen_ai.conversation.id": request.session,
        }
        spans = _open.get()
        parent = spans.get_innermost() if spans else trace.INVALID_SPAN
        span = self._start_span(parent, f"chat {name}", attributes, SpanKind.CLIENT)
        try:
            reply = model.reply(request)
            _set_usage(span, model.name.partition("/")[2], reply)
        except ModelError as error:
            span.set_attribute("error.type", error.kind)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            span.end()
        return reply

    def _trace_tool(self, event: ToolRan, spans: _OpenSpans) -> None:
        """Record a tool's span afterwards: the event arrives when the tool has ended."""
        name = event.call.name if event.call.name in self._tools else "other"
        ended = time.time_ns()
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "sandpiper.tool.bytes": event.size,
        }
        began = ended - int(event.seconds * 1e9)
        span = self._start_span(
            spans.get_innermost(), f"execute_tool {name}", attributes, start=began
        )
        if event.is_error:
            span.set_attribute("error.type", "tool")
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def _start_span(
        self,
        parent: Span,
        name: str,
        attributes: Mapping[str, str | int],
        kind: SpanKind = SpanKind.INTERNAL,
        start: int | None = None,
    ) -> Span:
        context = trace.set_span_in_context(parent)
        return self._tracer.start_span(
            name, context, kind=kind, attributes=attributes, start_time=start
        )


class _TracedModel(ModelWrapper):
    """See conversation.model.Model."""

    def __init__(self, model: Model, traces: Traces) -> None:
        super().__init__(model)
        self._traces = traces

    def reply(self, request: Request) -> Reply:
        """See Model."""
        return self._traces.trace_call(self._model, request)


def _set_usage(span: Span, model: str, reply: Reply) -> None:
    usage = reply.usage
    span.set_attributes(
        {
            "gen_ai.response.model": model,
            "gen_ai.response.finish_reasons": [reply.stop.value],
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
        }
    )
    if reply.cost_usd is not None:
        span.set_attribute("sandpiper.cost_usd", reply.cost_usd)


def _set_outcome(span: Span, event: TurnEnded) -> None:
    span.set_attributes({"sandpiper.turn": event.turn, "sandpiper.status": event.outcome.status})
    if context := event.context:
        span.set_attributes(
            {
                "gen_ai.conversation.id": context.session_id,
                "gen_ai.request.model": context.model.partition("/")[2],
                "sandpiper.project_id": context.subject.project_id,
                "sandpiper.iterations": context.turn_usage.iterations,
            }
        )
