"""Thinking that a provider does not take back: refused once, and left out from then on."""

from contextlib import closing
from dataclasses import replace

from tests.contexts import context
from tests.fakes import EchoToolbox
from tests.simulators.anthropic import AnthropicSim
from worker.clock import SystemClock
from worker.conversation.context import Context, Status
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Assistant, ToolSpec, User
from worker.lab.script import Call, Say, Scripted, Think
from worker.models import table
from worker.turns.loop import LoopParts, run_loop

LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


def steps(word: str) -> list[Think]:
    return [
        *(Think(Call([("look", {"at": f"{word}{number}"})]), "Hm.") for number in range(3)),
        Think(Say(f"It is {word}."), "So."),
    ]


def test_a_session_whose_thinking_was_refused_once_goes_on_without_it() -> None:
    clock = SystemClock()
    with (
        AnthropicSim(Scripted(steps("a"), steps("b"))) as sim,
        closing(
            table.build_model("anthropic/claude-sonnet-5-5", sim.url, "any", clock=clock)
        ) as model,
    ):
        parts = LoopParts(model, EchoToolbox(), clock, lambda _: None, lambda _: None)

        def run(start: Context) -> Context:
            return run_loop(
                replace(start, turn_usage=TurnUsage(clock.now()), outcome=None), Limits(), parts
            )

        first = run(context(tools=(LOOK,)))
        assert sim.unexpected_requests == []
        # As of another account: what was signed is bound to another prefix.
        moved = (User("another event"), *first.messages[1:], User("And now?"))
        again = run(replace(first, messages=moved, turn_start=len(moved) - 1))

    assert again.outcome
    assert (again.outcome.status, again.outcome.text) == (Status.DONE, "It is b.")
    assert len(sim.unexpected_requests) == 1
    assert len(sim.requests) == 4 + 1 + 4
    wires = [bool(each.wire) for each in again.messages if isinstance(each, Assistant)]
    assert wires == [False] * 4 + [True] * 4
