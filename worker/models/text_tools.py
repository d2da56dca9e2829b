"""A model whose server refuses native tools, or does not read what the model writes as their calls,
goes on with calls as fenced text.

Only a fenced block at the end of an answer is a call; blocks before it, or inside other blocks, are
text. In its place may stand calls in the form that the model was trained on (`written_forms`). The
stored conversation stays as it is, so that another provider resumes it with native calls.
"""

import hashlib
import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from worker.conversation.answer_text import has_written_call, read_blocks, split_sections
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, ToolSpec, User
from worker.conversation.model import Model, Reply, Request, StopReason
from worker.errors import NO_TOOLS, ModelError
from worker.models.wrapper import ModelWrapper
from worker.models.written_forms import read_written_calls
from worker.safety.untrusted import parse_json, parse_object

_log = logging.getLogger(__name__)

MOST_SESSIONS = 10_000
"""Sessions that are remembered; a forgotten session costs one refused request."""

_USABLE = frozenset({StopReason.END, StopReason.TOOL_CALLS})

NAME = "tool_call"
MOST_CALLS = 20
UNNAMED = "unnamed"
"""The name given to a call that has none, if others beside it have one. The call's result says that
there is no such tool."""

_FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")

_INSTRUCTIONS = """\
## Tools
This server takes no native tool calls. To call tools, end your answer with one block like this, and
write nothing after it:

```tool_call
{"name": "NAME", "arguments": {"KEY": "VALUE"}}
```

For several calls the block holds a JSON array of such objects. Only a block at the very end of your
answer is run; an answer without one is your final answer. Results come back in the next message.

The tools, with JSON Schemas of their arguments:
"""


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An answer's text without the block of calls at its end, and the calls.

    `is_broken` says that there is such a block, but that it cannot be read.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    is_broken: bool = False


class TextToolsModel(ModelWrapper):
    """A `Model` that asks for calls as text if native tools are refused, or an answer
    holds a call as text.

    `always` asks for calls as text from the first request on. As safe to share as the model.
    """

    def __init__(self, model: Model, *, always: bool = False) -> None:
        super().__init__(model)
        self._always = always
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def reply(self, request: Request) -> Reply:
        """See Model."""
        if not request.tools:
            return super().reply(request)
        if self._always or request.session in self._sessions:
            return self._ask_by_text(request)
        try:
            reply = super().reply(request)
        except ModelError as error:
            if error.kind != NO_TOOLS:
                raise
            _log.warning("%s: %s; asking for calls as text", self.name, error)
            self._remember(request.session)
            return self._ask_by_text(request)
        return self._read_calls(reply, request)

    def _read_calls(self, reply: Reply, request: Request) -> Reply:
        """Return the reply to a request with native tools, with the calls that it has as text."""
        if reply.calls or reply.stop is not StopReason.END:
            return reply
        parsed = _parse(reply, request)
        calls = bool(parsed.calls or parsed.is_broken)
        tools = [tool.name for tool in request.tools]
        if not calls and not has_written_call(read_blocks(reply.text), tools):
            return reply
        _log.warning("%s: it writes calls as text; asking for them so", self.name)
        self._remember(request.session)
        return _take_calls(reply, parsed) if calls else reply

    def _remember(self, session: str) -> None:
        with self._lock:
            self._sessions[session] = None
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)

    def _ask_by_text(self, request: Request) -> Reply:
        reply = super().reply(rewrite_request(request))
        if reply.stop not in _USABLE:
            return replace(reply, wire="")
        return _take_calls(reply, _parse(reply, request))


def _parse(reply: Reply, request: Request) -> _Parsed:
    position = sum(isinstance(each, Assistant) for each in request.messages)
    return parse_answer(reply.text, position, request.tools)


def _take_calls(reply: Reply, parsed: _Parsed) -> Reply:
    if parsed.is_broken:
        broken = StopReason.MALFORMED
        return replace(reply, text=parsed.text, wire="", stop=broken, dropped_calls=1)
    stop = StopReason.TOOL_CALLS if parsed.calls else StopReason.END
    return replace(reply, text=parsed.text, calls=parsed.calls, wire="", stop=stop)


