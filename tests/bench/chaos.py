"""Sessions while a killer is at work: nothing is lost, nothing is told twice, nothing is left.

Several worker processes over a Redis and an S3 server; GitLab and the model are simulators in
processes of their own, and failed pipelines come in by the door. A killer with a fixed seed strikes
workers (SIGKILL, SIGTERM), the broker (stopped or killed, then started again) and sandboxes. A
supervisor starts again what has ended. Needs root or a Docker engine, and redis-server.

    python -m tests.bench chaos --seconds 180 --seed 7 --sessions 200
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

from tests.bench.processes import running
from tests.brokers import RedisServer, running_redis
from tests.flow.product import KEY, SECRET, free_port
from tests.stores import CREDENTIALS, S3Server, running_s3
from worker.core.ports.records import RECORD
from worker.errors import StoreError
from worker.queue.journal import FOLDER, State, decode_entry
from worker.sessions.bucket import S3Store

WORKERS, CONCURRENCY, PROJECTS = 4, 8, 20
THINKS = 1.0
BROKER_AWAY = 2.0
HASTE = """\
worker: {heartbeat: 2, lease: 8, grace: 15}
note: {progress: 0}
known: {answer: false}
"""
STRIKES = {"SIGKILL": 4, "SIGTERM": 3, "broker": 2, "sandbox": 4}
"""What is struck, and how often of so many strikes."""

PAUSE = (1.5, 6.0)
"""Seconds between two strikes."""

AFTER = 420.0
"""Seconds for what is left when the killer has gone."""

Json = dict[str, Any]


@dataclass
class Simulator:
    """A process of `tests.bench.chaos_world`."""

    popen: "subprocess.Popen[str]"
    place: Json = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, **asked: Any) -> Json:
        """One line there and one line back."""
        with self.lock:
            assert self.popen.stdin
            print(json.dumps(asked), file=self.popen.stdin, flush=True)
            return self._line()

    def _line(self) -> Json:
        assert self.popen.stdout
        said: Json = json.loads(self.popen.stdout.readline())
        return said


@contextmanager
def simulated(which: str, argument: str) -> Iterator[Simulator]:
    """A simulator, until the end of the block."""
    words = [sys.executable, "-m", "tests.bench.chaos_world", which, argument]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as popen:
        made = Simulator(popen)
        made.place = made._line()
        try:
            yield made
        finally:
            popen.kill()


@dataclass
class Worker:
    """One place for a worker: whoever is in it is replaced when it has ended."""

    number: int
    folder: Path
    env: dict[str, str]
    popen: "subprocess.Popen[bytes] | None" = None
    logs: list[Path] = field(default_factory=list)

    def tend(self) -> None:
        """Start one if there is none."""
        if self.popen is not None and self.popen.poll() is None:
            return
        path = self.folder / f"worker-{self.number}-{len(self.logs)}.log"
        self.logs.append(path)
        program = str(Path(sys.executable).with_name("sandpiper"))
        words = [program, "worker", "--concurrency", str(CONCURRENCY), "--metrics-port", "0"]
        with path.open("wb") as log:
            self.popen = subprocess.Popen(
                words, env=self.env, cwd=self.folder, stdout=log, stderr=log
            )

    def names(self) -> set[str]:
        """Under which names the present process has been at work."""
        text = self.logs[-1].read_text(errors="replace")
        return set(re.findall(r"worker ([A-Za-z0-9.-]+) is registered", text))

    def end(self) -> None:
        """No more of them."""
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()


@dataclass
class World:
    """All that takes part."""

    store: S3Store
    gitlab: Simulator
    model: Simulator
    broker: RedisServer
    workers: list[Worker]
    chance: random.Random
    strikes: list[str] = field(default_factory=list)
    recovery: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def sessions(self) -> set[str]:
        """The ids of all sessions that the store knows."""
        return {key.session_id for key in self.store.list_sessions()}

    def owners(self) -> dict[str, str]:
        """Who works on what, by the journal."""
        found = {}
        for name in self.store.records.list_names(FOLDER):
            stored = self.store.records.read(name, RECORD)
            entry = decode_entry(stored.content) if stored else None
            if entry and entry.state is not State.PARKED:
                found[name] = entry.owner
        return found


# ------------------------------------------------------------------------------------- the killer


def _strike(world: World) -> None:
    kind = world.chance.choices(list(STRIKES), list(STRIKES.values()))[0]
    world.strikes.append(kind)
    if kind == "broker":
        world.broker.stop(world.chance.choice([signal.SIGTERM, signal.SIGKILL]))
        time.sleep(BROKER_AWAY)
        world.broker.start()
    elif kind == "sandbox":
        _kill_sandbox(world)
    else:
        _kill_worker(world, signal.Signals[kind])


def _kill_worker(world: World, how: signal.Signals) -> None:
    struck = world.chance.choice(world.workers)
    if struck.popen is None or struck.popen.poll() is not None:
        return
    names = struck.names()
    struck.popen.send_signal(how)
    at = time.monotonic()
    threading.Thread(target=_time_recovery, args=(world, names, at), daemon=True).start()


def _time_recovery(world: World, names: set[str], at: float) -> None:
    """Note for each trigger of a worker how long it was until another one had it, or its end."""
    waiting: set[str] | None = None
    while waiting is None or waiting:
        try:
            owners = world.owners()
        except StoreError:
            time.sleep(0.5)
            continue
        theirs = {name for name, owner in owners.items() if owner.partition("/")[0] in names}
        waiting = theirs if waiting is None else waiting
        gone = {name for name in waiting if name not in owners}
        again = {name for name in waiting - gone - theirs if owners[name]}
        world.recovery += [time.monotonic() - at] * len(gone | again)
        waiting -= gone | again
        if world.over.is_set():
            world.recovery += [float("inf")] * len(waiting)
            return
        time.sleep(0.5)


def _kill_sandbox(world: World) -> None:
    """One of ours: others may use the same engine."""
    running = _sandboxes(world.sessions())
    if running:
        with closing(docker.from_env()) as client, suppress(docker.errors.APIError):
            client.api.kill(world.chance.choice(sorted(running)))


def _sandboxes(sessions: set[str]) -> list[str]:
    """The ids of the containers of these sessions."""
    with closing(docker.from_env()) as client:
        found = client.api.containers(all=True, filters={"label": "sandpiper.session"})
    return [each["Id"] for each in found if each["Labels"].get("sandpiper.session", "") in sessions]


def _supervise(world: World) -> None:
    while not world.over.wait(0.5):
        for worker in world.workers:
            worker.tend()


def _accept(world: World, sessions: int, seconds: float, told: list[Json]) -> None:
    """Failures, spread over a time."""
    began = time.monotonic()
    for number in range(sessions):
        told.append(world.gitlab.ask(fail=number))
        time.sleep(max(0.0, began + seconds * (number + 1) / sessions - time.monotonic()))


# -------------------------------------------------------------------------------------- the story


def main(words: Sequence[str] = ()) -> None:
    """Run it and print what came of it; exit status 1 if anything was lost, doubled or left."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench chaos")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long the killer strikes")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--drain", type=float, default=AFTER, help="seconds for the rest, at most")
    parser.add_argument("--keep", help="a folder for the logs")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(chosen.keep or name)
        folder.mkdir(parents=True, exist_ok=True)
        world = _built(folder, random.Random(chosen.seed), stack)
        told: list[Json] = []
        began = time.monotonic()
        accepting = threading.Thread(
            target=_accept, args=(world, chosen.sessions, chosen.seconds * 0.75, told), daemon=True
        )
        accepting.start()
        while time.monotonic() < began + chosen.seconds:
            time.sleep(world.chance.uniform(*PAUSE))
            _strike(world)
        accepting.join(chosen.drain)
        _until(lambda: _done(world, told, chosen.sessions), chosen.drain)
        time.sleep(3)
        world.over.set()
        good = _tell(world, told, time.monotonic() - began, chosen)
    if not good:
        sys.exit(1)


