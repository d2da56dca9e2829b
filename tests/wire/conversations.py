"""The conversations every codec must write: one table, shared by all wires."""

from collections.abc import Sequence

from tests.simulators.openai.sealed import seal
from worker.conversation.folds import Fold, FoldKind, build_view
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
    WireForm,
)
from worker.conversation.model import Request
from worker.models.table import PROVIDERS

SYSTEM = "You find out why a pipeline failed."
LOOK = ToolSpec(
    "look",
    "Look at one thing.",
    {"type": "object", "properties": {"at": {"type": "string"}}, "additionalProperties": False},
)
RUN = ToolSpec("run", "Run a command.", {"type": "object", "properties": {}, "required": []})
TOOLS = (LOOK, RUN)
EVENT = User('{"project":"group/app","iid":7}')
NOTICE = "80 % of your iterations are used."


def asks(*messages: Message, **changes: object) -> Request:
    """A request with the table's system text and tools."""
    return Request(**{"system": SYSTEM, "tools": TOOLS, "messages": messages, **changes})  # type: ignore[arg-type]


def calls(*ids: str, text: str = "", wire: WireForm | None = None) -> Assistant:
    """An answer that looks at one place per id."""
    return Assistant(text, tuple(ToolCall(i, "look", f'{{"at":"{i}"}}') for i in ids), wire)


def found(call_id: str, content: str = '{"found":true}', *, is_error: bool = False) -> ToolResult:
    """A result of `look`."""
    return ToolResult(call_id, "look", content, is_error)


_APIS = {"my-azure": "openai-chat", "my-vllm": "openai-chat"}
"""Wires of the providers that are rows of an operator's."""

_OWN = {
    "anthropic": (
        f'[ {{"type":"thinking","thinking":"","signature":"sig_{"0123456789" * 4}"}},'
        '\n {"type": "text", "text": "caf\\u00e9 \\/ look"},'
        ' {"type":"tool_use","id":"toolu_1","name":"look","input":{"z":1.0,"at":"1e3"}} ]'
    ),
    "gemini": (
        '[ {"text": "caf\\u00e9 \\/ look"},\n {"functionCall" : {"id":"toolu_1","name":"look",'
        '"args":{"z":1.0,"at":"1e3"}} ,"thoughtSignature":"c2lnbmVk/+0="} ]'
    ),
    "openai-chat": (
        '{"content": "caf\\u00e9 \\/ look","tool_calls":[ {"id":"toolu_1","type" : "function",'
        '"function":{"name":"look","arguments":"{\\"z\\":1.0,\\"at\\":\\"1e3\\"}"}} ],'
        '"reasoning_content":"hm"}'
    ),
}
"""Answers with signed thinking as they came in, by wire."""


def own_thinking(origin: str) -> Assistant:
    """An answer with signed thinking, as `origin` sent it: odd spaces, escapes, number forms."""
    who, _, model = origin.partition("/")
    api = PROVIDERS[who].api if who in PROVIDERS else _APIS.get(who, "anthropic")
    content = _items(model) if api == "openai-responses" else _OWN[api]
    made = ToolCall("toolu_1", "look", '{"z":1.0,"at":"1e3"}')
    return Assistant("café / look", (made,), WireForm(origin, content))


def _items(model: str) -> str:
    """An answer of the Responses API; only `model` can read its reasoning."""
    sealed = seal(model, "rs_r1")
    return (
        f'[ {{"id":"rs_r1","type":"reasoning","summary":[],"encrypted_content":"{sealed}"}},'
        '\n {"id":"msg_r1","type":"message","status":"completed","role":"assistant",'
        '"phase":"commentary","content" : [{"type":"output_text","annotations":[],'
        '"text":"caf\\u00e9 \\/ look"}]},'
        ' {"id":"fc_r1","type":"function_call","status":"completed","call_id":"toolu_1",'
        '"name":"look","arguments":"{\\"z\\":1.0,\\"at\\":\\"1e3\\"}"} ]'
    )


