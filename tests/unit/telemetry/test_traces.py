"""The spans of a run, as a collector would get them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.fakes import says
from tests.jobs import FINDING, Job
from worker.conversation.events import ToolRan, TriggerBegun, TriggerLeft
from worker.conversation.messages import ToolCall, Usage
from worker.errors import ModelError
from worker.jobs import delivery
from worker.telemetry.parts import Telemetry, open_traces
from worker.telemetry.traces import Traces

NAMES = {"anthropic-vertex": "gcp.vertex_ai"}
SAID = "a word that nobody may see"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def told(spans: InMemorySpanExporter) -> Iterator[Telemetry]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield Telemetry(("look",), Traces(provider, ("look",), NAMES))
    provider.shutdown()


def perform(at: Job, told: Telemetry) -> None:
    delivery.deliver_trigger(
        at.make_trigger(), told.wrap_deps(at.build_deps()), told.watch, lambda one, seconds: None
    )


def tree(spans: InMemorySpanExporter) -> dict[str, tuple[ReadableSpan, str]]:
    """Each span by its name, with its parent's name."""
    found = spans.get_finished_spans()
    names = {span.context.span_id: span.name for span in found if span.context}
    return {span.name: (span, names[span.parent.span_id] if span.parent else "") for span in found}


def test_a_run_is_a_tree_of_iterations_with_chats_and_tools(
    at: Job, told: Telemetry, spans: InMemorySpanExporter
) -> None:
    usage = Usage(uncached_input=5, cache_read=40, cache_write=10, output=7)
    first = replace(says(SAID, ToolCall("1", "look", json.dumps(SAID))), usage=usage)
    at.script_answers(first, FINDING)
    perform(at, told)
    found = tree(spans)
    assert {name: parent for name, (_, parent) in found.items()} == {
        "invoke_agent sandpiper": "",
        "iteration 1": "invoke_agent sandpiper",
        "iteration 2": "invoke_agent sandpiper",
        "execute_tool look": "iteration 1",
        "chat model": "iteration 2",
    }
    chats = [span for span in spans.get_finished_spans() if span.name == "chat model"]
    chat = dict(chats[0].attributes or {})
    assert chat.pop("gen_ai.conversation.id")
    assert chat == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "test",
        "gen_ai.request.model": "model",
        "gen_ai.response.model": "model",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 55,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "sandpiper.cost_usd": 0.01,
    }
    run = found["invoke_agent sandpiper"][0].attributes or {}
    assert run["sandpiper.outcome"] == "done"
    assert run["sandpiper.iterations"] == 2
    written = "".join(span.to_json() for span in spans.get_finished_spans())
    assert SAID not in written
    assert "A race in the test" not in written


def test_a_model_that_is_down_is_an_error_with_a_kind(
    at: Job, told: Telemetry, spans: InMemorySpanExporter
) -> None:
    at.script_answers(ModelError(SAID, kind="bad_key"))
    perform(at, told)
    found = tree(spans)
    chat, run = found["chat model"][0], found["invoke_agent sandpiper"][0]
    assert (chat.attributes or {})["error.type"] == "bad_key"
    assert chat.status.status_code is run.status.status_code is StatusCode.ERROR
    assert SAID not in "".join(span.to_json() for span in spans.get_finished_spans())


@pytest.mark.slow
def test_without_an_endpoint_opentelemetry_is_not_even_imported() -> None:
    assert open_traces("", (), {}) is None
    code = (
        "import sys; from worker import wiring; from worker.settings import Settings\n"
        "wiring.build_telemetry(Settings()); assert 'opentelemetry' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_endpoint_without_opentelemetry_is_refused_with_what_to_do() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from worker.telemetry.parts import open_traces\n"
        "open_traces('http://collector:4318', (), {})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert "pip install 'sandpiper-ci[otel]'" in done.stderr
    assert "ConfigError" in done.stderr


def test_a_tool_s_span_is_as_long_as_the_tool_ran_and_a_made_up_name_is_not_shown(
    at: Job, told: Telemetry, spans: InMemorySpanExporter
) -> None:
    told.watch(TriggerBegun(at.make_trigger()))
    told.watch(ToolRan(ToolCall("1", SAID, "{}"), 5, 5, 2.5, is_error=False))
    told.watch(TriggerLeft(at.make_trigger(), "done", ran=True))
    tool, run = spans.get_finished_spans()
    assert (tool.name, run.name) == ("execute_tool other", "invoke_agent sandpiper")
    assert tool.start_time
    assert tool.end_time
    assert tool.end_time - tool.start_time == 2_500_000_000