def rewrite_request(request: Request) -> Request:
    """Return the request without native tools, with the calls and results of its history as text.

    The tools are described at the end of the system prompt. Each message is rewritten independently
    of the others, so that what was sent before is sent again byte for byte.
    """
    described = "\n".join(
        f"- {spec.name}: {spec.description}\n"
        f"  {json.dumps(dict(spec.parameters), ensure_ascii=False, separators=(',', ':'))}"
        for spec in request.tools
    )
    messages = tuple(map(_rewrite_message, request.messages))
    system = f"{request.system}\n\n{_INSTRUCTIONS}{described}\n"
    native = replace(request, tools=(), tools_allowed=True, has_to_call=False)
    return replace(native, system=system, messages=messages)


def _rewrite_message(message: Message) -> Message:
    match message:
        case Assistant(text, calls) if calls:
            return Assistant("\n\n".join(filter(None, (text.strip(), write_calls(calls)))))
        case Assistant(text):
            return Assistant(text)
        case ToolResult():
            failed = " (it failed)" if message.is_error else ""
            return User(f"Result of {message.name}{failed}:\n{message.content}")
        case _:
            return message


def write_calls(calls: Sequence[ToolCall]) -> str:
    """Return the block in which a model writes these calls."""
    listed = [{"name": call.name, "arguments": parse_object(call.arguments)} for call in calls]
    content = listed[0] if len(listed) == 1 else listed
    return f"```{NAME}\n{json.dumps(content, ensure_ascii=False)}\n```"


def parse_answer(text: str, position: int, tools: Sequence[ToolSpec] = ()) -> _Parsed:
    """Parse the answer at `position` in its conversation; the ids of its calls depend on that.

    `tools` are those that calls without a block may be of.
    """
    lines, seed = text.rstrip().split("\n"), f"{position}\n{text}"
    start = _find_last_block(lines)
    if start is None:
        # An answer with sections shows such a text, and makes no call.
        if not tools or split_sections(text).keys() - {""}:
            return _Parsed(text)
        before, written = read_written_calls(text, tools)
        made = (_make_call(*call, at, seed) for at, call in enumerate(written[:MOST_CALLS]))
        return _Parsed(before, tuple(made))
    before, body = "\n".join(lines[:start]).rstrip(), "\n".join(lines[start + 1 : -1])
    calls = tuple(_read_calls(body, seed))
    return _Parsed(before, calls) if calls else _Parsed(before, is_broken=True)


def _make_call(name: str, arguments: str, number: int, seed: str) -> ToolCall:
    made_id = hashlib.sha256(f"{number}\n{seed}".encode(errors="replace")).hexdigest()[:16]
    return ToolCall(f"text_{made_id}", name, arguments)


def _find_last_block(lines: Sequence[str]) -> int | None:
    """Return the index of the line that opens the block of calls at the answer's end, or None."""
    opened_at, mark, info = -1, "", ""
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line.rstrip())
        if fence is None:
            continue
        if not mark:
            opened_at, mark, info = number, fence["mark"], fence["info"].strip()
        elif fence["mark"].startswith(mark) and not fence["info"].strip():
            if number == len(lines) - 1:
                return opened_at if info == NAME else None
            mark = ""
    return None


def _read_calls(body: str, seed: str) -> Iterator[ToolCall]:
    """Yield the calls of a block; none if no call in it has a name."""
    parsed = parse_json(body)
    listed = (parsed if isinstance(parsed, list) else [parsed])[:MOST_CALLS]
    stated = (each.get("name") if isinstance(each, dict) else None for each in listed)
    names = [name if isinstance(name, str) else "" for name in stated]
    if not any(names):
        return
    for number, (name, each) in enumerate(zip(names, listed, strict=True)):
        arguments = each.get("arguments", {}) if name else {}
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield _make_call(name or UNNAMED, written, number, seed)
