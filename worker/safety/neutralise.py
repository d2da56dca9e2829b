"""Makes the model's Markdown harmless for a GitLab note, and cuts it where it is too long:
everything that a model writes is hostile.

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

import html
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from worker.safety.markdown import write_code_block, write_code_line
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
    return _escape_start(_render_inline(one_line(text, limit), hosts))


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
        text = _render_inline(rest, hosts)
    # GitLab reads ">>>" as a fence of its own.
    marks = re.sub(r">[ \t]*", "> ", prefix["marks"])
    start = prefix["space"] + marks + (prefix["task"] or "") + (prefix["head"] or "")
    return (start + _escape_start(text)).rstrip()


def _write_cell(cell: str, hosts: frozenset[str]) -> str:
    # A bar within a cell, in code too, must not end it.
    text = _BAR.sub(
        lambda bar: bar[0] if len(bar[1]) % 2 else f"{bar[1]}\\|", _render_inline(cell, hosts)
    )
    # If it is no table after all, a link definition "[x:" must not continue after the bar.
    return f"{text} " if "[" in text else text


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
            if self.quoted:
                line = re.sub(r"^[ \t]*(?:>[ ]?)+", "", line)
            line = re.sub(rf"^[ ]{{0,{self.indent}}}", "", line)
            if len(line.strip()) >= len(self.mark) and not line.strip().strip(self.mark[0]):
                return found, number + 1
            found.append(line)
        return found, len(lines)


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


# ---------------------------------------------------------------------------- one line of Markdown


def _render_inline(text: str, hosts: frozenset[str]) -> str:
    """Make one line (or table cell) of Markdown, without its block markers, harmless."""
    codes: list[str] = []
    plain = []
    for is_code, part in _split_code(text):
        if is_code:
            plain.append(chr(_ATOM + len(codes)))
            codes.append(part)
        else:
            plain.append(_UNESCAPE.sub(_unescape, part))
    return _Inline(hosts, codes).render("".join(plain))


def is_link_allowed(url: str, hosts: frozenset[str]) -> bool:
    """Whether a link may lead to `url`: it must be under one of `hosts`, and not be a page that
    GitLab would cross-reference, unless that page itself is one of `hosts`."""
    if not is_plain_url(url):
        return False
    parts = urlsplit(url)
    place = (parts.netloc + parts.path).lower() + "/"
    roots = [host.lower().rstrip("/") for host in hosts]
    return any(
        place.startswith(root + "/") and not _REFERENCED.search(place[len(root) :])
        for root in roots
    )


def is_plain_url(url: str) -> bool:
    """Whether `url` is http(s), without query, user, dot segments or needless percent-encoding, and
    safe inside `](…)`."""
    return bool(_SAFE_URL.fullmatch(url)) and not _HIDDEN_PATH.search(url)


_ATOM = 0xF0000  # replaces a code span; `visible` has removed all characters from this one on
_STOP = re.compile(r"\\[!-/:-@\[-`{-~]|`+")
_TICKS = re.compile("`+")


def _split_code(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is code, text), code as CommonMark defines it; unmatched backticks are escaped."""
    runs: dict[int, list[int]] = {}
    for run in _TICKS.finditer(text):
        runs.setdefault(len(run[0]), []).append(run.start())
    done = at = 0
    while stop := _STOP.search(text, at):
        at = stop.end()
        if stop[0][0] == "\\":
            continue
        size = len(stop[0])
        closers = runs.get(size, [])
        partner = bisect_right(closers, stop.start())
        yield False, text[done : stop.start()]
        if partner < len(closers):
            yield True, text[stop.end() : closers[partner]]
            at = closers[partner] + size
        else:
            yield False, "\\`" * size
        done = at
    yield False, text[done:]


_UNESCAPE = re.compile(
    r"\\([!-/:-@\[-`{-~])|\\|&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
)
_FORMATTING = "\\`*_|"


def _unescape(found: re.Match[str]) -> str:
    """Return the characters that an escape or entity stands for, so that nothing hides in them;
    formatting characters stay escaped."""
    if found[0] == "\\":
        return "\\\\"
    shown = found[1] or visible(html.unescape(found[0])).replace("\n", " ")
    return "".join("\\" + each if each in _FORMATTING else each for each in shown)