def _done(world: World, told: list[Json], sessions: int) -> bool:
    """Whether every failure was taken and has its final note, and nobody works on anything."""
    notes = world.gitlab.ask()["notes"]
    final = sum(any(note["final"] for note in each) for each in notes)
    return len(told) == final == sessions and not world.owners()


def _built(folder: Path, chance: random.Random, stack: ExitStack) -> World:
    (folder / "sandpiper.yaml").write_text(HASTE)
    gitlab = stack.enter_context(simulated("gitlab", str(PROJECTS)))
    model = stack.enter_context(simulated("model", str(THINKS)))
    s3: S3Server = stack.enter_context(running_s3())
    broker = stack.enter_context(running_redis(folder, free_port()))
    bucket = s3.bucket()
    env = _environment(gitlab, model, broker, s3, bucket)
    serve = stack.enter_context(running(("serve",), env, str(folder)))
    gitlab.ask(door=f"http://127.0.0.1:{serve.port}/webhooks/gitlab")
    workers = [Worker(number, folder, env) for number in range(WORKERS)]
    world = World(s3.store(bucket, "chaos"), gitlab, model, broker, workers, chance)
    for worker in workers:
        stack.callback(worker.end)
    supervisor = threading.Thread(target=_supervise, args=(world,), daemon=True)
    stack.callback(supervisor.join, 10)
    stack.callback(world.over.set)
    supervisor.start()
    return world


