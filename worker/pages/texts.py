"""Makes untrusted texts visible on a page, limits their size, and renders Markdown as HTML.

Of a note's own HTML, only folds and <sub> are kept.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from worker.conversation.context import Status
from worker.safety.untrusted import one_line, parse_json, visible
from worker.sessions.recent import RUNNING
from worker.verdict.verdict import BRANCH_NAMES, NAMES, Verdict

_MAX_TEXT = 8_000
"""The most characters of one text."""

_MAX_PAGE = 1_500_000
"""The most characters of all texts of a page."""

INTERRUPTED, GIVEN_UP, DRY_RUN = "interrupted", "given-up", "dry-run"
"""States of a turn besides RUNNING and those of `context.Status`."""

STATES = {
    RUNNING: "running",
    INTERRUPTED: "interrupted",
    Status.DONE.value: "answered",
    Status.PARTIAL.value: "partial",
    Status.FAILED.value: "failed",
    GIVEN_UP: "given up",
    DRY_RUN: "dry run",
}
"""The states in words."""

_MOST_FIELDS = 40
_MOST_FILES = 40
_MOST_DEPTH = 30
_DECODER = json.JSONDecoder()
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_PATH = re.compile(r"/tmp/(?:_out|data)/[^\0\n\r]{1,300}")


@dataclass(frozen=True, slots=True)
class Text:
    """The shown part of a text, and the number of characters that are not shown."""

    content: str
    hidden_count: int = 0

    @property
    def line_count(self) -> int:
        """The number of lines that are shown."""
        return self.content.count("\n") + 1


@dataclass(slots=True)
class CharacterBudget:
    """The number of characters that still fit on a page."""

    characters: int = _MAX_PAGE

    def clip_text(self, text: str) -> Text:
        """Cut `text` to `_MAX_TEXT` characters, and to what is left of the page's budget."""
        most = max(0, min(_MAX_TEXT, self.characters))
        shown = visible(text[:most]).strip("\n")
        self.characters -= len(shown)
        return Text(shown, max(0, len(text) - most))


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of a call's arguments or result; `short` values fit on one line."""

    name: str
    text: Text
    short: bool
    gist: str


@dataclass(slots=True)
class Content:
    """A JSON text for the page: its fields, and the paths of the files in it."""

    fields: list[Field] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """The beginnings of the first values, on one line."""
        return one_line(" · ".join(each.gist for each in self.fields[:4]), 200)


def split_fields(content: str, room: CharacterBudget) -> Content:
    """Split a JSON object into its fields; any other text is one field."""
    parsed = parse_json(content)
    if not isinstance(parsed, dict):
        return Content([_make_field("", content, room)] if content.strip() else [])
    found = Content(files=[*dict.fromkeys(_find_paths(parsed))][:_MOST_FILES])
    found.fields = [
        _make_field(one_line(name, 80), value, room)
        for name, value in list(parsed.items())[:_MOST_FIELDS]
    ]
    if len(parsed) > _MOST_FIELDS:
        more = f"{len(parsed) - _MOST_FIELDS} more fields"
        found.fields.append(Field("", Text(more), short=True, gist=more))
    found.fields.sort(key=lambda each: not each.short)
    return found


def _make_field(name: str, value: Any, room: CharacterBudget) -> Field:
    text = indent_json(value) if isinstance(value, str) else _format_value(value)
    cut = room.clip_text(text)
    short = bool(name) and cut.line_count == 1 and len(text) <= 120
    values = [value] if isinstance(value, str) else islice(_list_scalars(value), _MOST_FIELDS)
    return Field(name, cut, short, visible(" ".join(values)[:160]))


def indent_json(text: str) -> str:
    """Return the text with the JSON objects and lists that it begins with indented."""
    parts, rest = _split_json(text)
    return "\n".join([*map(_format_value, parts), rest.lstrip("\n")]).rstrip() if parts else text


def write_gist(text: str) -> str:
    """Write the beginning of a message on one line: without the JSON in front of its words, and
    without the marks of Markdown's headings."""
    parts, rest = _split_json(text)
    words = rest if rest.strip() else " ".join(islice(_list_scalars(parts), _MOST_FIELDS))
    return one_line(_HEADING.sub("", words[:1000]), 160)


def _split_json(text: str) -> tuple[list[Any], str]:
    """Return the JSON objects and lists that a text begins with, each on lines of its own, and what
    follows."""
    parts: list[Any] = []
    with suppress(ValueError, RecursionError):
        while len(parts) < _MOST_FIELDS and text.lstrip()[:1] in ("{", "["):
            start = len(text) - len(text.lstrip())
            part, end = _DECODER.raw_decode(text, start)
            if text[end : end + 1] not in ("", "\n"):
                break
            parts.append(part)
            text = text[end:]
    return parts, text


def _format_value(value: Any) -> str:
    try:
        # What is nested deeply would grow by its indentation, to the square of its size.
        indent = 2 if _is_shallow(value, _MOST_DEPTH) else None
        return json.dumps(value, indent=indent, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply to show)"


