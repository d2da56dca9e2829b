"""What the killer of `python -m tests.bench chaos` strikes: one kind of strike after the other.

A deck of all kinds is shuffled by the seed, so that every kind is among 200 strikes. Strikes of one
area never overlap, those of different areas may.
"""

import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import docker
import redis

from tests.brokers import RedisServer
from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import S3Gateway
from worker.errors import StoreError

CONCURRENCY = 8
BROKER_AWAY = 2.0
START_UP = 180.0
"""Seconds for which a strike waits for a worker that has begun: on a busy machine each start takes
a minute, and whoever is killed before proves nothing."""

ODD_SECONDS = (2.0, 12.0)
"""How long GitLab or S3 answers oddly."""

DECK = {
    "worker SIGKILL": 6,
    "worker SIGTERM": 4,
    "sandbox killed": 4,
    "redis stopped": 3,
    "redis killed": 3,
    "redis emptied": 5,
    "s3 down": 4,
    **{f"s3 {kind}": 3 for kind in OddS3},
    "gitlab page": 3,
    "gitlab login": 3,
    "gitlab 401": 3,
    "gitlab 403": 3,
    "gitlab 404": 3,
    "gitlab empty": 3,
    "gitlab late": 4,
    "gitlab doubled": 4,
}
"""The kinds, and how often each is struck of so many strikes."""

Json = dict[str, Any]


class Asked(Protocol):
    """A simulator in a process of its own."""

    def ask(self, **asked: Any) -> Json:
        """One line there and one line back."""
        ...


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

    def is_at_work(self) -> bool:
        """Whether the present process has come so far as to take work."""
        return self.popen is not None and self.popen.poll() is None and bool(self.names())

    def end(self) -> None:
        """No more of them."""
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()


def find_sandboxes(sessions: set[str]) -> list[str]:
    """The ids of the containers of these sessions."""
    with closing(docker.from_env()) as client:
        found = client.api.containers(all=True, filters={"label": "sandpiper.session"})
    return [each["Id"] for each in found if each["Labels"].get("sandpiper.session", "") in sessions]


@dataclass
class Killer:
    """Strikes; `owners` returns who works on what, `sessions` the ids of all sessions."""

    chance: random.Random
    gitlab: Asked
    s3: S3Gateway
    broker: RedisServer
    workers: list[Worker]
    owners: Callable[[], dict[str, str]]
    sessions: Callable[[], set[str]]
    over: threading.Event
    struck: Counter[str] = field(default_factory=Counter)
    recovery: list[float] = field(default_factory=list)
    _areas: dict[str, threading.Thread] = field(default_factory=dict)

    def strike(self, number: int, pause: tuple[float, float]) -> None:
        """Strike so often, with pauses in between."""
        for kind in self._deal(number):
            time.sleep(self.chance.uniform(*pause))
            self._strike(kind, self.chance.random())

    def rest(self) -> None:
        """Wait until all that was struck is as it was."""
        for each in self._areas.values():
            each.join()

    def _deal(self, number: int) -> Sequence[str]:
        deck = [kind for kind, times in DECK.items() for _ in range(times)]
        dealt: list[str] = []
        while len(dealt) < number:
            dealt += self.chance.sample(deck, len(deck))
        return dealt[:number]

    def _strike(self, kind: str, chance: float) -> None:
        area, _, what = kind.partition(" ")
        strikes: dict[str, Callable[[str, float], None]] = {
            "worker": self._strike_worker,
            "sandbox": self._strike_sandbox,
            "redis": self._strike_redis,
            "s3": self._strike_s3,
            "gitlab": self._strike_gitlab,
        }
        if area in self._areas:
            self._areas[area].join()
        self.struck[kind] += 1
        thread = threading.Thread(target=strikes[area], args=(what, chance), daemon=True)
        self._areas[area] = thread
        thread.start()

    def _strike_worker(self, how: str, chance: float) -> None:
        deadline = time.monotonic() + START_UP
        while not (at_work := [each for each in self.workers if each.is_at_work()]):
            if time.monotonic() > deadline:
                return
            time.sleep(0.5)
        struck = at_work[int(chance * len(at_work))]
        names = struck.names()
        if struck.popen is not None:
            struck.popen.send_signal(signal.Signals[how])
        at = time.monotonic()
        threading.Thread(target=self._time_recovery, args=(names, at), daemon=True).start()

    def _time_recovery(self, names: set[str], at: float) -> None:
        """Note for each trigger of a worker how long it was until another one had it, or its
        end."""
        waiting: set[str] | None = None
        while waiting is None or waiting:
            try:
                owners = self.owners()
            except StoreError:
                time.sleep(0.5)
                continue
            theirs = {name for name, owner in owners.items() if owner.partition("/")[0] in names}
            waiting = theirs if waiting is None else waiting
            gone = {name for name in waiting if name not in owners}
            again = {name for name in waiting - gone - theirs if owners[name]}
            self.recovery += [time.monotonic() - at] * len(gone | again)
            waiting -= gone | again
            if self.over.is_set():
                self.recovery += [float("inf")] * len(waiting)
                return
            time.sleep(2)

    def _strike_sandbox(self, what: str, chance: float) -> None:
        """One of ours: others may use the same engine."""
        with suppress(StoreError):
            running = sorted(find_sandboxes(self.sessions()))
            if running:
                with closing(docker.from_env()) as client, suppress(docker.errors.APIError):
                    client.api.kill(running[int(chance * len(running))])

    def _strike_redis(self, what: str, chance: float) -> None:
        if what == "emptied":
            with suppress(redis.RedisError), redis.Redis.from_url(self.broker.url) as client:
                client.flushall()
            return
        self.broker.stop(signal.SIGKILL if what == "killed" else signal.SIGTERM)
        time.sleep(BROKER_AWAY)
        self.broker.start()

    def _strike_s3(self, what: str, chance: float) -> None:
        spoilt: AbstractContextManager[None]
        spoilt = self.s3.refusing() if what == "down" else self.s3.answering(OddS3(what))
        with spoilt:
            time.sleep(_choose_seconds(chance))

    def _strike_gitlab(self, what: str, chance: float) -> None:
        seconds = _choose_seconds(chance)
        if what in ("late", "doubled"):
            self.gitlab.ask(post=what, seconds=seconds / 3)
            return
        self.gitlab.ask(odd=what, seconds=seconds)
        time.sleep(seconds + 0.5)


def _choose_seconds(chance: float) -> float:
    least, most = ODD_SECONDS
    return least + (most - least) * chance
