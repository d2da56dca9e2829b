"""Sessions while a killer is at work: nothing is lost, nothing is told twice, nothing is left.

Several worker processes over a Redis and an S3 server; GitLab and the model are simulators in
processes of their own, and failed pipelines come in by the door. A killer with a fixed seed strikes
workers, sandboxes, Redis (stopped, killed, emptied), S3 (down, or 200 with what it has not said)
and GitLab (a proxy's page, a login, 401, 403, 404, `{}`, a POST that is carried out late or twice).
A supervisor starts again what has ended. When all is quiet `sandpiper sweep` runs, as it does every
hour. Needs root or a Docker engine, and redis-server.

    python -m tests.bench chaos --strikes 200 --seed 7 --sessions 200
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.processes import running
from tests.bench.strikes import DECK, Killer, Worker, find_sandboxes
from tests.brokers import RedisServer, running_redis
from tests.flow.product import KEY, SECRET, free_port
from tests.simulators.s3_gateway import S3Gateway
from tests.stores import CREDENTIALS, S3Server, running_s3
from worker.errors import StoreError
from worker.queue.journal import FOLDER, State, decode_entry
from worker.sessions.bucket import S3Store
from worker.sessions.checked import KEPT
from worker.sessions.objects import RECORD

WORKERS, PROJECTS = 4, 20
THINKS = 1.0
HASTE = """\
worker: {heartbeat: 2, lease: 8, grace: 15}
note: {progress: 0}
known: {answer: false}
"""
PAUSE = (0.5, 4.0)
"""Seconds between two strikes."""

PACE = 4.0
"""Seconds that one strike takes, with its pause, about."""

AFTER = 900.0
"""Seconds for what is left when the killer has gone: a 404 is believed after ten minutes."""

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
class World:
    """All that takes part."""

    folder: Path
    env: dict[str, str]
    store: S3Store
    gitlab: Simulator
    model: Simulator
    workers: list[Worker]
    over: threading.Event = field(default_factory=threading.Event)

    def sessions(self) -> set[str]:
        """The ids of all sessions that the store knows."""
        return {key.session_id for key in self.store.list_sessions()}

    def entries(self) -> dict[str, tuple[State, str]]:
        """The state and the owner of each entry of the journal."""
        found = {}
        for name in self.store.records.list_names(FOLDER):
            if stored := self.store.records.read(name, RECORD):
                entry = decode_entry(stored.content)
                found[name] = entry.state, entry.owner
        return found

    def owners(self) -> dict[str, str]:
        """Who works on what, by the journal."""
        found = self.entries().items()
        return {name: owner for name, (state, owner) in found if state is not State.PARKED}

    def supervise(self) -> None:
        """Start each worker again that has ended, until it is over."""
        while not self.over.wait(0.5):
            for worker in self.workers:
                worker.tend()

    def is_done(self, sessions: int) -> bool:
        """Whether every failure was taken and has its final note, and nobody has any work."""
        seen = self.gitlab.ask()
        final = sum(any(note["final"] for note in each) for each in seen["notes"])
        return seen["settled"] == final == sessions and not self.owners()

    def sweep(self) -> str:
        """What `sandpiper sweep` says."""
        words = [str(Path(sys.executable).with_name("sandpiper")), "sweep", "--keep-sandboxes"]
        done = subprocess.run(
            words, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr


def _accept(world: World, sessions: int, seconds: float) -> None:
    """Failures, spread over a time."""
    began = time.monotonic()
    for number in range(sessions):
        world.gitlab.ask(fail=number)
        time.sleep(max(0.0, began + seconds * (number + 1) / sessions - time.monotonic()))


def main(words: Sequence[str] = ()) -> None:
    """Run it and print what came of it; exit status 1 if anything was lost, doubled or left."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench chaos")
    parser.add_argument("--strikes", type=int, default=200, help="how often the killer strikes")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--drain", type=float, default=AFTER, help="seconds for the rest, at most")
    parser.add_argument("--keep", help="a folder for the logs")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(chosen.keep or name)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"chaos: seed {chosen.seed}, {chosen.strikes} strikes", flush=True)
        world, killer = _build(folder, random.Random(chosen.seed), stack)
        began = time.monotonic()
        spread = chosen.strikes * PACE * 0.75
        accepting = threading.Thread(target=_accept, args=(world, chosen.sessions, spread))
        accepting.start()
        killer.strike(chosen.strikes, PAUSE)
        killer.rest()
        accepting.join()
        quiet = time.monotonic()
        print(f"  the killer has gone after {quiet - began:.0f} s", flush=True)
        _until(lambda: world.is_done(chosen.sessions), chosen.drain)
        settled = time.monotonic() - quiet
        for line in world.sweep().splitlines()[-10:]:
            print(f"  sweep: {line}")
        _until(lambda: world.is_done(chosen.sessions), 60.0)
        world.over.set()
        print(f"  quiet {settled:.0f} s after it had gone")
        good = _tell(world, killer, chosen)
    if not good:
        sys.exit(1)


