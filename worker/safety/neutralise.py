"""Makes the model's Markdown harmless for a GitLab note: everything that a model writes is hostile.

The text is parsed line by line and rewritten; whatever is not known to be harmless becomes plain
text or code. GitLab's Markdown: https://docs.gitlab.com/user/markdown/. The result is guaranteed to
have these properties, wherever in a note it is used:

- outside of code there is no HTML, no entity from the model, no image, no reference definition, no
  footnote; links lead only to allowed hosts and never to a page that GitLab would cross-reference;
- no mention and no reference (`@ # ! ~ % $ & ^`, `[issue:1]`) outside of code;
- no line begins with "/", not even in code, so that neither the parser of GitLab 19 nor the search
  through the raw text of older versions finds a quick action;
- a code span begins and ends on one line (in a table: in one cell); a code block is closed, has a
  fence longer than any run of backticks in it, and names only a programming language;
- no diagram, no mathematics, no table of contents, no include, no invisible character, no marker.

Code stays as it was, except for invisible characters and the words that open a marker or an
include. Emphasis, headings, lists, quotes and tables are kept.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from worker.safety.code import write_code_block
from worker.safety.spans import render_inline
from worker.safety.untrusted import one_line, visible

LIMIT = 40_000
"""Characters of one text that are read."""

_CUT = "… (the text is cut here)"


def neutralise(markdown: str, hosts: frozenset[str] = frozenset(), limit: int = LIMIT) -> str:
    """Return `markdown` as Markdown that can be read and has no other effect.

    `hosts` are the places links may lead to: "gitlab.example.com", with a port if it has one, or
    with a path ("gitlab.example.com/group/project") that a link must be under.
    """
    text = visible(markdown[:limit])
    if len(markdown) > limit:
        text += f"\n\n{_CUT}"
    return "\n".join(_write_lines(text.split("\n"), hosts)).strip("\n")


def neutralise_line(text: str, hosts: frozenset[str] = frozenset(), limit: int = 600) -> str:
    """Return `text` as one line of such harmless Markdown, cut at `limit` characters."""
    return _escape_start(render_inline(one_line(text, limit), hosts))


_PREFIX = re.compile(
    r"(?P<space>[ \t]*)(?P<marks>(?:>[ \t]*|(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$))*)"
    r"(?P<task>\[[ xX]\][ \t]+)?(?P<head>\#{1,6}[ \t]+)?"
)
_FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>.*)")
_DELIMITER = re.compile(r"(?=[^-]*-)[\s>]*+(?:(?:[-*+]|\d{1,9}[.)])\s++)*+[|:\s-]*+$")
_CELL = re.compile(r"((?:\\.|[^|\\]|\\$)*)(\||$)")
_BAR = re.compile(r"(?<!\\)(\\*+)\|")
_STARTS = re.compile(r"(?P<slope>[/>\#]|~~~|[-+*](?=\s|$))|(?P<number>\d{1,9})(?=[.)](?:\s|$))")


def _write_lines(lines: list[str], hosts: frozenset[str]) -> Iterator[str]:
    tables = _find_table_lines(lines)
    at = 0
    while at < len(lines):
        if fence := _open_fence(lines[at]):
            content, at = fence.read_content(lines, at + 1)
            yield write_code_block("\n".join(content), fence.info, fence.column)
        else:
            yield _write_line(lines[at], hosts, at in tables)
            at += 1


def _write_line(line: str, hosts: frozenset[str], in_table: bool) -> str:
    prefix = _PREFIX.match(line)
    assert prefix is not None  # every part of it may be empty
    rest = line[prefix.end() :]
    if in_table:
        text = "".join(_write_cell(cell, hosts) + bar for cell, bar in _CELL.findall(rest))
    else:
        text = render_inline(rest, hosts)
    # GitLab reads ">>>" as a fence of its own.
    marks = re.sub(r">[ \t]*", "> ", prefix["marks"])
    start = prefix["space"] + marks + (prefix["task"] or "") + (prefix["head"] or "")
    return (start + _escape_start(text)).rstrip()


def _write_cell(cell: str, hosts: frozenset[str]) -> str:
    text = _BAR.sub(_escape_bar, render_inline(cell, hosts))
    # If it is no table after all, a link definition "[x:" must not continue after the bar.
    return f"{text} " if "[" in text else text


def _escape_bar(bar: re.Match[str]) -> str:
    """Escape a bar within a cell, in code too, so that it does not end the cell."""
    return bar[0] if len(bar[1]) % 2 else f"{bar[1]}\\|"


def _escape_start(text: str) -> str:
    """Return `text` with an escape where it would begin a block or a quick action."""
    text = text.lstrip(" \t")
    found = _STARTS.match(text)
    if not found:
        return text
    at = found.end("number") if found["number"] else 0
    return f"{text[:at]}\\{text[at:]}"


def _find_table_lines(lines: list[str]) -> set[int]:
    """Return the lines that may belong to a table: those around a delimiter row, up to a blank
    line."""
    found: set[int] = set()
    first = 0
    for at, line in enumerate([*lines, ""]):
        if line.strip():
            continue
        if any(map(_DELIMITER.match, lines[first:at])):
            found.update(range(first, at))
        first = at + 1
    return found


@dataclass(frozen=True, slots=True)
class _Fence:
    """An open fence. `quoted` says that it is inside a block quote, and ends with it."""

    mark: str
    info: str
    indent: int
    quoted: bool

    @property
    def column(self) -> int:
        """The column to write it in, 1 to 3: not at the line's start, and still a fence."""
        return min(3, max(1, self.indent))

    def read_content(self, lines: list[str], at: int) -> tuple[list[str], int]:
        """Return the lines of the block from `at` on, and the number of the line after its end."""
        found: list[str] = []
        for number in range(at, len(lines)):
            line = lines[number]
            if self.quoted and not line.lstrip().startswith(">"):
                return found, number
            line = self._strip_prefix(line)
            if self._is_closed_by(line):
                return found, number + 1
            found.append(line)
        return found, len(lines)

    def _strip_prefix(self, line: str) -> str:
        if self.quoted:
            line = re.sub(r"^[ \t]*(?:>[ ]?)+", "", line)
        return re.sub(rf"^[ ]{{0,{self.indent}}}", "", line)

    def _is_closed_by(self, line: str) -> bool:
        text = line.strip()
        return len(text) >= len(self.mark) and not text.strip(self.mark[0])


def _open_fence(line: str) -> _Fence | None:
    prefix = _PREFIX.match(line)
    assert prefix is not None  # every part of it may be empty
    fence = _FENCE.match(line, prefix.end())
    if not fence or prefix["head"] or prefix["task"] or "`" in fence["info"]:
        return None
    words = fence["info"].split()
    return _Fence(
        mark=fence["mark"],
        info=words[0] if words else "",
        indent=min(80, len(prefix["space"].expandtabs(4))),
        quoted=">" in prefix["marks"],
    )
