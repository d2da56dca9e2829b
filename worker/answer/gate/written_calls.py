"""Detects tool calls that a model has written as text instead of making them. Pure.

Logs and diffs of projects that build on language models hold such texts too. So text in a list, a
quote or a code block is only shown and is no call, except in a code block that ends the answer or
is marked as a tool call.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from worker.answer.gate.blocks import Block, BlockKind

_FENCES = frozenset(
    ("tool_call", "tool_calls", "tool", "tool_code", "tool_use", "function_call", "function")
)
_DATA_FENCES = frozenset(("", "json", "xml", "python"))

_MARKS = re.compile(
    r"""\s*(?:
        [{,]?\s*["']?(?:tool_calls|function_call)["']?\s*[:=]\s*(?:[\[{(]|$)
      | \{\s*["']role["']\s*:\s*["']assistant["']
      | </?(?:\w{1,20}:)?(?:start_)?
        (?:tool_calls?|tool_use|tool_code|function_calls?|function|invoke)[\s>=]
      | <\|[A-Za-z_]{2,40}
      | <｜
      | \[(?:TOOL_CALLS|TOOL_REQUEST)\]
      | \[?\s*\{\s*["'](?:name|tool|tool_name|function|action|recipient_name)["']\s*:
        \s*["'][\w.:/-]{1,64}["']\s*,
        \s*["'](?:arguments|parameters|args|input|action_input)["']\s*:
      | Action\s*:\s*[\w.]+\s*$
      | (?:(?:assistant)?commentary\ )?to=functions\.
    )""",
    re.VERBOSE | re.MULTILINE,
)
_TOKENS = re.compile(r"(?<!`)(?:\[TOOL_CALLS\]|<[|｜]tool|<tool_call>\s*\{)")
"""Marks that are calls in the middle of a line too."""

_NAMED = r"""
    \s*\[?(?:print\()?(?:functions\.|default_api\.)?(?:{tools})(?::\d{{1,4}})?\s*(?:[({{]|\[ARGS\])
  | \s*\[?\s*\{{\s*["'](?:name|tool|tool_name|function|action|recipient_name)["']\s*:
    \s*["'](?:functions\.)?(?:{tools})["']
"""


def has_written_call(blocks: Sequence[Block], tools: Collection[str]) -> bool:
    """Return whether the model's own text holds a tool call; `tools` are the tools' names."""
    named = re.compile(_NAMED.format(tools=_join_names(tools)), re.VERBOSE)
    return any(
        block.info.split(" ")[0] in _FENCES
        or any(
            _MARKS.match(line) or _TOKENS.search(line) or named.match(line)
            for line in _list_lines(block)
        )
        for block in _select_own(blocks)
    )


def _join_names(tools: Collection[str]) -> str:
    return "|".join(map(re.escape, sorted(tools))) or "(?!)"


def _select_own(blocks: Sequence[Block]) -> Iterator[Block]:
    """What the model says itself, and the block of code that ends its answer."""
    for number, block in enumerate(blocks, 1):
        ends = number == len(blocks) and block.info in _DATA_FENCES
        if block.kind in (BlockKind.PROSE, BlockKind.HEADING) or block.info in _FENCES or ends:
            yield block


def _list_lines(block: Block) -> list[str]:
    if block.kind is BlockKind.ITEM:
        return []
    # JSON may be spread over lines, so its beginning is also read as one line.
    return [block.text[:400].replace("\n", " "), *block.text.split("\n")]
