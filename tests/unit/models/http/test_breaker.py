"""A provider that is down is found out once, by few, and found to be up again by one."""

import pytest

from tests.contexts import context
from tests.fakes import HandClock, ScriptedModel, says
from worker.conversation.model import Reply, Request
from worker.errors import CIRCUIT_OPEN, ModelError
from worker.models.wrapper import FAILURES, PAUSE, WINDOW, Breakers, Circuit, FallbackModel

REQUEST = Request("system", (), context().messages)
DOWN = ModelError("a: 529", transient=True, kind="overloaded")
REFUSED = ModelError("a: 401", kind="bad_key")


def model(name: str, *answers: object) -> ScriptedModel:
    return ScriptedModel(answers, name=name)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def heard() -> list[tuple[str, Circuit]]:
    return []


def fail(guard: object, times: int = FAILURES) -> None:
    for _ in range(times):
        with pytest.raises(ModelError):
            guard.reply(REQUEST)  # type: ignore[attr-defined]


def test_after_failures_in_a_row_the_provider_is_not_asked_any_more(
    clock: HandClock, heard: list[tuple[str, Circuit]]
) -> None:
    asked = model("a/1", *[DOWN] * FAILURES)
    guard = Breakers(clock, lambda *told: heard.append(told)).guard(asked)
    fail(guard)
    with pytest.raises(ModelError) as refused:
        guard.reply(REQUEST)
    assert (refused.value.kind, refused.value.transient) == (CIRCUIT_OPEN, True)
    assert refused.value.retry_after == PAUSE
    assert len(asked.requests) == FAILURES
    assert heard == [("a", Circuit.OPEN)]


def test_one_request_probes_and_its_answer_closes_the_circuit(
    clock: HandClock, heard: list[tuple[str, Circuit]]
) -> None:
    asked = model("a/1", *[DOWN] * FAILURES, DOWN, says("up"), says("again"))
    guard = Breakers(clock, lambda *told: heard.append(told)).guard(asked)
    fail(guard)
    clock.time += PAUSE
    fail(guard, 1)
    fail(guard, 1)
    assert len(asked.requests) == FAILURES + 1
    clock.time += PAUSE
    assert [guard.reply(REQUEST).text for _ in range(2)] == ["up", "again"]
    circuits = [circuit for _, circuit in heard]
    assert circuits == [
        *(Circuit.OPEN, Circuit.PROBING, Circuit.OPEN, Circuit.PROBING, Circuit.CLOSED),
    ]


def test_nobody_else_is_let_through_while_one_probes(clock: HandClock) -> None:
    class Probing(ScriptedModel):
        def reply(self, request: Request) -> Reply:
            if len(self.requests) == FAILURES:
                fail(other, 1)
            return super().reply(request)

    asked = Probing([*[DOWN] * FAILURES, says("up")], name="a/1")
    other_asked = model("a/2", says("asked"))
    breakers = Breakers(clock)
    guard, other = breakers.guard(asked), breakers.guard(other_asked)
    fail(guard)
    clock.time += PAUSE
    assert guard.reply(REQUEST).text == "up"
    assert other_asked.requests == []


def test_failures_far_apart_or_with_an_answer_between_do_not_add_up(clock: HandClock) -> None:
    answers = [*[DOWN] * (FAILURES - 1), says("up"), *[DOWN] * (FAILURES - 1), DOWN, says("up")]
    guard = Breakers(clock).guard(model("a/1", *answers))
    fail(guard, FAILURES - 1)
    assert guard.reply(REQUEST).text == "up"
    fail(guard, FAILURES - 1)
    clock.time += WINDOW + 1
    fail(guard, 1)
    assert guard.reply(REQUEST).text == "up"


def test_a_refusal_is_no_outage(clock: HandClock) -> None:
    guard = Breakers(clock).guard(model("a/1", *[REFUSED] * FAILURES, says("up")))
    fail(guard)
    assert guard.reply(REQUEST).text == "up"


def test_the_next_provider_takes_over_at_once_and_the_error_says_what_is_open(
    clock: HandClock,
) -> None:
    first = model("a/1", *[DOWN] * FAILURES)
    second = model("b/2", *[says("two")] * (FAILURES + 1))
    breakers = Breakers(clock)
    guards = [breakers.guard(first), breakers.guard(second)]
    for _ in range(FAILURES + 1):
        assert FallbackModel(guards, clock).reply(REQUEST).text == "two"
    assert len(first.requests) == FAILURES
    with pytest.raises(ModelError) as refused:
        FallbackModel(guards[:1], clock).reply(REQUEST)
    assert refused.value.kind == CIRCUIT_OPEN
