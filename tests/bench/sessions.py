"""Sessions of the real loop and the real codec, recorded as the bodies they put on the wire.

A transport inside the HTTP client answers in place of the API: strict about every body, without a
network, on a clock that is set by hand.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import httpx

from tests.contexts import context
from tests.fakes import HandClock
from worker.conversation.context import Context
from worker.conversation.events import ignore_event
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import ToolCall, ToolResult, ToolSpec, User
from worker.lab.anthropic import checks, protocol
from worker.lab.anthropic.protocol import InputTokens, Position, list_positions, read_request
from worker.lab.anthropic.simulator import make_message
from worker.lab.script import Answer, Asked, Call, Empty, Say, Script, Think
from worker.models import table
from worker.settings.runs import ContextSettings, Resume
from worker.tools.source import Ran
from worker.turns.loop import LoopParts, run_loop

MODEL = "anthropic/claude-sonnet-5-5"
THINKING, WORKING = 10.0, 10.0
"""Seconds an answer takes, and seconds its tool calls take."""

SYSTEM = "You find out why pipelines fail. " * 895
TOOLS = (
    ToolSpec(
        "look",
        "Look at one thing. " * 90,
        {"type": "object", "properties": {"at": {"type": "integer"}}},
    ),
)
UNFOLDED = ContextSettings(resume=Resume.NONE)
ENDLESS = Limits.model_construct(
    max_iterations=10**6,
    context_tokens=10**9,
    wall_clock=1e9,
    cost_usd=1e9,
    context=UNFOLDED,
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: when it was sent, and its blocks by both rules of the look-back.

    `transcript` are the blocks whatever the tool choice: what any client has to send. `raw` is the
    body, if that was to be kept.
    """

    at: float
    raw: bytes
    runs: Sequence[Position]
    blocks: Sequence[Position]
    transcript: Sequence[Position]


@dataclass
class Wire(httpx.BaseTransport):
    """The API inside the client: refuses what the API refuses, answers from a script."""

    script: Script
    clock: HandClock
    keep: bool = False
    sent: list[Sent] = field(default_factory=list)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange."""
        raw = request.read()
        body = checks.parse_body(raw)
        checks.check_body(body)
        protocol.check_thinking(body)
        runs = list(list_positions(body))
        blocks = list(list_positions(body, runs_are_one=False))
        said = list(list_positions({**body, "tool_choice": {"type": "auto"}}))
        raw = raw if self.keep else b""
        self.sent.append(Sent(self.clock.now(), raw, runs, blocks, said))
        answer = self.script(read_request(body))
        self.clock.sleep(THINKING)
        return httpx.Response(
            200, json=make_message(answer, body, InputTokens(runs[-1].tokens, 0, 0))
        )


@dataclass
class Tools:
    """Answers a batch of calls with `size` characters in all, or a little more for many calls."""

    clock: HandClock
    size: int
    specs: tuple[ToolSpec, ...] = TOOLS

    def is_repeatable(self, call: ToolCall) -> bool:
        return True

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        """See Toolbox."""
        self.clock.sleep(WORKING)
        each = max(self.size // len(calls) - 200, 200)
        for number, call in enumerate(calls, first):
            text = f"{number:06}:" + "log line " * (each // 9)
            yield Ran(ToolResult(call.id, call.name, text), len(text), 0.0)


class Session:
    """A session that can be run, and replied to, on its own clock."""

    def __init__(
        self, script: Script, *, start: float = 0.0, new: int = 10_000, keep: bool = False
    ) -> None:
        self.clock = HandClock(start)
        self.wire = Wire(script, self.clock, keep)
        self._tools = Tools(self.clock, new)
        event = User(json.dumps({"project": "group/app", "iid": start, "log": "e" * 400}))
        spent = TurnUsage(started_at=start)
        self.context = context(event, system=SYSTEM, tools=TOOLS, turn_usage=spent, model=MODEL)

    @property
    def sent(self) -> list[Sent]:
        """Every request so far."""
        return self.wire.sent

    def run(self, limits: Limits = ENDLESS) -> Context:
        """The turn, to its end."""
        model = table.build_model(MODEL, "", "key", clock=self.clock, transport=self.wire)
        parts = LoopParts(model, self._tools, self.clock, lambda _: None, ignore_event)
        self.context = run_loop(self.context, limits, parts)
        model.close()
        return self.context

    def reply(self, after: float, text: str = "And what about the other job?") -> None:
        """A human answers `after` seconds later; `run` takes the turn."""
        self.clock.sleep(after)
        self.context = replace(
            self.context,
            turn=self.context.turn + 1,
            turn_start=len(self.context.messages),
            turn_usage=TurnUsage(started_at=self.clock.now()),
            outcome=None,
        ).add(User(text))


def calling(count: int, parallel: int = 1, *, thinks: bool = False) -> Script:
    """Calls `parallel` tools at a time, and concludes in request `count` of each turn or when told.

    What it says at the end is about 400 tokens long.
    """

    def answer(asked: Asked) -> Answer:
        if asked.answers + 1 >= count or "Tools are switched off" in asked.notice:
            return Say("The job failed because of a time-out. " * 40)
        step = f"{asked.turn}.{asked.answers}"  # no two batches alike, or the loop would stop
        made = Call([("look", {"at": f"{step}.{number}"}) for number in range(parallel)])
        return Think(made) if thinks else made

    return answer


def empty_at(script: Script, answers: int) -> Script:
    """`script`, but for one empty answer after so many others."""

    def answer(asked: Asked) -> Answer:
        if asked.answers == answers and not asked.notice:
            return Empty()
        return script(asked)

    return answer