FOREIGN = WireForm("gemini/gemini-4-argon", '[{"text":"secret","thoughtSignature":"c2ln"}]')


def conversations(origin: str) -> dict[str, Request]:
    """The table. `origin` is the name of the model the codec writes for."""
    two = (EVENT, calls("a", "b"), found("a"), found("b"))
    return {
        "plain": asks(EVENT, marks=(0,)),
        "multi_turn": asks(EVENT, Assistant("It is a flake."), User("Are you sure?"), marks=(0, 2)),
        "parallel_calls": asks(*two, marks=(0, 2)),
        "forty_calls": asks(
            EVENT,
            calls(*(f"c{n}" for n in range(40))),
            *(found(f"c{n}") for n in range(40)),
            marks=(0, 2),
        ),
        "tool_error": asks(EVENT, calls("a"), found("a", '{"error":"no"}', is_error=True)),
        "thinking_verbatim": asks(EVENT, own_thinking(origin), found("toolu_1"), marks=(1, 2)),
        "foreign_wire": asks(EVENT, calls("a", text="Looking.", wire=FOREIGN), found("a")),
        "foreign_ids": asks(EVENT, calls("call:1/ü"), found("call:1/ü")),
        "broken_arguments": asks(
            EVENT,
            Assistant("", (ToolCall("a", "look", '{"at": '), ToolCall("b", "bad.name", "[1]"))),
            found("a", '{"error":"not JSON"}', is_error=True),
            ToolResult("b", "bad.name", '{"error":"no such tool"}', True),
        ),
        "empty_result": asks(EVENT, calls("a"), found("a", "")),
        "unicode": asks(
            User("Grüße \U0001f40d \x00\x1b[31m \u2028 half:\ud83d whole:\ud83d\udc0d"),
            calls("a"),
            found("a", "日本語\r\n"),
        ),
        "notice": asks(*two, notice=NOTICE, marks=(0, 1)),
        "notice_first": asks(EVENT, notice=NOTICE),
        "truncated": asks(EVENT, Assistant("The job died of a miss"), User("Go on."), marks=(0, 2)),
        "kept_notice": asks(*two, User(NOTICE), calls("c"), found("c"), marks=(2, 4)),
        "final_turn": asks(*two, notice="Write your final answer now.", tools_allowed=False),
        "reply_after_cut": asks(*two, User("Look again."), marks=(2,)),
        "no_tools": asks(EVENT, tools=()),
        "helper": asks(EVENT, tools=(), tools_allowed=False, max_output=300),
        "folded": asks(*_fold(two), marks=(0, 2)),
        "too_many_marks": asks(
            EVENT, *(step for n in "abcd" for step in (calls(n), found(n))), marks=(0, 2, 4, 6, 8)
        ),
        **sliding(),
    }


def _fold(messages: Sequence[Message]) -> Sequence[Message]:
    """A conversation of which the second exchange was left out, and of the first the results were
    shortened."""
    long = ToolResult("b", "look", '{"text":"' + "é" * 500 + '"}')
    session = (*messages[:-1], long, calls("c"), found("c"), User("And?"), calls("d"), found("d"))
    return build_view(
        session,
        (
            Fold(FoldKind.PRUNE, 1, 4, made_at=9, limit=200),
            Fold(FoldKind.SUMMARY, 4, 6, made_at=9, text="(What was here is left out.)"),
        ),
    )


def sliding() -> dict[str, Request]:
    """The five requests T1 to T5; T3 and T4 end in ephemeral text."""
    requests: dict[str, Request] = {}
    messages: list[Message] = [EVENT]
    steps = [("", (0,)), ("", (0, 2)), (NOTICE, (2, 3)), (NOTICE, (3, 5)), ("", (5, 8))]
    for number, (notice, marks) in enumerate(steps, start=1):
        requests[f"sliding_t{number}"] = asks(*messages, notice=notice, marks=marks)
        messages += [calls(f"t{number}"), found(f"t{number}")]
    return requests
