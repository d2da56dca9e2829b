"""Reads what a model writes in its text by its training: thoughts, and calls. Pure.

A server that does not take thoughts out leaves them there, in the marks that the model was trained
on. Where the template has opened them already, the answer begins in thoughts, and has only the mark
at their end. What an answer quotes in a fence, in code within a line or in a list stays as it is.

Calls stand there if the server does not know the model's form. Nearly all are one of four kinds: a
JSON object with the tool's name; the name, and then a JSON object; tags for the tool and for each
argument; or calls in Python. What stands around them are marks. Only calls of tools that were
offered count, and only at the end of an answer.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from worker.conversation.messages import ToolSpec
from worker.safety.untrusted import parse_json
from worker.settings.runs import MOST_CALLS

_TAG = r"(?:[a-z]{2,12}:)?(?:think(?:ing)?|thoughts?|reasoning|scratchpad)"
_FORMS = {
    "tag": (rf"<{_TAG}>", rf"</{_TAG}>"),
    "bracket": (r"\[THINK\]", r"\[/THINK\]"),
    "triangle": (r"◁think▷", r"◁/think▷"),
    "token": (
        r"<\|(?:START_THINKING|begin_of_thought)\|>",
        r"<\|(?:END_THINKING|end_of_thought)\|>",
    ),
    "turn": (r"<\|channel>thought\b", r"<channel\|>"),
    "channel": (
        r"(?:<\|start\|>assistant)?<\|channel\|>analysis\b[^<\n]{0,80}<\|message\|>",
        r"<\|end\|>",
    ),
}
"""What begins thoughts, and what ends them."""

_CLOSERS = {name: re.compile(closes, re.IGNORECASE) for name, (_, closes) in _FORMS.items()}
_STRAY = "|".join(closes for name, (_, closes) in _FORMS.items() if name != "channel")
_OPENERS = "|".join(f"(?P<{name}>{opens})" for name, (opens, _) in _FORMS.items())
_OPENER = re.compile(_OPENERS, re.IGNORECASE)
_CLOSER = re.compile(_STRAY, re.IGNORECASE)
_NEXT = re.compile(
    rf"(?P<fence>^[ \t]{{0,20}}(?:`{{3,}}|~{{3,}}))|(?P<code>`[^`\n]{{1,200}}`)"
    rf"|{_OPENERS}|(?P<stray>{_STRAY})",
    re.IGNORECASE | re.MULTILINE,
)

_VERDICT = re.compile(r"^[ \t#*_]{0,12}verdict\b", re.IGNORECASE | re.MULTILINE)
"""An answer with sections begins with this one: what stands before it is none of the answer."""

_ITEM = re.compile(r"[ \t]{0,20}(?:[-+*>|]|\d{1,3}[.)])|[ \t]{1,20}$")
_CALL = re.compile(
    r"^(?:(?:`{3,}|~{3,})tool_call|<(?:tool_call|function)|\[TOOL_CALLS\]|<｜|<\|tool)",
    re.MULTILINE,
)
"""A call that a model makes without ending its thoughts."""

_FRAME = (
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>final\b[^<\n]{0,80}<\|message\|>|<\|return\|>"
    r"|<\|end\|>|<\|(?:START|END)_(?:RESPONSE|TEXT)\|>|<\|(?:begin|end)_of_solution\|>"
    r"|</?answer>)"
)
_FRAMED = re.compile(rf"\s*{_FRAME}|{_FRAME}\s*\Z")
"""What stands around the answer itself."""

_BARE = ("analysis", "assistantfinal")
"""What is left of channels if the server leaves out their marks."""


def remove_thoughts(text: str) -> str:
    """Return an answer without its thoughts; a text without any comes back as it is."""
    if text.startswith(_BARE[0]) and _BARE[1] in text:
        return text.partition(_BARE[1])[2].strip()
    if not (_OPENER.search(text) or _CLOSER.search(text) or text.startswith("<|")):
        return text
    left = _take_out(text)
    while frame := _FRAMED.match(left):
        left = left[frame.end() :]
    if frame := _FRAMED.search(left, max(0, len(left) - 40)):
        left = left[: frame.start()]
    return left.strip()


def _take_out(text: str) -> str:
    verdict = max((found.start() for found in _VERDICT.finditer(text)), default=-1)
    said: list[str] = []
    at = start = 0
    has_fences = True
    while found := _NEXT.search(text, at):
        at, form = found.end(), found.lastgroup
        if form == "fence" and has_fences:
            mark = found[0].strip()
            fence_end = re.compile(rf"^[ \t]{{0,20}}{mark}[`~]{{0,20}}[ \t]{{0,20}}$", re.MULTILINE)
            closed = fence_end.search(text, at)
            has_fences = closed is not None
            end = closed.end() if closed else 0
            odd = _CLOSER.search(text, at, min(end, max(verdict, 0)))
            if odd and not _OPENER.search(text, at, odd.start()):
                # The answer begins after a mark without a beginning: thoughts leave the fence open.
                said, at = [], odd.end()
                start = at
            else:
                at = end or at
        elif form == "stray" and (
            found.end() < verdict or not _ITEM.match(_get_line_before(text, found, 0))
        ):
            said, start = [], at
        elif form in _FORMS and not _get_line_before(text, found, start):
            said.append(text[start : found.start()])
            if closer := _CLOSERS[form].search(text, at):
                at = start = closer.end()
            else:
                call = _CALL.search(text, at)
                at = start = call.start() if call else len(text)
    return "".join([*said, text[start:]])


def _get_line_before(text: str, found: re.Match[str], start: int) -> str:
    """Return what stands before a mark on its line, from `start` on."""
    return text[max(start, text.rfind("\n", 0, found.start()) + 1) : found.start()]


_MOST_STARTS, _MOST_PYTHON = 200, 4000

_MARK = (
    r"\s|</?[\w:.-]{1,40}>|<[|｜][^|｜>\n]{1,60}[|｜]>|</?｜[^|｜>\n]{1,20}｜\w{1,40}>|`{3,}\w{0,20}"
    r"|\[/?(?:TOOL_CALLS|TOOL_REQUEST|END_TOOL_REQUEST|ARGS)\]|[,;()]|to=|call:|:\d{1,4}(?=[\s<{])"
    r"|(?:Action(?: Input)?|Observation):"
    r"|\b(?:assistant|(?:assistant)?commentary|function|json|code)\b(?=[\s<`{])"
    r"|<\|?tool_call\|?>"
)
_MARKS = re.compile(f"(?:{_MARK})*+")
_END_MARKS = re.compile(r"(?:<\|\w{1,40}\|>|`{3}|\s)++\Z")
_ENTRY = re.compile(r"[{,]\s{0,20}([\w.-]{1,64}):(?:(<escape>|<\|\"\|>)|([^,{}<\n]{1,200}))")
"""An argument of Gemma's own syntax: `{key:value,other:<escape>text<escape>}`."""
_TOKENS = r"\[TOOL_CALLS\]|<[|｜](?:tool|start)|<｜|<tool_call>|<start_function_call>"
"""What begins calls, also in the middle of a line."""

