"""The toolbox: runs the model's calls and answers every one, whatever goes wrong.

Its tools are those of `TOOLS`, the session's sources, and `find_tool`, which describes sources that
were not announced, so that the announced list stays short.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, groupby
from typing import Any

from pydantic import Field

from sandbox.base import Output
from sandbox.tools import LOG, describe_output
from worker.conversation.messages import ToolCall, ToolResult, ToolSpec
from worker.errors import ArgumentError
from worker.safety.redacted_values import redact_values
from worker.safety.sentences import correct_spelling
from worker.safety.untrusted import parse_object
from worker.tools import documents
from worker.tools.arguments import Arguments, parse
from worker.tools.base import ToolContext, ToolDef, ToolOutput, catch_failure, run_in_parallel
from worker.tools.source import Ran, Source

_FIND_TOOL = "find_tool"

FIND_TOOL_USES = 3
"""How often it may be used in a run, where nothing else is set."""

_MOST_FOUND = 4

_WORDS = re.compile(r"[a-z0-9]{3,}")


class _Command(Arguments):
    """The arguments of `sandbox_exec`."""

    command: str = Field(min_length=1, max_length=100_000, description="A bash script.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, description="Shorter than the usual limit."
    )


_WHY_KILLED = {True: ", for want of memory", None: ", perhaps for want of memory", False: ""}


def run_command(args: _Command, context: ToolContext, number: int) -> ToolOutput:
    """Run the command; a non-zero exit status is a result like any other."""
    timeout = min(args.timeout_seconds or context.exec_timeout, context.exec_timeout)
    done = context.sandbox.exec(args.command, timeout=timeout, number=number)
    content: dict[str, Any] = {"exit_code": done.exit_code}
    if done.timed_out:
        content["timed_out"] = f"killed after {timeout:g} seconds; what it wrote until then follows"
    elif done.exit_code == 137:
        content["killed"] = f"by signal 9{_WHY_KILLED[done.out_of_memory]}"
    content |= _describe_stream("stdout", done.stdout)
    if done.stderr.size:
        content |= _describe_stream("stderr", done.stderr)
    return ToolOutput(content, done.stdout.size + done.stderr.size)


def _describe_stream(name: str, output: Output) -> dict[str, Any]:
    content: dict[str, Any] = {name: output.preview}
    if output.path:
        content[f"{name}_file"] = output.path
        content[f"{name}_bytes"] = output.size
        content[f"{name}_lines"] = output.lines
        if output.file_size < output.size:
            content[f"{name}_cut"] = f"the file holds only the first {output.file_size} bytes"
    return content


SANDBOX_EXEC = ToolDef(
    name="sandbox_exec",
    description=(
        "Run a bash script in the sandbox. Files stay between calls, background processes end with "
        f"the call. {describe_output()} {LOG}"
    ),
    args=_Command,
    run=run_command,
    runs_in_order=True,
)

TOOLS: tuple[ToolDef[Any], ...] = (SANDBOX_EXEC, documents.FETCH, documents.FETCH_BATCH)
"""All tools. A new one is a file and a row here."""


def list_specs(
    sources: Mapping[str, Source], allows: Callable[[str], bool], *, compact: bool = False
) -> tuple[ToolSpec, ...]:
    """List the descriptions of the allowed tools, then of the allowed sources, each in the order of
    its table.

    With `compact`, they have only the description's first sentence, and arguments' names and types.
    """
    specs = [tool.spec for tool in TOOLS] + [source.spec for source in sources.values()]
    listed = (spec for spec in specs if allows(spec.name))
    if not compact:
        return tuple(listed)
    return tuple(
        ToolSpec(
            spec.name,
            f"{spec.description.partition('. ')[0].rstrip('.')}.",
            _shorten_schema(spec.parameters),
        )
        for spec in listed
    )


def _shorten_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return only types, choices and required arguments; the tool itself checks the values."""
    shorter: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "properties":
            shorter[name] = {each: _shorten_schema(found) for each, found in value.items()}
        elif name in {"type", "required", "enum"}:
            shorter[name] = value
        elif name == "items":
            shorter[name] = _shorten_schema(value)
        elif name == "anyOf":
            shorter |= next(_shorten_schema(each) for each in value if each.get("type") != "null")
    return shorter


