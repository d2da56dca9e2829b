"""Long sessions in narrow windows, through the whole product, over every wire."""

import itertools
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.flow.product import KEY, Product, product
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ChatSim, ResponsesSim
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.conversation.folds import SUMMARY_TASK
from worker.conversation.messages import find_results
from worker.lab.script import Answer, Asked, Call, Say, Script
from worker.settings.runs import Strategy

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOG = "/tmp/data/unit-tests.log"
STEPS = 26

FINDING = """\
## Verdict
Caused by this change

## What failed
unit-tests (job 500003): two cases

## Cause
`merge` no longer joins windows that only touch.

## Evidence
- job 500003 line 1658: E       AssertionError: assert [] == ['23:50']

## What to do
Compare with `touches`.
"""

Simulator = Callable[..., AbstractContextManager[Any]]
WIRES: dict[str, tuple[Simulator, str, dict[str, str]]] = {
    "anthropic": (AnthropicSim, "anthropic/claude-sonnet-5-5", {}),
    "gemini": (GeminiSim, "gemini/gemini-4-argon", {"GEMINI": "url"}),
    "responses": (ResponsesSim, "openai/gpt-6-sol", {"OPENAI": "url"}),
    "chat": (ChatSim, "openai-compatible/qwen3", {"OPENAI": "url"}),
}


FAR_APART = ("anthropic", "chat")
"""Two wires that have least in common, for what no wire decides; tests/wire has all of them."""


def look_long(steps: int = STEPS) -> Script:
    """A model that fetches the log, runs long commands, reads what an early one gave from the file
    that it was told of, and quotes a line of the log that it saw in its first call."""
    number = itertools.count()

    def answer(asked: Asked) -> Answer:
        step = next(number)
        if step == 0:
            arguments = {"job_id": 500003}
            fetch = {"source": "gitlab_get_job_log", "arguments": arguments, "path": LOG}
            return Call([("fetch_to_sandbox", fetch)])
        if step == 1:
            return Call([("sandbox_exec", {"command": "echo needle-$((6*7)); seq 1000 1250"})])
        if step < steps and asked.tools_allowed:
            command = f"echo step {step}; seq {step}000 {step}250"
            return Call([("sandbox_exec", {"command": command})])
        if step == steps and asked.tools_allowed:
            return Call([("sandbox_exec", {"command": "cat /tmp/_out/1.txt | head -c 300"})])
        return Say(FINDING)

    return answer


def lead_to(told: Product, wire: str, window: int, context: str, helper: str = "") -> None:
    """Point the product to the wire's simulator, a model of this window."""
    _, model, others = WIRES[wire]
    told.env["SANDPIPER_MODEL"] = model
    if others:
        (name,) = others
        told.env |= {f"{name}_BASE_URL": told.model.url, f"{name}_API_KEY": KEY}
        for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
            del told.env[variable]
    told.write_settings(
        f"models: {{{helper}catalogue: {{{model}: {{window: {window}, max_output: 2000}}}}}}\n"
        f"context: {{{context}}}\n"
    )


def told_by(wire: str, folder: Path, window: int) -> AbstractContextManager[Product]:
    simulator = partial(WIRES[wire][0], window=window)
    return product(folder, look_long(), "memory://", simulator)


def analyse(told: Product) -> Context:
    done = told.run("analyze", "northsound/ferrytimes!1")
    assert done.returncode == 0, done.stderr
    return context_json.load_context(told.objects("context.json")[-1].read_bytes())


def check_end(told: Product, ended: Context, *, refused: int = 0) -> None:
    """The session was folded, so many requests were refused, and the early line is proven."""
    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.reason) == (Status.DONE, "")
    assert ended.folds
    assert len(told.model.unexpected_requests) == refused
    (note,) = told.notes()
    assert "line 1658" in note.body
    assert "assert [] == ['23:50']" in note.body
    assert "needle-42" in list(find_results(ended.messages))[-1].content


@pytest.mark.parametrize(
    ("wire", "strategy"),
    list(zip(WIRES, [each for each in Strategy if each is not Strategy.NONE], strict=True)),
)
def test_a_session_twice_as_long_as_its_window_ends_in_a_proven_note(
    wire: str, strategy: Strategy, tmp_path: Path
) -> None:
    with told_by(wire, tmp_path, 20_000) as told:
        lead_to(told, wire, 20_000, f"strategy: {strategy}")
        check_end(told, analyse(told))


SUMMARY = """\
## Task
- why unit-tests failed
## Facts
- job 500003: the helper read that two cases fail
## Ruled out
- nothing
## Open
- the cause
## Next
- quote the log
"""


def test_the_configured_helper_writes_the_summary_and_its_cost_is_counted(tmp_path: Path) -> None:
    # Results are left out first; only a session of this length is sure to need a summary as well.
    analysing = look_long(STEPS + 14)

    def answer(asked: Asked) -> Answer:
        return Say(SUMMARY) if SUMMARY_TASK[:60] in json.dumps(asked.body) else analysing(asked)

    simulator = partial(AnthropicSim, window=20_000)
    with product(tmp_path, answer, "memory://", simulator) as told:
        helper = "helper: anthropic/claude-haiku-4-5, "
        lead_to(told, "anthropic", 20_000, "strategy: summary", helper)
        ended = analyse(told)
        check_end(told, ended)

    asked = [call for call in ended.calls if call.task == "summary"]
    assert {call.model for call in asked} == {"anthropic/claude-haiku-4-5"}
    assert all(call.cost_usd for call in asked)
    assert any("the helper read that two cases fail" in fold.text for fold in ended.folds)


@pytest.mark.parametrize("wire", WIRES)
def test_a_window_that_the_catalogue_does_not_know_is_learnt(wire: str, tmp_path: Path) -> None:
    with told_by(wire, tmp_path, 15_000) as told:
        lead_to(told, wire, 100_000, "passes: 3")
        ended = analyse(told)
        check_end(told, ended, refused=1)
        assert ended.turn_usage.window < 15_000