def _is_shallow(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return True
    return depth > 0 and all(_is_shallow(each, depth - 1) for each in inner)


def _list_scalars(value: Any, depth: int = 6) -> Iterator[str]:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(inner, str | int | float | bool | None) and depth:
        for each in inner:
            yield from _list_scalars(each, depth - 1)
    elif isinstance(value, str):
        yield value[:160]
    elif value is not None and depth:
        yield json.dumps(value)


def _find_paths(value: Any, depth: int = 6) -> Iterator[str]:
    """Yield the paths of files that a result names."""
    if isinstance(value, list) and depth:
        for each in value[:200]:
            yield from _find_paths(each, depth - 1)
    if not isinstance(value, dict) or not depth:
        return
    for name, each in value.items():
        if isinstance(each, str) and (name == "saved_to" or name.endswith("_file")):
            yield from _PATH.findall(each)[:1]
        elif name == "also_saved" and isinstance(each, dict):
            yield from (path for path in each if _PATH.fullmatch(path))
        else:
            yield from _find_paths(each, depth - 1)


def format_cost(cost: float | None) -> str:
    """Format dollars with two decimals, below one cent with four; None is "cost unknown"."""
    if cost is None or not math.isfinite(cost):
        return "cost unknown"
    return f"${cost:.4f}" if 0 < cost < 0.01 else f"${cost:.2f}"


def format_duration(seconds: float) -> str:
    """Format seconds as "0.4 s", "12 s" or "3 min 05 s"; "" for 0."""
    if not math.isfinite(seconds) or seconds < 0.05:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_time(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Format a time in UTC; "" for 0."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime(form) if at > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def format_count(count: int) -> str:
    """Format a number of tokens or bytes with three digits: 940, 12.3k, 1.20M."""
    if abs(count) < 1000:
        return str(count)
    value, unit = (count / 1000, "k") if abs(count) < 999_500 else (count / 1_000_000, "M")
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}{unit}"


def format_size(size: int) -> str:
    """Format a number of bytes: 940 B, 12.3 kB, 1.20 MB."""
    count = format_count(size)
    return f"{count} B" if count[-1].isdigit() else f"{count[:-1]} {count[-1]}B"


def describe_verdict(verdict: str, branch: str = "") -> str:
    """Return a stored verdict in words, on a merge request or a branch; "" for an unknown one."""
    names = BRANCH_NAMES if branch else NAMES
    return names[Verdict(verdict)] if verdict in set(Verdict) else ""


def describe_state(state: str) -> str:
    """Return the state of a turn in words."""
    return STATES.get(state, state)


def check_web_url(url: str) -> str:
    """Return the URL if it is a web page's, else ""."""
    plain = url.isprintable() and len(url) < 2000
    return url if plain and url.startswith(("https://", "http://")) else ""


_MAX_NOTE = 100_000
"""The most characters of a note that are rendered; notes that we post have fewer."""

_TAG = re.compile(r"(</?(?:details|summary|sub)>)|<!--[^>]{0,200}-->")
_MAX_DEPTH = 12


def render_note(note: str) -> Markup:
    """Render a note as HTML that contains only tags made by this module."""
    parsed = _Parser("commonmark", {"html": True}, renderer_cls=_Renderer)
    parsed.enable(["table", "strikethrough"]).disable("image")
    return Markup(parsed.render(visible(note[:_MAX_NOTE]), {"open": []}))


def render_answer(text: str) -> Markup:
    """Render what a model wrote as HTML that contains only tags made by this module.

    Unlike a note's, its links were never checked: they stay text, and so does HTML. JSON is
    indented.
    """
    if (indented := indent_json(text)) != text:
        return Markup(f"<pre>{escape(indented)}</pre>")
    parsed = _Parser("commonmark", {"html": False}, renderer_cls=_Renderer)
    parsed.enable(["table", "strikethrough"]).disable(["image", "link", "autolink", "reference"])
    return Markup(parsed.render(visible(text[:_MAX_NOTE]), {"open": []}))


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Accept only links to web pages."""
        return url.startswith(("https://", "http://"))


class _Renderer(RendererHTML):
    """Escapes the note's HTML, except folds and <sub> tags that are nested properly."""

    def render(self, tokens: Sequence[Token], options: Any, env: Any) -> str:
        """Render the whole note and close the tags that are still open."""
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                token.tag = f"h{min(6, int(token.tag[1:]) + 3)}"
        body = super().render(tokens, options, env)
        return body + "".join(f"</{tag}>" for tag in reversed(env["open"]))

    def html_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Render the note's own HTML."""
        return _keep_tags(tokens[idx].content, env["open"])

    html_inline = html_block

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Render a link, which sends no referrer to its target.

        A link to a session's page loses its address: seeing this page now is no permanent right.
        """
        href = str(tokens[idx].attrs.get("href", ""))
        if "sig=" in href:
            return "<a>"
        return f'<a href="{escape(href)}" rel="noopener noreferrer nofollow">'

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Render a block of code, fenced or indented; its language is ignored."""
        return f"<pre>{escape(tokens[idx].content)}</pre>\n"

    code_block = fence


def _keep_tags(html: str, opened: list[str]) -> str:
    out, end = [], 0
    for found in _TAG.finditer(html):
        out.append(str(escape(html[end : found.start()])))
        end = found.end()
        if found[1]:
            out.append(_keep_tag(found[1], opened))
    return "".join([*out, str(escape(html[end:]))])


def _keep_tag(tag: str, opened: list[str]) -> str:
    """Return a tag that opens a level or closes the last opened one; "" for any other tag."""
    name = tag.strip("</>")
    if not tag.startswith("</"):
        if len(opened) >= _MAX_DEPTH:
            return ""
        opened.append(name)
        return tag
    if not opened or opened[-1] != name:
        return ""
    opened.pop()
    return tag
