"""A circuit breaker for each provider: while one is down, nobody waits to find that out again.

Closed, requests pass. After FAILURES in a row that were worth another try, each with all its
retries used up and none WINDOW seconds after the one before, it is open: requests are refused at
once. After PAUSE seconds one request is let through; its end closes the circuit or opens it again.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from worker.core.ports import Clock, Model, Reply, Request
from worker.errors import CIRCUIT_OPEN, ModelError
from worker.models.wrapper import ModelWrapper

_log = logging.getLogger(__name__)

FAILURES = 3
WINDOW = 120.0
PAUSE = 30.0


class Circuit(StrEnum):
    """What a breaker lets through: everything, one request, or nothing."""

    CLOSED = "closed"
    PROBING = "probing"
    OPEN = "open"


Heard = Callable[[str, Circuit], None]
"""Hears of each change: the provider and its circuit."""


def unheard(provider: str, circuit: Circuit) -> None:
    """Nobody wants to know."""


class Breaker:
    """One provider's, for all threads of this process."""

    def __init__(self, provider: str, clock: Clock, heard: Heard = unheard) -> None:
        self.circuit = Circuit.CLOSED
        self._provider, self._clock, self._heard = provider, clock, heard
        self._lock = threading.Lock()
        self._failures = 0
        self._failed_at = 0.0

    def enter(self) -> float:
        """Seconds until a request may be sent, 0.0 for now. Whoever may has to `leave`."""
        with self._lock:
            if self.circuit is Circuit.CLOSED:
                return 0.0
            left = self._failed_at + PAUSE - self._clock.monotonic()
            if self.circuit is Circuit.PROBING or left > 0:
                return max(left, 1.0)
            self._turn(Circuit.PROBING)
            return 0.0

    def leave(self, *, failed: bool) -> None:
        """A request has ended; `failed` if it would be worth another try."""
        with self._lock:
            if not failed:
                self._failures = 0
                self._turn(Circuit.CLOSED)
                return
            now = self._clock.monotonic()
            recent = now - self._failed_at <= WINDOW
            self._failures = self._failures + 1 if recent else 1
            self._failed_at = now
            if self._failures >= FAILURES or self.circuit is not Circuit.CLOSED:
                self._turn(Circuit.OPEN)

    def _turn(self, circuit: Circuit) -> None:
        if circuit is self.circuit:
            return
        self.circuit = circuit
        _log.warning("%s: circuit %s", self._provider, circuit)
        self._heard(self._provider, circuit)


class GuardedModel(ModelWrapper):
    """A `core.ports.Model` behind its provider's breaker. As safe to share as the model."""

    def __init__(self, model: Model, breaker: Breaker) -> None:
        super().__init__(model)
        self._breaker = breaker

    def reply(self, request: Request) -> Reply:
        """See Model. An open circuit is a transient ModelError of the kind CIRCUIT_OPEN."""
        if wait := self._breaker.enter():
            raise ModelError(
                f"{self.name}: the provider has not answered for a while and is not asked now",
                transient=True,
                retry_after=wait,
                kind=CIRCUIT_OPEN,
            )
        failed = True
        try:
            reply = super().reply(request)
            failed = False
        except ModelError as error:
            failed = error.transient
            raise
        finally:
            self._breaker.leave(failed=failed)
        return reply


def guarded(models: Sequence[Model], clock: Clock, heard: Heard = unheard) -> list[GuardedModel]:
    """The models behind breakers, one for each of their providers."""
    names = {model.name.partition("/")[0] for model in models}
    breakers = {name: Breaker(name, clock, heard) for name in names}
    return [GuardedModel(model, breakers[model.name.partition("/")[0]]) for model in models]


if TYPE_CHECKING:

    def _conforms(model: GuardedModel) -> Model:
        return model
