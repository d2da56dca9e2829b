"""Renders Markdown as HTML. Of a note's own HTML, only folds and <sub> are kept."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from worker.pages.texts import indent_json
from worker.safety.untrusted import visible

MAX_NOTE = 100_000
"""The most characters of a note that are rendered; notes that we post have fewer."""

_TAG = re.compile(r"(</?(?:details|summary|sub)>)|<!--[^>]{0,200}-->")
_MAX_DEPTH = 12


def render_note(note: str) -> Markup:
    """Render a note as HTML that contains only tags made by this module."""
    parsed = _Parser("commonmark", {"html": True}, renderer_cls=_Renderer)
    parsed.enable(["table", "strikethrough"]).disable("image")
    return Markup(parsed.render(visible(note[:MAX_NOTE]), {"open": []}))


def render_answer(text: str) -> Markup:
    """Render what a model wrote as HTML that contains only tags made by this module.

    Unlike a note's, its links were never checked: they stay text, and so does HTML. JSON is
    indented.
    """
    if (indented := indent_json(text)) != text:
        return Markup(f"<pre>{escape(indented)}</pre>")
    parsed = _Parser("commonmark", {"html": False}, renderer_cls=_Renderer)
    parsed.enable(["table", "strikethrough"]).disable(["image", "link", "autolink", "reference"])
    return Markup(parsed.render(visible(text[:MAX_NOTE]), {"open": []}))


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