def _build(folder: Path, chance: random.Random, stack: ExitStack) -> tuple[World, Killer]:
    (folder / "sandpiper.yaml").write_text(HASTE)
    gitlab = stack.enter_context(simulated("gitlab", str(PROJECTS)))
    model = stack.enter_context(simulated("model", str(THINKS)))
    s3: S3Server = stack.enter_context(running_s3())
    gateway = stack.enter_context(S3Gateway(s3.endpoint))
    broker = stack.enter_context(running_redis(folder, free_port()))
    bucket = s3.bucket()
    env = _make_environment(gitlab, model, broker, gateway, bucket)
    serve = stack.enter_context(running(("serve",), env, str(folder)))
    gitlab.ask(door=f"http://127.0.0.1:{serve.port}/webhooks/gitlab")
    workers = [Worker(number, folder, env) for number in range(WORKERS)]
    world = World(folder, env, s3.store(bucket, "chaos"), gitlab, model, workers)
    for worker in workers:
        stack.callback(worker.end)
    supervisor = threading.Thread(target=world.supervise, daemon=True)
    stack.callback(supervisor.join, 10)
    stack.callback(world.over.set)
    supervisor.start()
    parts = (gitlab, gateway, broker, workers, world.owners, world.sessions, world.over)
    return world, Killer(chance, *parts)


def _make_environment(
    gitlab: Simulator, model: Simulator, broker: RedisServer, gateway: S3Gateway, bucket: str
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
        "AWS_ENDPOINT_URL_S3": gateway.url,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _until(condition: Callable[[], object], seconds: float) -> None:
    """Wait for it, but no longer than so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(StoreError):
            if condition():
                return
        time.sleep(1)


def _tell(world: World, killer: Killer, chosen: argparse.Namespace) -> bool:
    """Print the figures; whether all is as it must be."""
    seen, asked = world.gitlab.ask(), world.model.ask()
    notes = [each for each in seen["notes"] if each]
    finished = sum(1 for each in notes if any(note["final"] for note in each))
    entries = world.entries()
    parked = sum(state is State.PARKED for state, _ in entries.values())
    must_be_none = {
        "lost": seen["accepted"] - finished,
        "duplicates": sum(len(each) - 1 for each in notes),
        "placeholders left": sum(not note["final"] for each in notes for note in each),
        "parked": parked,
        "left in the journal": len(entries) - parked,
        "damaged, set aside": sum(1 for _ in world.store.records.list_names(KEPT)),
        "containers left": len(find_sandboxes(world.sessions())),
        "strange requests": len(seen["strange"]) + len(asked["strange"]),
    }
    failed = sum("analysis this time" in note["body"] for each in notes for note in each)
    times = sorted(killer.recovery)
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))] if times else 0.0
    print(f"  struck {killer.struck.total()} times, with {WORKERS} workers at work:")
    for kind in DECK:
        print(f"    {kind:<20} {killer.struck[kind]:4d}")
    print(f"  accepted             {seen['accepted']:5d} of {chosen.sessions}")
    print(f"  refused, sent again  {seen['refused']:5d}")
    print(f"  finished             {finished:5d}, {failed} of them without a finding")
    print(f"  model calls          {asked['asked']:5d}, {asked['repeated']} of them repeated")
    print(f"  odd answers given    {seen['odd']:5d} by GitLab, {len(killer.s3.given)} by S3")
    print(f"  recovery             {p95:5.0f} s p95, of {len(times)} runs whose worker ended")
    for name, count in must_be_none.items():
        print(f"  {name:<20} {count:5d} (= 0)")
    for strange in [*seen["strange"], *asked["strange"]][:5]:
        print(f"  strange: {strange}")
    return not any(must_be_none.values())