_NAMES = ("name", "tool", "tool_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input")

_SPACE = r"(?:[\w:]{1,20}:|｜\w{1,20}｜)?"
"""What stands before the name of a tag."""

_TOOL = re.compile(rf"<(?:function=|{_SPACE}invoke\s+name=)[\"']?([\w.-]{{1,64}})[\"']?\s*>")
_ARGUMENT = re.compile(
    rf"\s*<(?:{_SPACE}parameter(?:=|\s+name=)[\"']?([\w.-]{{1,64}})[\"']?[^>\n]{{0,40}}>"
    r"|arg_key>\s*([\w.-]{1,64})\s*</arg_key>\s*<arg_value>)"
)
_ARGUMENT_END = re.compile(
    rf"\n?(?:</{_SPACE}parameter>|</arg_value>|(?=<{_SPACE}parameter\b|</{_SPACE}(?:function|invoke)>))"
)


class WrittenCall(NamedTuple):
    """A tool's name, and the JSON text of its arguments."""

    name: str
    arguments: str


def read_written_calls(text: str, tools: Sequence[ToolSpec]) -> tuple[str, tuple[WrittenCall, ...]]:
    """Return the text before the calls that end it, and the calls; the whole text and () if there
    are none, or if one cannot be read."""
    reader = _Reader(text, {tool.name: tool for tool in tools})
    for start in reader.starts:
        if calls := reader.read(start):
            return text[:start].rstrip(), tuple(calls)
    return text, ()