class WorkflowToolbox:
    """The tools and sources that one workflow may use. Implements tools.source.Toolbox.

    `others` are those that were not announced to the model; it can find them with `find_tool`,
    `finds` times.

    Every string of a result is redacted before it is written as JSON.
    """

    def __init__(
        self,
        context: ToolContext,
        allows: Callable[[str], bool],
        others: Sequence[ToolSpec] = (),
        finds: int = FIND_TOOL_USES,
    ) -> None:
        self._tools: dict[str, ToolDef[Any]] = {
            tool.name: tool for tool in TOOLS if allows(tool.name)
        }
        if others:
            self._tools[_FIND_TOOL] = make_find_tool(others, finds)
        self._sources = {name: one for name, one in context.sources.items() if allows(name)}
        self._context = replace(context, sources=self._sources)

    def is_repeatable(self, call: ToolCall) -> bool:
        """Whether the call may be repeated: all but commands only read."""
        return not self._is_ordered(call)

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        """Answer the calls; yields their results in the order of the calls.

        Commands run in order. Adjacent other calls run in parallel, or in order if two of them
        write the same file, so that the last one wins. Raises only SandboxLost.
        """
        self._context.documents.publish()
        numbered = enumerate(calls, first)
        for ordered, group in groupby(numbered, lambda pair: self._is_ordered(pair[1])):
            near = list(group)
            jobs = [partial(self._answer, call, number) for number, call in near]
            saving = (call for _, call in near if self._find_name(call.name) in documents.NAMES)
            paths = [path for call in saving for path in documents.list_paths(call.arguments)]
            if ordered or len(set(paths)) < len(paths):
                yield from (job() for job in jobs)
            else:
                yield from run_in_parallel(jobs)

    def _is_ordered(self, call: ToolCall) -> bool:
        tool = self._tools.get(self._find_name(call.name) or "")
        return tool is not None and tool.runs_in_order

    def _answer(self, call: ToolCall, number: int) -> Ran:
        started = time.monotonic()
        output = catch_failure(partial(self._dispatch, call, number), call.name)
        content = json.dumps(
            redact_values(output.content, self._context.redact), ensure_ascii=False
        )
        result = ToolResult(call.id, call.name, content, output.is_error)
        return Ran(result, output.size, time.monotonic() - started)

    def _dispatch(self, call: ToolCall, number: int) -> ToolOutput:
        name = self._find_name(call.name)
        if name is None:
            known = ", ".join([*self._tools, *self._sources])
            raise ArgumentError(f"there is no tool {call.name!r}; there are: {known}")
        if tool := self._tools.get(name):
            output = tool.run(parse(tool.args, call.arguments), self._context, number)
        else:
            # A source's document, or its path if it was saved before.
            document = self._sources[name].fetch(call.arguments)
            values = parse_object(call.arguments)
            saved = self._context.documents
            known_path = saved.find_path(name, values, document)
            output = documents.show_document(document, self._context, number, known_path)
            if path := output.content.get("saved_to"):
                saved.add(name, values, document, path)
        if name == call.name:
            return output
        hint = f"there is no tool {call.name!r}; this is what {name} gave"
        return replace(output, content={"hint": hint, **output.content})

    def _find_name(self, name: str) -> str | None:
        known = [*self._tools, *self._sources]
        return name if name in known else correct_spelling(name, known)


class _FindTool(Arguments):
    """The arguments of `find_tool`."""

    query: str = Field(min_length=1, max_length=500, description="What you want to know or do.")


def make_find_tool(others: Sequence[ToolSpec], most: int = FIND_TOOL_USES) -> ToolDef[_FindTool]:
    """Make the tool that finds one of `others`, for one run; it may be used `most` times.

    It describes tools that were not announced as a result: so the tool definitions of the session
    stay byte for byte the same, and the provider's cache stays valid.
    """
    uses = count(1)
    often = f"{most} times" if most > 1 else "once"

    def run(args: _FindTool, context: ToolContext, number: int) -> ToolOutput:
        if next(uses) > most:
            raise ArgumentError(f"{_FIND_TOOL} may be used {often}; go on with what you have")
        found = _find_specs(args.query, others)
        content = {
            "how": "call fetch_to_sandbox with the name as `source`",
            "tools": [
                {"name": each.name, "description": each.description, "arguments": each.parameters}
                for each in found
            ],
            "others": [each.name for each in others if each not in found],
        }
        return ToolOutput(content, 0)

    return ToolDef(
        name=_FIND_TOOL,
        description=(
            f"Find more data sources by what they give, with their arguments. At most {often}. "
            f"There are {len(others)} besides the tools you see."
        ),
        args=_FindTool,
        run=run,
    )


def _find_specs(query: str, others: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the tools that share the most words with the query, the best first."""
    wanted = _read_stems(query)
    scores = {
        each.name: 3 * len(wanted & _read_stems(each.name.replace("_", " ")))
        + len(wanted & _read_stems(each.description))
        for each in others
    }
    best = sorted(others, key=lambda each: (-scores[each.name], each.name))
    return [each for each in best if scores[each.name]][:_MOST_FOUND]


def _read_stems(text: str) -> frozenset[str]:
    return frozenset(word[:6] for word in _WORDS.findall(text.lower()))
