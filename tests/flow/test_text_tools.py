"""A server that refuses native tools, through the whole product."""

import itertools
import json
from functools import partial
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.flow.test_folds import FINDING, WIRES, lead_to
from tests.simulators.openai import ChatSim
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.conversation.messages import Assistant
from worker.lab.script import Answer, Asked, Say, Script

pytestmark = pytest.mark.usefixtures("bubblewrap")

LOOK = {"name": "sandbox_exec", "arguments": {"command": "ls /tmp/data"}}
QUOTED = "````\nThe log has a block:\n```tool_call\n{}\n```\n````\n\n"


def write_fences() -> Script:
    """A model that calls by text, quotes a fence that must not run, and answers."""
    number = itertools.count()

    def answer(asked: Asked) -> Answer:
        step = next(number)
        if step == 0:
            return Say(f"I look.\n\n```tool_call\n{json.dumps(LOOK)}\n```")
        return Say(FINDING + "\n## Details\n" + QUOTED if step == 1 else "Because.")

    return answer


@pytest.mark.parametrize(
    "written",
    [
        f"<tool_call>\n{json.dumps(LOOK)}\n</tool_call>",
        f"<think>\n## Verdict\nflaky\n</think>\n\nI look.\n[TOOL_CALLS][{json.dumps(LOOK)}]",
        "<function=sandbox_exec>\n<parameter=command>\nls /tmp/data\n</parameter>\n</function>",
    ],
)
def test_a_call_that_the_server_leaves_in_the_text_is_made(written: str, tmp_path: Path) -> None:
    said = iter([written, FINDING])
    with product(tmp_path, lambda asked: Say(next(said)), "memory://", ChatSim) as made:
        lead_to(made, "chat", 100_000, "")
        done = made.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 0, done.stderr
        ended = read_newest(made)
        assert [bool(each.get("tools")) for each in made.model.requests] == [True, False]
    assert ended.outcome
    assert (ended.outcome.text, ended.turn_usage.iterations) == (FINDING, 2)
    (called,) = [
        call for each in ended.messages if isinstance(each, Assistant) for call in each.calls
    ]
    assert (called.name, json.loads(called.arguments)) == ("sandbox_exec", LOOK["arguments"])


def read_newest(made: Product) -> Context:
    return context_json.load_context(made.objects("context.json")[-1].read_bytes())


@pytest.mark.parametrize("known", [False, True])
def test_a_session_goes_on_with_calls_as_text(known: bool, tmp_path: Path) -> None:
    simulator = partial(ChatSim, takes_tools=False)
    with product(tmp_path, write_fences(), "memory://", simulator) as made:
        lead_to(made, "chat", 100_000, "")
        _, model, _ = WIRES["chat"]
        if known:
            page = made.folder / "sandpiper.yaml"
            page.write_text(page.read_text().replace("window:", "text_tools: true, window:"))
        done = made.run("analyze", "northsound/ferrytimes!1")
        assert done.returncode == 0, done.stderr
        ended = read_newest(made)
        assert len(made.model.unexpected_requests) == (0 if known else 1)
    assert ended.outcome
    assert (ended.outcome.status, ended.turn_usage.iterations) == (Status.DONE, 2)
    calls = [call for each in ended.messages if isinstance(each, Assistant) for call in each.calls]
    assert [call.name for call in calls] == ["sandbox_exec"]
    # What is stored is as with any other server, so that any other one can go on.
    assert "tool_call" not in ended.system
    assert "sandbox_exec" in {tool.name for tool in ended.tools}
    assert all(not each.wire for each in ended.messages if isinstance(each, Assistant))
    assert ended.model == model
