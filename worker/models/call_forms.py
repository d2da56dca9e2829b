"""Reads tool calls in the text of an answer, in the form that a model was trained to write. Pure.

They stand there if the server does not know that form. Nearly all are one of four kinds: a JSON
object with the tool's name; the name, and then a JSON object; tags for the tool and for each
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
    for start in reader.list_starts():
        if calls := reader.read(start):
            return text[:start].rstrip(), tuple(calls)
    return text, ()


class _Reader:
    """Reads the calls of one text."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec]) -> None:
        self._text, self._tools = text, tools
        names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True))) or "(?!)"
        self._name = re.compile(rf"(?:functions\.)?({names})(?!\w)")
        self._start = re.compile(
            r"^[ \t]{0,20}(?=[<\[{]|`{3}|(?:(?:assistant)?commentary )?to=|call:|Action:"
            rf"|(?:functions\.|default_api\.|print\()?(?:{names})\b)|{_TOKENS}",
            re.MULTILINE,
        )

    def list_starts(self) -> list[int]:
        """Return where calls may begin, the first ones first."""
        return [found.start() for found in self._start.finditer(self._text)][-_MOST_STARTS:]

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
            return self._read_objects(value), at
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

    def _read_objects(self, value: Any) -> list[WrittenCall]:
        """Return the calls in a JSON value, [] if it holds anything else."""
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        calls = [
            self._read_object(each) for each in (value if isinstance(value, list) else [value])
        ]
        return [call for call in calls if call] if all(calls) else []

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