def _environment(
    gitlab: Simulator, model: Simulator, broker: RedisServer, s3: S3Server, bucket: str
) -> dict[str, str]:
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "PYTHONPATH", "DOCKER_HOST")
        if name in os.environ
    }
    return {
        **kept,
        **CREDENTIALS,
        "GITLAB_URL": gitlab.place["url"],
        "GITLAB_READ_TOKEN": gitlab.place["read"],
        "GITLAB_WRITE_TOKEN": gitlab.place["write"],
        "GITLAB_WEBHOOK_SECRET": SECRET,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": model.place["url"],
        "SANDPIPER_BROKER": broker.url,
        "SANDPIPER_STORE": f"s3://{bucket}/chaos",
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _until(condition: Callable[[], object], seconds: float) -> None:
    """Wait for it, but no longer than so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(StoreError):
            if condition():
                return
        time.sleep(0.5)


def _tell(world: World, told: list[Json], seconds: float, chosen: argparse.Namespace) -> bool:
    """Print the figures; whether all is as it must be."""
    accepted = sum(one["accepted"] for one in told)
    seen, asked = world.gitlab.ask(), world.model.ask()
    notes = [each for each in seen["notes"] if each]
    duplicates = sum(len(each) - 1 for each in notes)
    finished = sum(1 for each in notes if any(note["final"] for note in each))
    left = len(_sandboxes(world.sessions()))
    unsettled = sum(1 for _ in world.store.records.list_names(FOLDER))
    times = sorted(world.recovery)
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))] if times else 0.0
    failed = sum(1 for each in notes for note in each if "analysis this time" in note["body"])
    struck = ", ".join(f"{world.strikes.count(kind)} {kind}" for kind in STRIKES)
    print(f"chaos: seed {chosen.seed}, {seconds:.0f} s, {WORKERS} workers; struck: {struck}")
    print(f"  accepted                {accepted:5d} of {chosen.sessions}")
    print(f"  refused and sent again  {sum(one['refused'] for one in told):5d}")
    print(f"  finished                {finished:5d}, {failed} of them without a finding")
    print(f"  notes posted            {sum(map(len, notes)):5d}")
    print(f"  duplicates              {duplicates:5d} (= 0)")
    print(f"  lost                    {accepted - finished:5d} (= 0)")
    print(f"  left in the journal     {unsettled:5d} (= 0)")
    print(f"  model calls             {asked['asked']:5d}, {asked['repeated']} of them repeated")
    print(f"  containers left         {left:5d} (= 0)")
    print(f"  recovery                {p95:7.1f} s p95, of {len(times)} runs whose worker ended")
    for strange in [*seen["strange"], *asked["strange"]][:5]:
        print(f"  strange: {strange}")
    lost = accepted - finished
    return not (duplicates or lost or left or unsettled or seen["strange"] or asked["strange"])
