"""A session saved under one wire goes on under any other, against that one's strict simulator."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.contexts import context
from tests.google_tokens import TokenServer
from tests.wire.codecs import CODECS
from tests.wire.conversations import LOOK, RUN, SYSTEM
from tests.wire.simulators import WIRES, Simulator
from worker.conversation import context_json
from worker.conversation.absorb import close_calls
from worker.conversation.context import Context
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    User,
    WireForm,
    find_results,
)
from worker.conversation.model import Reply, Request
from worker.conversation.prompts import write_continuation
from worker.lab.script import Asked, Call, Say, Scripted, Step, Think
from worker.models.client import HttpModel
from worker.models.codec import parse_elements, parse_members

pytestmark = pytest.mark.slow

REPLY = write_continuation("Look again.", files="", seconds=3600.0, changes=())
ODD_IDS = ("call:1/ü", "functions.look:0", "x" * 120, "toolu_vrtx_01", "a b", "\N{SNAKE}", "call_1")
STEPS: list[Step] = [
    Think(
        Call([("look", {"at": "a", "deep": {"z": 1.5, "a": [None, "é"]}}), ("look", {})]),
        "It may be a flake.",
    ),
    Call([("run", {})], "I run it."),
    Think(Call([("look", {"at": "b"})], "Again."), "I am not sure yet."),
    Think(Say("It is a flake."), "Now I am."),
]
FORGETFUL = {"openai-compatible", "my-vllm"}
"""Servers that refuse to take their own reasoning back."""

NEVER = [Say("never asked")]
OPAQUE = re.compile(
    r'"(?:signature|thoughtSignature|encrypted_content|reasoning_content)"\s*:\s*"(.+?)"'
)


class Session:
    """A conversation as the loop would keep it."""

    def __init__(self, model: HttpModel, messages: Sequence[Message]) -> None:
        self.model = model
        self.messages = list(messages)

    def run(self) -> None:
        """Ask until there is an answer without calls."""
        while self.ask().calls:
            pass

    def ask(self) -> Reply:
        request = Request(SYSTEM, (LOOK, RUN), tuple(self.messages), session="0123456789")
        reply = self.model.reply(request)
        wire = WireForm(self.model.name, reply.wire)
        self.messages.append(Assistant(reply.text, reply.calls, wire))
        self.messages += outcomes(reply.calls, after=len(self.messages))
        return reply


def outcomes(calls: Sequence[ToolCall], *, after: int) -> list[Message]:
    """Results that can be told apart; every second one is an error."""
    return [
        ToolResult(call.id, call.name, f'{{"of":"r{after}n{number}r"}}', number % 2 == 1)
        for number, call in enumerate(calls)
    ]


def oddities() -> list[Message]:
    """What other models, broken models and dead workers leave behind."""
    odd = tuple(ToolCall(call_id, "look", '{"at":"x"}') for call_id in ODD_IDS)
    broken = (ToolCall("b1", "look", '{"at": '), ToolCall("b2", "bad name/ü", "[1]"))
    forty = tuple(ToolCall(f"c{number}", "run", "") for number in range(40))
    found: list[Message] = []
    for number, calls in enumerate((odd, broken, forty)):
        found += [Assistant("", calls), *outcomes(calls, after=1000 + number)]
    empty, orphan = ToolCall("e", "run", "{}"), ToolCall("o", "look", "{}")
    found += [Assistant("Half of an ans"), User("Go on."), Assistant("", (empty,))]
    return [*found, ToolResult("e", "run", ""), Assistant("", (orphan,))]


@dataclass(frozen=True, slots=True)
class Run:
    """A session that was taken up: what it ends with, what was sent, and what the script saw."""

    last: Message
    first_body: bytes
    unexpected_requests: list[str]
    asked: Asked


class House:
    """One running simulator for each wire, as starting one takes longer than asking it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._sims: dict[str, Simulator] = {}
        self._seen: list[Asked] = []
        self._saved: dict[str, bytes] = {}

    def saved(self, wire: str) -> bytes:
        """`context.json` of a session that ran under `wire`, made as odd as sessions get."""
        if wire not in self._saved:
            self._saved[wire] = self._save(wire)
        return self._saved[wire]

    def _save(self, wire: str) -> bytes:
        sim = self._sim(wire)
        with closing(WIRES[wire].model(sim)) as model:
            session = Session(model, [User(f"event of {wire}")])
            session.run()
            assert sim.unexpected_requests == []
            odd = context(*session.messages, User("Why?"), *oddities())
            return context_json.dump_context(
                close_calls(replace(odd, model=model.name), "the worker died")
            )

    def resumed(self, first: str, second: str) -> Run:
        """The session of `first` taken up under `second` with a reply, and run to its answer."""
        stored = context_json.load_context(self.saved(first)).messages
        sim = self._sim(second)
        sent, refused = len(sim.raw), len(sim.unexpected_requests)
        with closing(WIRES[second].model(sim)) as model:
            session = Session(model, [*stored, User(REPLY)])
            session.run()
        return Run(
            session.messages[-1], sim.raw[sent], sim.unexpected_requests[refused:], self._seen[-1]
        )

    def _sim(self, wire: str) -> Simulator:
        if wire not in self._sims:
            made = WIRES[wire].start(Scripted(STEPS, NEVER, NEVER, [self._look, Say("Yes.")]))
            self._sims[wire] = self._stack.enter_context(made)
        return self._sims[wire]

    def _look(self, asked: Asked) -> Think:
        self._seen.append(asked)
        return Think(Call([("look", {"at": "c"})]))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The simulators, and Google's default credentials for the wires on Vertex AI."""
    folder = tmp_path_factory.mktemp("account")
    with pytest.MonkeyPatch.context() as patch, TokenServer() as tokens, ExitStack() as stack:
        account = tokens.account(folder / "account.json")
        patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", account)
        yield House(stack)