_SAFE_URL = re.compile(r"https?://[A-Za-z0-9.:-]+(?:/[\w./%+=,~-]*)?(?:\#[\w-]*)?", re.ASCII)
# GitLab decodes a path before it looks for a reference, so an encoded letter, digit, punctuation
# mark or "%" may hide one.
_HIDDEN_PATH = re.compile(
    r"/\.\.?(?:/|$)|%(?:[01]|2[5d-f]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5[cf]|7[ef])|[^:]//",
    re.IGNORECASE,
)
_REFERENCED = re.compile(
    r"^(?!/-/(?:blob|raw|tree|jobs)/).*/(?:issues|merge_requests|epics|work_items|milestones|iterations|cadences|snippets|designs"
    r"|commits?|compare|vulnerabilities|alert_management|incidents|boards|labels)(?:/|$)",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"""
      (?P<atom> [\U000f0000-\U000ffffd] )
    | (?P<directive> \\?\*?iteration:[\w"]\S* | ::include )
    | (?P<reference> (?: [\w./+-] | \\_ )*+ (?:
          @{1,20}+ \\? [\w.-] [\w./+:-]*+
        | [#!$&] \d \w*+
        | [%~]{1,20}+ \\? (?: "(?:[^"]{1,100}")? | [\w-] [\w.:-]*+ )
        | \^alert\#\d+ ) )
    | (?P<word> (?: [\w./+-] | \\_ )++ (?! :// ) >? )
    | (?P<escape> \\. )
    | (?P<image> !\[ (?P<alt> [^\[\]]{0,300} ) \]
        (?: \( [^()]{0,2000} \) | \[ [^\[\]]{0,300} \] )? )
    | (?P<double> \[\[ [^\[\]]{0,200} \]\] | \[[_*]?TOC[_*]?\] | \[ \w{1,40} : [^\[\]\s]{1,200} \] )
    | (?P<link> \[ (?P<label> [^\[\]]{0,500} ) \]
        \( [ \t]* <? (?P<target>
            (?: [^\s<>()\U000f0000-\U000ffffd] | \([^\s<>()]{0,200}\) ){1,2000} ) >?
        (?: [ \t]+ ["'] [^"'()]{0,300} ["'] )? [ \t]* \) )
    | (?P<media> </?(?: img|image|video|audio|picture|source|track|iframe|object|embed|svg )\b
        (?: [^<>\\] | \\. ){0,2000}+ >? )
    | (?P<newline> <br[ ]?/?> )
    | (?P<auto> < (?P<address> [A-Za-z][A-Za-z0-9+.-]{1,31} : [^\s<>]{0,2000} ) > )
    | (?P<url> (?: [\w./+-] | \\_ )*+ :// [^\s<>\U000f0000-\U000ffffd]*+ )
    | (?P<placeholder> %\{ (?: [^{}\\] | \\. ){0,60}+ \}? )
    | (?P<other> . )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(
    r"""
      (?i: www\. )
    | GL-\d | (?<![A-Za-z0-9]) [A-Z][A-Z0-9_]*+-\d        # an issue, here or elsewhere
    | [0-9a-fA-F]{40}                                     # a commit
    | (?<![\w-]) (?=[a-f]*\d) (?=\d*[a-f]) [0-9a-f]{7,40} (?![\w-])
    | [\w.-] / [\w.-]+ >                                  # a project
    """,
    re.VERBOSE,
)
"""A word that GitLab would turn into a link."""

_APART = (" ", "\t", "(", "*", "_", '"', "'")
_TRAILING = ".,;:!?)'\"*_]"
_OTHERS = {
    "<": "&lt;",
    "&": "&amp;",
    "[": "\\[",
    "]": "\\]",
    "$": "\\$",
}


class _Inline:
    """Writes the tokens of a line; `codes` are the code spans that its atoms replace."""

    def __init__(self, hosts: frozenset[str], codes: list[str]) -> None:
        self._hosts = hosts
        self._codes = codes

    def render(self, plain: str) -> str:
        pieces: list[str] = []
        last = ""
        for token in _TOKEN.finditer(plain):
            # Code that has only invisible characters is empty: a blank then separates the pieces.
            piece = self._write(token) or " "
            # The label of a removed link must not join the text before it: "@" and "all".
            joins = token["link"] and piece[0] != "[" and last and not last.endswith(_APART)
            if joins or _must_separate(last, piece):
                pieces.append(" ")
            pieces.append(piece)
            last = piece
        return "".join(pieces)

    def _write(self, found: re.Match[str]) -> str:
        text = found[0]
        match found.lastgroup:
            case "atom":
                return write_code_line(self._codes[ord(text) - _ATOM])
            case "image":
                alt = self.render(found["alt"]).strip()
                return f"(image removed: {alt})" if alt else "(image removed)"
            case "link":
                label, target = self.render(found["label"]).strip(), found["target"]
                if not label or found["label"] == target:
                    return self._address(target)
                if is_link_allowed(target, self._hosts):
                    return f"[{label}]({target})"
                return f"{label} ({self._code(target)})"
            case "media":
                return " " if text[1] == "/" else "(image removed)"
            case "newline":
                return " "
            case "auto":
                return self._address(found["address"])
            case "url":
                end = len(text.rstrip(_TRAILING))
                return self._address(text[:end]) + text[end:].replace("]", "\\]")
            case "double" | "placeholder" | "directive":
                return self._code(text)
            case "reference":
                return self._reference(found)
            case "word":
                is_named = _NAMED.search(text.replace("\\", ""))
                return self._reference(found) if is_named else text
            case "other":
                return _OTHERS.get(text, text)
        return text

    def _code(self, text: str) -> str:
        """Return `text` as code; code spans within it become part of it."""
        whole = "".join(self._codes[ord(c) - _ATOM] if ord(c) >= _ATOM else c for c in text)
        return write_code_line(re.sub(r"\\(.)", r"\1", whole))

    def _address(self, url: str) -> str:
        return f"<{url}>" if is_link_allowed(url, self._hosts) else self._code(url)

    def _reference(self, found: re.Match[str]) -> str:
        follows = found.string[found.end() : found.end() + 1]
        # Punctuation at the end is not part of it, unless text follows directly.
        end = len(found[0]) if follows.strip() else len(found[0].rstrip(".:/+-"))
        return self._code(found[0][:end]) + found[0][end:]


def _must_separate(left: str, right: str) -> bool:
    """Whether two adjacent pieces would together form something else: a longer run of backticks,
    mathematics, an image."""
    if right.startswith("`"):
        return left.endswith(("`", "$"))
    if right.startswith("["):
        return left.endswith("!")
    return left.endswith("`") and right.startswith("\\$")
