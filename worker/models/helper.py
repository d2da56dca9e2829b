"""Asks a model the host's own small questions."""

import logging

from worker.clock import Clock
from worker.conversation.messages import User
from worker.conversation.model import HelperAnswer, Model, Request, StopReason
from worker.errors import ModelError

_log = logging.getLogger(__name__)

_USABLE = frozenset({StopReason.END, StopReason.TRUNCATED})


class ModelHelper:
    """A `conversation.model.Helper` that asks a model with a breaker of its own. Safe for threads.

    `timeout` is how many seconds an answer may take, including all attempts.
    """

    def __init__(self, model: Model, clock: Clock, timeout: float) -> None:
        self._model, self._clock, self._timeout = model, clock, timeout
        self.context_tokens = model.context_tokens

    def ask(self, task: str, text: str, max_tokens: int) -> HelperAnswer | None:
        """See Helper."""
        sent_at, started = self._clock.now(), self._clock.monotonic()
        request = Request(
            system=task,
            tools=(),
            messages=(User(text),),
            tools_allowed=False,
            deadline=started + self._timeout,
            max_output=max_tokens,
        )
        try:
            reply = self._model.reply(request)
        except ModelError as error:
            _log.warning("no help: %s", error)
            return None
        if reply.stop not in _USABLE or not reply.text.strip():
            _log.warning("no help: %s gave no text (%s)", self._model.name, reply.stop)
            return None
        seconds = self._clock.monotonic() - started
        return HelperAnswer(
            reply.text, reply.usage, reply.cost_usd, self._model.name, sent_at, seconds
        )