def told(results_: Sequence[Any]) -> list[tuple[bool, list[str]]]:
    """Which results these are, and whether each is an error."""
    return [(each.is_error, re.findall(r"r\d+n\d+r", each.content)) for each in results_]


def opaque(session: Context) -> set[str]:
    """Signatures and the like that only the wire they came from may see."""
    wires = [
        each.wire.content for each in session.messages if isinstance(each, Assistant) and each.wire
    ]
    return {found for wire in wires for found in OPAQUE.findall(wire)}


def verbatim(message: Assistant) -> str:
    """The part of an answer's wire form that goes back byte for byte."""
    content = message.wire.content if message.wire else ""
    if content.startswith("{"):
        parts = parse_members(content)
        return (parts.get("tool_calls") or parts["content"]).text
    items = parse_elements(content)
    return content[items[0].end - len(items[0].text) : items[-1].end]


def test_every_codec_has_a_simulator() -> None:
    assert set(CODECS) <= set(WIRES)
    assert all(CODECS[name]()[1] == WIRES[name].spec for name in CODECS)


@pytest.mark.parametrize("second", WIRES)
@pytest.mark.parametrize("first", WIRES)
def test_a_session_of_the_first_wire_goes_on_under_the_second(
    first: str, second: str, house: House
) -> None:
    before = context_json.load_context(house.saved(first))
    run = house.resumed(first, second)

    assert run.unexpected_requests == []
    assert (run.asked.first, run.asked.human) == (f"event of {first}", REPLY)
    assert told(run.asked.results) == told(list(find_results(before.messages)))
    assert isinstance(run.last, Assistant)
    assert (run.last.text, run.last.calls) == ("Yes.", ())
    for secret in opaque(before):
        assert (secret.encode() in run.first_body) == (first == second and first not in FORGETFUL)


@pytest.mark.parametrize("wire", WIRES)
def test_under_the_same_wire_every_answer_goes_back_byte_for_byte(wire: str, house: House) -> None:
    before = context_json.load_context(house.saved(wire))
    own = [verbatim(each) for each in before.messages if isinstance(each, Assistant) and each.wire]
    body = house.resumed(wire, wire).first_body
    at = [body.find(part.encode()) for part in own]

    assert len(own) == len(STEPS)
    assert -1 not in at
    assert at == sorted(at)


@pytest.mark.parametrize("wire", sorted(WIRES.keys() - {"openai-chat", "azure-chat"}))
def test_every_session_has_opaque_parts_that_could_leak(wire: str, house: House) -> None:
    assert opaque(context_json.load_context(house.saved(wire)))
