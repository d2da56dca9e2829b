"""How many sessions one worker holds while a slow model thinks, what they take, when they end.

The worker is a process of its own with a thread for each session; the model thinks for longer than
a run may last, so every session has to end itself. Needs a Docker engine and a Redis.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import mean

import docker

from tests.bench.processes import Process, memory, running
from tests.flow.product import DOCKER, Product, product
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gitlab import MergeRequest
from worker.lab.script import Say
from worker.safety.markdown import find_marker
from worker.settings.limits import LimitSettings

SESSIONS = 64
WALL_CLOCK = 5.0
THINKS = 600.0
MARGIN = 30.0
"""Seconds after its last chance to answer in which a run has to be saved and told of."""

MOST_MEMORY = 1 << 30
GIVE_UP = 240.0


def main() -> None:
    """Print the most sessions that waited at once, their memory, and how late they ended."""
    url = os.environ.get("SANDPIPER_TEST_REDIS")
    if not url:
        sys.exit("many: SANDPIPER_TEST_REDIS names no Redis: run `make bench`")
    with tempfile.TemporaryDirectory() as name, _world(Path(name), url) as told, told.serve():
        (Path(name) / "worker").mkdir()
        words = ("worker", "--concurrency", str(SESSIONS))
        with running(words, told.env, name) as worker:
            _until(lambda: memory(worker.pid) > 60 << 20)
            _measure(told, worker)


@contextmanager
def _world(folder: Path, url: str) -> Iterator[Product]:
    def thinks(*args: object, **options: object) -> AnthropicSim:
        return AnthropicSim(*args, think=THINKS, **options)  # type: ignore[arg-type]

    # All of one project: by default it would get half of the worker.
    limits = f"limits: {{wall_clock: {WALL_CLOCK:.0f}, project_concurrency: {SESSIONS}}}\n"
    with product(folder, lambda asked: Say("flaky"), url, thinks, driver=DOCKER) as told:
        told.write_settings(limits)
        yield told


def _measure(told: Product, worker: Process) -> None:
    idle = memory(worker.pid)
    began = time.monotonic()
    requests = [_fail(told, number) for number in range(SESSIONS)]
    most, peak, waiting, now = 0, idle, 0.0, 0.0
    containers: list[int] = []
    while len(told.objects("context.json")) < SESSIONS and now < GIVE_UP:
        now = time.monotonic() - began
        if len(told.model.requests) - len(told.model.answers) > most:
            most, waiting = len(told.model.requests) - len(told.model.answers), now
        if most == SESSIONS and not containers:
            containers = _containers(requests[:4])
        peak = max(peak, memory(worker.pid))
        time.sleep(0.1)
    _tell(idle, peak, most, waiting, containers)
    ended = len(told.objects("context.json"))
    aim = f"≤ {WALL_CLOCK:.0f} + {LimitSettings().final_grace:.0f} + {MARGIN:.0f} s"
    print(f"  ended by their deadlines             {ended:6d}, the last after {now:.1f} s ({aim})")


def _tell(idle: int, peak: int, most: int, waiting: float, containers: list[int]) -> None:
    print(
        f"many: {SESSIONS} sessions on one worker; the model thinks for longer than a run may last"
    )
    print(f"  waiting on the model at once         {most:6d} after {waiting:.1f} s (= {SESSIONS})")
    row = f"{peak >> 20:6d} MB (≤ {MOST_MEMORY >> 20}), {(peak - idle) / SESSIONS / 2**20:.2f} MB"
    print(f"  memory of the worker                 {row} a session")
    if containers:
        print(f"  memory of a waiting sandbox          {mean(containers) / 2**20:8.1f} MB")


def _fail(told: Product, number: int) -> MergeRequest:
    mr = told.gitlab.open_merge_request(
        told.scene.mr.project,
        told.scene.author,
        title=f"Change {number}",
        branch=f"change-{number}",
        files={f"file-{number}": b"1"},
    )
    pipeline = told.gitlab.run_pipeline(mr)
    told.gitlab.add_job(pipeline, "test", trace=b"it failed\n")
    told.gitlab.deliver(told.gitlab.make_pipeline_event(pipeline))
    return mr


def _containers(requests: Sequence[MergeRequest]) -> list[int]:
    """Bytes in memory of the sandboxes of some sessions."""
    usage: list[int] = []
    with closing(docker.from_env()) as client:
        for mr in requests:
            marker = find_marker(mr.list_notes()[0].body)
            label = f"sandpiper.session={marker.session_id if marker else None}"
            for each in client.api.containers(filters={"label": label}):
                told = client.api.stats(each["Id"], stream=False, one_shot=True)
                usage.append(told["memory_stats"].get("usage", 0))
    return usage


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