class _Reader:
    """Reads the calls of one text."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec]) -> None:
        self._text, self._tools = text, tools
        names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True))) or "(?!)"
        self._name = re.compile(rf"(?:functions\.)?({names})(?!\w)")
        start = re.compile(
            r"^[ \t]{0,20}(?=[<\[{]|`{3}|(?:(?:assistant)?commentary )?to=|call:|Action:"
            rf"|(?:functions\.|default_api\.|print\()?(?:{names})\b)|{_TOKENS}",
            re.MULTILINE,
        )
        self.starts = [found.start() for found in start.finditer(text)][-_MOST_STARTS:]
        """Where calls may begin, the first ones first."""

    def read(self, at: int) -> list[WrittenCall]:
        """Return the calls from `at` to the end of the text, [] if that is anything else."""
        at = self._skip_marks(at)
        if calls := list(self._read_python(_END_MARKS.sub("", self._text[at:]))):
            return calls
        while at < len(self._text):
            found, at = self._read_next(at)
            if not found or len(calls) > MOST_CALLS:
                return []
            calls += found
            at = self._skip_marks(at)
        return calls

    def _skip_marks(self, at: int) -> int:
        marks = _MARKS.match(self._text, at)
        return marks.end() if marks else at

    def _read_next(self, at: int) -> tuple[list[WrittenCall], int]:
        """Return the calls at `at`, [] for anything else, and where they end."""
        named = _TOOL.match(self._text, at) or self._name.match(self._text, at)
        if named is None:
            value, at = self._read_json(at)
            if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
                value = value["tool_calls"]
            listed = value if isinstance(value, list) else [value]
            calls = [self._read_object(each) for each in listed]
            return [call for call in calls if call] if all(calls) else [], at
        name, at = named[1].removeprefix("functions."), named.end()
        value, end = self._read_json(self._skip_marks(at))
        if not isinstance(value, dict) and (named.re is _TOOL or _ARGUMENT.match(self._text, at)):
            return self._read_tags(name, at)
        if value is None and _ENTRY.match(self._text, at):
            return self._read_entries(name, at)
        at = end
        return ([WrittenCall(name, json.dumps(value))] if isinstance(value, dict) else []), at

    def _read_json(self, at: int) -> tuple[Any, int]:
        if self._text[at : at + 1] not in ("{", "["):
            return None, at
        try:
            return json.JSONDecoder().raw_decode(self._text, at)
        except (ValueError, RecursionError):
            return None, at

    def _read_object(self, value: Any) -> WrittenCall | None:
        inner = value.get("function") if isinstance(value, dict) else None
        call = inner if isinstance(inner, dict) else value
        if not isinstance(call, dict):
            return None
        name = next((call[key] for key in _NAMES if isinstance(call.get(key), str)), "")
        given: Any = next((call[key] for key in _ARGUMENTS if key in call), {})
        if (name := name.removeprefix("functions.")) not in self._tools:
            return None
        return WrittenCall(name, given if isinstance(given, str) else json.dumps(given))

    def _read_tags(self, name: str, at: int) -> tuple[list[WrittenCall], int]:
        if name not in self._tools:
            return [], at
        kinds = self._tools[name].parameters.get("properties", {})
        given: dict[str, Any] = {}
        while opened := _ARGUMENT.match(self._text, at):
            closed = _ARGUMENT_END.search(self._text, opened.end())
            if closed is None:
                return [], at
            key, value = opened[1] or opened[2], self._text[opened.end() : closed.start()]
            given[key] = _type_value(value.removeprefix("\n"), kinds.get(key, {}))
            at = closed.end()
        return [WrittenCall(name, json.dumps(given))], at

    def _read_entries(self, name: str, at: int) -> tuple[list[WrittenCall], int]:
        kinds = self._tools[name].parameters.get("properties", {})
        given: dict[str, Any] = {}
        while entry := _ENTRY.match(self._text, at):
            key, mark, bare = entry.groups()
            at = entry.end()
            if mark:
                end = self._text.find(mark, at)
                if end < 0:
                    return [], at
                bare, at = self._text[at:end], end + len(mark)
            given[key] = bare if mark else _type_value(bare.strip(), kinds.get(key, {}))
        whole = self._text.startswith("}", at)
        return ([WrittenCall(name, json.dumps(given))] if whole else []), at + 1

    def _read_python(self, text: str) -> Iterator[WrittenCall]:
        """Yield the calls of a Python list of calls, or of one call; nothing for any other text."""
        if len(text) > _MOST_PYTHON or not text.endswith((")", "]")):
            return
        try:
            whole = ast.parse(text, mode="eval").body
            for each in whole.elts if isinstance(whole, ast.List) else [whole]:
                if isinstance(each, ast.Call) and ast.unparse(each.func) == "print":
                    (each,) = each.args
                if not isinstance(each, ast.Call) or each.args:
                    return
                name = ast.unparse(each.func).rpartition(".")[2]
                given = {str(key.arg): ast.literal_eval(key.value) for key in each.keywords}
                if name not in self._tools:
                    return
                yield WrittenCall(name, json.dumps(given))
        except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
            return


def _type_value(text: str, schema: Any) -> Any:
    """Return the value of an argument that was written without quotes."""
    is_text = isinstance(schema, dict) and schema.get("type") == "string"
    value = None if is_text else parse_json(text)
    return text if value is None else value
