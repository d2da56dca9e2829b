"""A simulator of a model API, the real client that asks it, and a session over both."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

from tests.fakes import HandClock
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ChatSim, ResponsesSim
from worker.conversation.context import CacheMark
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    ToolSpec,
    User,
    WireForm,
    group_messages,
)
from worker.conversation.model import Reply, Request, plan_marks
from worker.lab.script import Scripted, Step
from worker.models import table
from worker.models.client import HttpModel

LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}})
KEY = "sk-test-0123456789"
SPECS: dict[str, tuple[Callable[..., Any], str]] = {
    "anthropic": (AnthropicSim, "anthropic/claude-sonnet-5-5"),
    "gemini": (GeminiSim, "gemini/gemini-4-argon"),
    "chat": (ChatSim, "openai-compatible/qwen3"),
    "responses": (ResponsesSim, "openai/gpt-6-sol"),
}
"""Each simulator, and the model that it plays."""

Started = Callable[..., tuple[Any, HttpModel]]


@contextmanager
def starting(kind: str) -> Iterator[Started]:
    """What starts a simulator of SPECS with a script, and the model; both end with the block."""
    make, spec = SPECS[kind]
    with ExitStack() as opened:

        def start(*turns: Sequence[Step], **options: Any) -> tuple[Any, HttpModel]:
            sim = opened.enter_context(make(Scripted(*turns), **options))
            model = table.build_model(spec, sim.url, KEY, clock=HandClock(), jitter=lambda: 0.0)
            return sim, opened.enter_context(closing(model))

        yield start


class Conversation:
    """A session as the loop would keep it."""

    def __init__(self, model: HttpModel, event: str = "event") -> None:
        self.model = model
        self.messages: list[Message] = [User(event)]
        self.cache: CacheMark | None = None

    def ask(self, notice: str = "", **changes: Any) -> Reply:
        """One request; the answer and results for its calls are kept."""
        groups = len(group_messages(self.messages))
        plan = plan_marks(groups, self.cache, ephemeral=bool(notice), now=0.0)
        request = Request("S" * 6000, (LOOK,), tuple(self.messages), notice, marks=plan.marks)
        reply = self.model.reply(replace(request, **changes))
        self.cache = plan.cache
        if reply.text or reply.calls:
            wire = WireForm(self.model.name, reply.wire)
            self.messages.append(Assistant(reply.text, reply.calls, wire))
        saw = '{"saw": %s}'
        self.messages += [ToolResult(c.id, c.name, saw % c.arguments) for c in reply.calls]
        return reply
