"""Several models in order: when one gives no answer, the session continues with the next."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from worker.clock import Clock
from worker.conversation.messages import add_cost
from worker.conversation.model import Model, Reply, Request, StopReason
from worker.errors import SILENT, ContextOverflow, ModelError
from worker.models.wrapper import ModelWrapper

_log = logging.getLogger(__name__)

SHARE = 0.5
"""The share of the remaining time that a model may use if others come after it: a silent one must
leave them enough to answer."""

_NO_ANSWER = {StopReason.REFUSED: "refused to answer", StopReason.BLOCKED: "was blocked"}


class FallbackModel(ModelWrapper):
    """A `conversation.model.Model` for one run. Not safe to share: it remembers which models did not
    answer.

    A refused or blocked answer counts as no answer. `models` must not be empty. The history is
    canonical, so the next model continues it unchanged; only the prompt cache is lost. The
    properties are those of the model that answers now: a conversation that is too long for the next
    model is folded after that model has refused it.
    """

    def __init__(self, models: Sequence[Model], clock: Clock) -> None:
        super().__init__(models[0])
        self._others, self._clock = list(models[1:]), clock

    def reply(self, request: Request) -> Reply:
        """Return the first answer, else the last model's refusal, with the cost of all attempts.

        Each model has half of the time until the request's deadline, the last one all of it.
        Raises ContextOverflow, or the last model's error with all failures in its text.
        """
        failures: list[str] = []
        errors: list[ModelError] = []
        cost: float | None = 0.0
        while True:
            last = not self._others
            try:
                reply = super().reply(request if last else self._limit_time(request))
            except ContextOverflow:
                # The conversation is shortened first: it may be too long for the others as well.
                raise
            except ModelError as error:
                failures.append(str(error))
                errors.append(error)
                if last:
                    raise _join_failures(failures, errors) from error
            else:
                cost = add_cost(cost, reply.cost_usd)
                if last or reply.stop not in _NO_ANSWER:
                    return replace(reply, cost_usd=cost)
                failures.append(_describe_refusal(self.name, reply))
            self._model = self._others.pop(0)
            _log.warning("%s; going on with %s", failures[-1], self.name)

    def _limit_time(self, request: Request) -> Request:
        """Return the request with a deadline that leaves time for the next model."""
        if request.deadline is None:
            return request
        now = self._clock.monotonic()
        return replace(request, deadline=now + SHARE * (request.deadline - now))


def _describe_refusal(name: str, reply: Reply) -> str:
    return f"{name} {_NO_ANSWER[reply.stop]}" + (f": {reply.detail}" if reply.detail else "")


def _join_failures(failures: list[str], errors: list[ModelError]) -> ModelError:
    """Return the last error with all failures in its text.

    If one of them may pass, the error is that one: a later run asks all models again.
    """
    if len(failures) == 1:
        return errors[-1]
    passing = [each for each in errors if each.transient]
    told = min(passing, key=lambda each: each.kind == SILENT) if passing else errors[-1]
    return ModelError(
        "; ".join(failures), transient=told.transient, retry_after=told.retry_after, kind=told.kind
    )
