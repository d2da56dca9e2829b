"""Reads the text of an answer: its sections, its Markdown blocks, and calls written in it. Pure.

Sections are found whatever shape their headings have. Blocks tell what the model says from what it
only shows: logs and diffs of projects that build on language models hold calls as text too, so what
stands in a list, a quote or a code block is no call, except in a code block that ends the answer or
is marked as a tool call.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from markdown_it import MarkdownIt

_NAMES = (
    "verdict|failed|cause|root cause|evidence|missing|missing evidence|what is missing"
    "|keep it next time|next time|what to do|next steps|details"
)
_ALIASES = {
    "root cause": "cause",
    "next steps": "what to do",
    "missing evidence": "missing",
    "what is missing": "missing",
    "next time": "keep it next time",
}
_HEADINGS = tuple(
    re.compile(rf"[ ]{{0,3}}(?:{form})", re.IGNORECASE)
    for form in (
        rf"\#{{1,6}}[ \t]*(?:\*\*)?({_NAMES})(?:\*\*)?[ \t]*(?:\#*[ \t]*$|:(?:\*\*)?(.*))",
        rf"(?:\*\*|__)({_NAMES})[ \t]*"
        r"(?:(?::(?:\*\*|__)|(?:\*\*|__)[ \t]*:)(.*)|(?:\*\*|__)[ \t]*$)",
        rf"({_NAMES})[ \t]*:(.*)",
    )
)
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")


def split_sections(text: str) -> dict[str, str]:
    """Return the text of each section by its name; "" names the text before the first section."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line, heading in _find_headings(text):
        if heading:
            name = _ALIASES.get(heading[1].lower(), heading[1].lower())
            line = (heading[2] or "").strip()
        sections.setdefault(name, []).append(line)
    return {name: "\n".join(lines).strip() for name, lines in sections.items()}


def join_sections(sections: Mapping[str, str]) -> str:
    """Return the text that `split_sections` splits into these sections."""
    titles = {name: f"## {name.capitalize()}\n" for name in sections if name}
    return "\n\n".join(titles.get(name, "") + text for name, text in sections.items() if text)


def split_lead(text: str) -> tuple[str, str]:
    """Return the text before the first section, and the rest of the text."""
    lines = list(_find_headings(text))
    first = next((number for number, (_, start) in enumerate(lines) if start), len(lines))
    lead, rest = ("\n".join(line for line, _ in part) for part in (lines[:first], lines[first:]))
    return lead.strip(), rest


def _find_headings(text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield the lines, each with its match as a heading if it is one."""
    lines = text.split("\n")
    inside = find_fenced_lines(lines)
    heading = next((form for form in _HEADINGS if any(map(form.match, lines))), None)
    for number, line in enumerate(lines):
        yield line, heading.match(line) if heading and number not in inside else None


def find_fenced_lines(lines: list[str]) -> set[int]:
    """Return the indices of the lines in closed fences, including the fence marks."""
    inside: set[int] = set()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if opened is None:
            opened = (number, fence[1]) if fence else None
        elif fence and fence[1].startswith(opened[1]) and not fence[2].strip():
            inside.update(range(opened[0], number + 1))
            opened = None
    return inside


_MOST = 64_000
"""The most characters of an answer that are read, half of them from its end."""


class BlockKind(StrEnum):
    """What a block is."""

    HEADING = "heading"
    PROSE = "prose"
    ITEM = "item"
    """In a list or a block quote."""
    FENCE = "fence"
    CODE = "code"
    """Indented."""


@dataclass(frozen=True, slots=True)
class Block:
    """`info` is the info string of a fence, in lower case. `is_closed` is False for a fence that is
    still open where the text ends."""

    kind: BlockKind
    text: str
    info: str = ""
    is_closed: bool = True


_KINDS = {"fence": BlockKind.FENCE, "code_block": BlockKind.CODE, "html_block": BlockKind.PROSE}


def read_blocks(text: str) -> tuple[Block, ...]:
    """Return the blocks of a text, in order."""
    if len(text) > _MOST:
        text = f"{text[: _MOST // 2]}\n\n{text[-_MOST // 2 :]}"
    blocks: list[Block] = []
    depth, is_heading = 0, False
    lines = text.split("\n")
    for token in _get_parser().parse(text):
        if token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            depth += 1
        elif token.type in ("bullet_list_close", "ordered_list_close", "blockquote_close"):
            depth -= 1
        elif token.type in ("heading_open", "heading_close"):
            is_heading = token.type == "heading_open"
        elif token.type == "inline":
            kind = BlockKind.HEADING if is_heading else BlockKind.PROSE
            blocks.append(Block(BlockKind.ITEM if depth else kind, token.content))
        elif token.type in _KINDS:
            first, end = token.map or (0, 0)
            is_closed = token.type != "fence" or (
                end - first > 1 and lines[end - 1].strip(" \t>").startswith(token.markup)
            )
            blocks.append(
                Block(_KINDS[token.type], token.content, token.info.strip().lower(), is_closed)
            )
    return tuple(blocks)


@cache
def _get_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True})


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
    names = "|".join(map(re.escape, sorted(tools))) or "(?!)"
    named = re.compile(_NAMED.format(tools=names), re.VERBOSE)
    for number, block in enumerate(blocks, 1):
        # What the model says itself, and the block of code that ends its answer.
        ends = number == len(blocks) and block.info in _DATA_FENCES
        is_said = block.kind in (BlockKind.PROSE, BlockKind.HEADING)
        if not (is_said or ends or block.info in _FENCES):
            continue
        if block.info.split(" ")[0] in _FENCES:
            return True
        if block.kind is BlockKind.ITEM:
            continue
        # JSON may be spread over lines, so its beginning is also read as one line.
        for line in (block.text[:400].replace("\n", " "), *block.text.split("\n")):
            if _MARKS.match(line) or _TOKENS.search(line) or named.match(line):
                return True
    return False
