"""Models that wrap another one: in order, behind a breaker, made to call a tool, as a helper.

The circuit breaker: while a provider is down, requests fail at once. While the circuit is closed,
requests pass. It opens after FAILURES transient failures in a row, each at most WINDOW seconds
after the one before; a request counts as failed after all its retries. While it is open, requests
are refused at once. After PAUSE seconds one request may pass; its result closes the circuit or
opens it again.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from worker.clock import Clock
from worker.conversation.messages import ToolSpec, User, add_cost
from worker.conversation.model import HelperAnswer, Model, Reply, Request, StopReason
from worker.errors import CIRCUIT_OPEN, SILENT, ContextOverflow, ModelError
from worker.safety.untrusted import parse_object

_log = logging.getLogger(__name__)

FAILURES = 3
WINDOW = 120.0
PAUSE = 30.0

_SHARE = 0.5
"""The share of the remaining time that a model may use if others come after it: a silent one must
leave them enough to answer."""

_NO_ANSWER = {StopReason.REFUSED: "refused to answer", StopReason.BLOCKED: "was blocked"}


class ModelWrapper:
    """A `Model` that passes everything on to `model`; subclasses change parts of it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """See Model."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """See Model."""
        return self._model.context_tokens

    @property
    def binds_thinking(self) -> bool:
        """See Model."""
        return self._model.binds_thinking

    @property
    def keeps_cache_without_tools(self) -> bool:
        """See Model."""
        return self._model.keeps_cache_without_tools

    def reply(self, request: Request) -> Reply:
        """See Model."""
        return self._model.reply(request)


class FallbackModel(ModelWrapper):
    """Several models in order: when one gives no answer, the session goes on with the next.

    It is for one run, and not safe to share: it remembers which models did not answer.

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
            last, asked = not self._others, request
            if request.deadline is not None and not last:
                now = self._clock.monotonic()
                asked = replace(request, deadline=now + _SHARE * (request.deadline - now))
            try:
                reply = super().reply(asked)
            except ContextOverflow:
                # The conversation is shortened first: it may be too long for the others as well.
                raise
            except ModelError as error:
                failures.append(str(error))
                errors.append(error)
                if last:
                    if len(failures) == 1:
                        raise
                    # If one of them may pass, it is told: a later run asks all models again.
                    passing = [each for each in errors if each.transient] or errors[-1:]
                    told = min(passing, key=lambda each: each.kind == SILENT)
                    raise ModelError(
                        "; ".join(failures),
                        transient=told.transient,
                        retry_after=told.retry_after,
                        kind=told.kind,
                    ) from error
            else:
                cost = add_cost(cost, reply.cost_usd)
                if last or reply.stop not in _NO_ANSWER:
                    return replace(reply, cost_usd=cost)
                refusal = f"{self.name} {_NO_ANSWER[reply.stop]}"
                failures.append(f"{refusal}: {reply.detail}" if reply.detail else refusal)
            self._model = self._others.pop(0)
            _log.warning("%s; going on with %s", failures[-1], self.name)


# -------------------------------------------------------------------------------------- the breaker


class Circuit(StrEnum):
    """What a breaker lets pass: everything, one request, or nothing."""

    CLOSED = "closed"
    PROBING = "probing"
    OPEN = "open"


OnChange = Callable[[str, Circuit], None]
"""Called at each change with the provider and its circuit."""


def ignore_change(provider: str, circuit: Circuit) -> None:
    """Do nothing."""


class Breaker:
    """The breaker of one provider, for all threads of this process."""

    def __init__(self, provider: str, clock: Clock, on_change: OnChange) -> None:
        self.circuit = Circuit.CLOSED
        self._provider, self._clock, self._on_change = provider, clock, on_change
        self._lock = threading.Lock()
        self._failures = 0
        self._failed_at = 0.0

    def request_entry(self) -> float:
        """Return the seconds to wait before a request. After 0.0, send it, and call `report_end`
        at its end."""
        with self._lock:
            if self.circuit is Circuit.CLOSED:
                return 0.0
            left = self._failed_at + PAUSE - self._clock.monotonic()
            if self.circuit is Circuit.PROBING or left > 0:
                return max(left, 1.0)
            self._set_circuit(Circuit.PROBING)
            return 0.0

    def report_end(self, *, failed: bool) -> None:
        """Record the end of a request; `failed` says that it failed for a transient reason."""
        with self._lock:
            if not failed:
                self._failures = 0
                self._set_circuit(Circuit.CLOSED)
                return
            now = self._clock.monotonic()
            recent = now - self._failed_at <= WINDOW
            self._failures = self._failures + 1 if recent else 1
            self._failed_at = now
            if self._failures >= FAILURES or self.circuit is not Circuit.CLOSED:
                self._set_circuit(Circuit.OPEN)

    def _set_circuit(self, circuit: Circuit) -> None:
        if circuit is self.circuit:
            return
        self.circuit = circuit
        _log.warning("%s: circuit %s", self._provider, circuit)
        self._on_change(self._provider, circuit)


class GuardedModel(ModelWrapper):
    """A model behind its provider's breaker. As safe to share as the model."""

    def __init__(self, model: Model, breaker: Breaker) -> None:
        super().__init__(model)
        self._breaker = breaker

    def reply(self, request: Request) -> Reply:
        """See Model. If the breaker refuses, raises a transient ModelError of kind CIRCUIT_OPEN."""
        if wait := self._breaker.request_entry():
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
            self._breaker.report_end(failed=failed)
        return reply


class Breakers:
    """The breakers of a process, one for each provider."""

    def __init__(self, clock: Clock, on_change: OnChange = ignore_change) -> None:
        self._clock, self._on_change = clock, on_change
        self._breakers: dict[str, Breaker] = {}

    def guard(self, model: Model) -> GuardedModel:
        """Put a model behind its provider's breaker."""
        provider = model.name.partition("/")[0]
        breaker = Breaker(provider, self._clock, self._on_change)
        return GuardedModel(model, self._breakers.setdefault(provider, breaker))


# ----------------------------------------------------------------------------------- forced answers

ANSWER = ToolSpec(
    "answer",
    "End your work with your final answer, as the task asks for it. Call it alone, and only when "
    "you need no other tool any more.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The whole answer, in Markdown."}},
        "required": ["text"],
    },
)


class ForcedAnswersModel(ModelWrapper):
    """A model whose server makes it call a tool in every answer; the tool `answer` ends the turn.

    This is for small models that stop in the middle of their work to say what they will do next:
    they cannot if the server obeys `tool_choice: required`. The conversation is stored as with any
    other model. As safe to share as the model.
    """

    def reply(self, request: Request) -> Reply:
        """See Model."""
        if not request.tools:
            return super().reply(request)
        # The list stays the same with the tools switched off: the server's cache begins with it.
        tools = (*request.tools, ANSWER)
        forced = replace(request, tools=tools, has_to_call=request.tools_allowed)
        reply = super().reply(forced)
        others = tuple(call for call in reply.calls if call.name != ANSWER.name)
        if len(others) == len(reply.calls):
            return reply
        if others:
            return replace(reply, calls=others, wire="")
        texts = (parse_object(call.arguments).get("text") for call in reversed(reply.calls))
        text = next((each for each in texts if each and isinstance(each, str)), reply.text)
        return replace(reply, text=text, calls=(), wire="", stop=StopReason.END)


# -------------------------------------------------------------------------------- small questions

_USABLE = frozenset({StopReason.END, StopReason.TRUNCATED})


class ModelHelper:
    """Asks a model, which has a breaker of its own, the host's small questions. Safe for threads.

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
