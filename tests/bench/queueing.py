"""How long a webhook takes to become a job, and a note: processes over loopback, otherwise idle.

A job has started when its first question reaches GitLab, so each figure holds the door, the queue
and the worker's first steps. Needs a Docker engine, and a Redis for its row.
"""

import json
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import httpx

from tests.bench.processes import cpu_seconds, running
from tests.bench.receiver import HEADERS, SECRET
from tests.flow.product import Product, product
from tests.unit.webhook.cases import payload
from worker.lab.script import Say

SAMPLES, NOTES = 60, 5
AIM, AIM_NOTE = 0.010, 2.0
IDLE = 5.0
_NUMBERS = count(500_000)


@dataclass
class Ear:
    """A GitLab that knows nothing: when it was asked about which number, and 404 for an answer."""

    url: str = ""
    heard: dict[int, float] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def serve(self, listener: socket.socket) -> None:
        """Until the listener is closed."""
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        answer = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n"
        with peer:
            while asked := peer.recv(65536):
                now = time.perf_counter()
                with self.changed:
                    for word in asked.split(b" ", 2)[1].replace(b"?", b"/").split(b"/"):
                        if word.isdigit():
                            self.heard.setdefault(int(word), now)
                    self.changed.notify_all()
                peer.sendall(answer + b"content-length: 2\r\n\r\n{}")

    def about(self, number: int) -> float:
        """When it was first asked about `number`."""
        with self.changed:
            assert self.changed.wait_for(lambda: number in self.heard, 30), "no job has started"
            return self.heard[number]


def main() -> None:
    """Print the median and the 95th percentile of each way, and what waiting costs."""
    print("queue: webhook to …, p50 / p95 ms (aim)")
    with _ear() as ear:
        with _serve(ear, "memory://") as (port, pid):
            _row("… started job, embedded", _times(ear, port), AIM)
            _idle("embedded", pid)
        if url := os.environ.get("SANDPIPER_TEST_REDIS"):
            with _serve(ear, url) as (port, _), _worker(ear, url) as pid:
                _row("… started job, Redis", _times(ear, port), AIM)
                _idle("worker on Redis", pid)
    _row("… placeholder note, embedded", _placeholders(), AIM_NOTE)


def _row(what: str, times: list[float], aim: float) -> None:
    late = sorted(times)[int(len(times) * 0.95)]
    print(f"  {what:36s} {median(times) * 1000:6.1f} / {late * 1000:6.1f} (p50 ≤ {aim * 1000:.0f})")


def _idle(what: str, pid: int) -> None:
    before = cpu_seconds(pid)
    time.sleep(IDLE)
    share = (cpu_seconds(pid) - before) / IDLE
    print(f"  {what + ': CPU while idle':36s} {share:6.1%} of a core")


def _times(ear: Ear, port: int) -> list[float]:
    with httpx.Client(trust_env=False) as client:
        return [_started(ear, port, client) for _ in range(SAMPLES)]


def _started(ear: Ear, port: int, client: httpx.Client) -> float:
    """Seconds from the webhook's first byte to the job's first question."""
    number = next(_NUMBERS)
    time.sleep(random.uniform(0.05, 0.3))  # no two at the same point of somebody's polling
    began = time.perf_counter()
    response = client.post(
        f"http://127.0.0.1:{port}/webhooks/gitlab",
        headers={**HEADERS, "idempotency-key": str(number)},
        content=_failed(number),
    )
    assert response.status_code == httpx.codes.ACCEPTED, response.text
    return ear.about(number) - began


def _failed(number: int) -> bytes:
    event = json.loads(payload("pipeline__merge_request_failed"))
    event["object_attributes"]["id"] = number
    event["merge_request"]["iid"] = number
    # Whether the bot is a member of the project is what a job asks first.
    event["project"]["id"] = event["merge_request"]["target_project_id"] = number
    return json.dumps(event).encode()


@contextmanager
def _ear() -> Iterator[Ear]:
    ear = Ear()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=ear.serve, args=(listener,), daemon=True).start()
        while not ear.url:
            time.sleep(0.001)
        yield ear


@contextmanager
def _serve(ear: Ear, broker: str) -> Iterator[tuple[int, int]]:
    with _folder() as folder, running(("serve",), _environment(ear, broker, folder), folder) as it:
        yield it.port, it.pid


@contextmanager
def _worker(ear: Ear, broker: str) -> Iterator[int]:
    with _folder() as folder, running(("worker",), _environment(ear, broker, folder), folder) as it:
        _until(lambda: "ready" in it.log() or cpu_seconds(it.pid) > 0.5)
        yield it.pid


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()


def _environment(ear: Ear, broker: str, folder: str) -> Mapping[str, str]:
    return {
        "GITLAB_URL": ear.url,
        "GITLAB_TOKEN": "bench-token-0123456789",
        "GITLAB_WEBHOOK_SECRET": SECRET,
        "ANTHROPIC_API_KEY": "bench-key-0123456789",
        "SANDPIPER_BROKER": broker,
        "SANDPIPER_STORE": f"file://{folder}/store",
    }


def _placeholders() -> list[float]:
    """Seconds from the webhook to the note that says that Sandpiper looks at it."""
    times: list[float] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(_folder()))
        told = stack.enter_context(product(folder, lambda asked: Say("flaky"), "memory://"))
        stack.enter_context(told.serve())
        for number in range(NOTES):
            mr = told.gitlab.open_merge_request(
                told.scene.mr.project,
                told.scene.author,
                title=f"Change {number}",
                branch=f"change-{number}",
                files={f"file-{number}": b"1"},
            )
            pipeline = told.gitlab.run_pipeline(mr)
            told.gitlab.add_job(pipeline, "test")
            began = time.perf_counter()
            told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline))
            _until(mr.list_notes)
            times.append(time.perf_counter() - began)
            _until(partial(_stored, told, number + 1))
    return times


def _stored(told: Product, turns: int) -> bool:
    return len(told.objects("context.json")) >= turns


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)
