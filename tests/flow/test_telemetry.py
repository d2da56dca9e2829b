"""What the product's own processes tell of themselves: /metrics, JSON logs, votes, spans."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.flow.product import KEY, SECRET, free_port, product
from worker.lab import story

pytestmark = pytest.mark.usefixtures("bubblewrap")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(url: str) -> Samples:
    """What Prometheus would read."""
    answer = httpx.get(f"{url}/metrics", timeout=10).raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


def logged(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An OTLP/HTTP collector: its URL, and what came."""
    came: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            came.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()


def test_one_process_tells_of_a_run_its_votes_and_its_spans(tmp_path: Path) -> None:
    with collector() as (url, came), product(tmp_path, story.make_script(), "memory://") as told:
        told.write_settings("log: {format: json}\n")
        told.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        with told.serve() as serve:
            told.pipeline_failed()
            serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
            (note,) = told.notes()
            told.gitlab.add_reaction(note, told.scene.author, "thumbsup")
            told.gitlab.add_reaction(note, told.scene.bot, "eyes")
            serve.until(lambda: told.objects("feedback.json"), "the vote was not kept")
            told.gitlab.wait_for_deliveries()

            def counted() -> bool:
                ours = {"kind": "reaction", "outcome": "counted"}
                return of(scrape(told.url), "sandpiper_triggers_total", **ours) == 1

            serve.until(counted, "the vote was not counted")
            found = scrape(told.url)
            assert httpx.get(f"{told.url}/readyz").status_code == 200
        _assert_counted(found)
        _assert_logged(serve.log)
        shown = told.run("sessions", "show", told.objects("context.json")[0].parts[-3])
        assert "turn 0: reactions: 1 👍, 0 👎" in shown.stdout, shown.stderr
        spans = b"".join(came)
        assert b"invoke_agent sandpiper" in spans
        assert b"gen_ai.usage.cache_read.input_tokens" in spans
        assert b"execute_tool sandbox_exec" in spans
        assert b"AssertionError" not in spans
        assert KEY.encode() not in spans


def _assert_counted(found: Samples) -> None:
    door = {"kind": "pipeline", "outcome": "accepted"}
    assert of(found, "sandpiper_webhooks_total", **door) == 1
    assert of(found, "sandpiper_webhooks_total", kind="emoji", outcome="ignored") == 1
    assert of(found, "sandpiper_triggers_total", kind="pipeline", outcome="done") == 1
    assert of(found, "sandpiper_notes_total", verdict="change", origin="model") == 1
    assert of(found, "sandpiper_reactions_total", reaction="up", change="given") == 1
    assert of(found, "sandpiper_sessions_running") == 0
    assert of(found, "sandpiper_run_iterations_sum", outcome="done") == 4
    assert of(found, "sandpiper_queue_wait_seconds_count", kind="pipeline") == 1
    assert of(found, "sandpiper_placeholder_seconds_count") == 1
    assert of(found, "sandpiper_note_seconds_count") == 1
    assert of(found, "sandpiper_sandbox_start_seconds_count", kind="fresh") == 1
    assert (of(found, "sandpiper_store_seconds_count", operation="create") or 0) > 3
    model = "anthropic/claude-sonnet-5-5"
    assert (of(found, "sandpiper_model_tokens_total", model=model, kind="cached") or 0) > 1000
    assert (of(found, "sandpiper_model_cost_usd_total", model=model) or 0) > 0
    assert of(found, "sandpiper_journal_oldest_seconds") is not None
    labels = {value for _, pairs in found for _, value in pairs}
    assert not any("ferry" in value or "/-/" in value for value in labels)


def _assert_logged(log: Path) -> None:
    records = logged(log)
    ended = [each for each in records if str(each["msg"]).endswith("turn 0: done ")]
    assert len(ended) == 1
    assert {"ts", "level", "logger", "trigger", "session", "project"} <= set(ended[0])
    for secret in (KEY, SECRET):
        assert secret not in log.read_text()


def test_a_worker_has_a_port_of_its_own_and_the_receiver_its_part(
    tmp_path: Path, redis_url: str
) -> None:
    with product(tmp_path, story.make_script(), redis_url) as told:
        told.model.fail_next(529)
        port = free_port()
        with (
            told.process("worker", "--metrics-port", str(port)) as worker,
            told.serve() as serve,
        ):
            told.pipeline_failed()
            worker.until(lambda: told.objects("context.json"), "the analysis was not stored")

            def ended() -> bool:
                done = {"kind": "pipeline", "outcome": "done"}
                return (
                    of(scrape(f"http://127.0.0.1:{port}"), "sandpiper_triggers_total", **done) == 1
                )

            worker.until(ended, "the run was not counted")
            ours, door = scrape(f"http://127.0.0.1:{port}"), scrape(told.url)
            assert serve.popen.poll() is None
    assert of(ours, "sandpiper_queue_wait_seconds_count", kind="pipeline") == 1
    wait = of(ours, "sandpiper_queue_wait_seconds_sum", kind="pipeline")
    assert wait is not None
    assert 0 <= wait < 30
    labels = {"provider": "anthropic", "kind": "overloaded"}
    assert of(ours, "sandpiper_provider_errors_total", **labels) == 1
    assert of(ours, "sandpiper_provider_retries_total", provider="anthropic") == 1
    assert of(door, "sandpiper_webhooks_total", kind="pipeline", outcome="accepted") == 1
    assert of(door, "sandpiper_triggers_total", kind="pipeline", outcome="done") is None


@pytest.mark.attack("door")
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_receiver_with_a_port_for_metrics_shows_them_to_no_sender(
    tmp_path: Path, elsewhere: bool
) -> None:
    with product(tmp_path, story.make_script(), "memory://") as told:
        port = free_port() if elsewhere else 0
        with told.serve("--metrics-port", str(port)):
            assert httpx.get(f"{told.url}/metrics").status_code == 404
            if elsewhere:
                scraped = scrape(f"http://127.0.0.1:{port}")
                assert of(scraped, "sandpiper_sessions_running") == 0
