"""The last look at a note before it is posted: an independent check of what the renderers promise.

It reads the body as GitLab would, with a Markdown parser, and knows nothing of `neutralise`: what
one of the two gets wrong the other should see.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from worker.core.context import Subject
from worker.core.hostile import BREAKS, UNSEEN
from worker.core.identity import SUGGESTIONS, find_marker

MAX_SIZE = 80_000
"""Characters of a body: the longest note, folded once more when it is settled."""

MAX_LINES = 8
"""Lines that a reader of a finding sees before he unfolds anything."""

WIDTH = 120
"""Characters of a line on the merge request's page, about."""

_OURS = re.compile(
    r"<!-- sandpiper:session=[0-9a-f]{20} turn=\d{1,6} -->"
    r"|<details>(?:\n<summary>[\w ',.]{1,80}</summary>)?|</details>|</?sub>"
)
_SLASH = re.compile(r"^[ \t]{0,3}/[A-Za-z_]", re.MULTILINE)
_SLASH_FIRST = re.compile(r"^/\w", re.MULTILINE)
_LANGUAGE = re.compile(r"[a-z]*")
_SUGGESTION = re.compile(r"suggestion:-\d{1,3}\+0")
_REFERENCE = re.compile(
    r"@[\w.-]|(?<![&\w])[#!$&]\d|[\w/][#!$&]\d|(?<!\w)[%~](?:\w|\"[^\"\n]{1,100}\")|\^alert#\d"
    r"|\[\w{1,40}:[\w-]{1,100}\]|%\{|::include"
)
_CONTENTS = re.compile(r"\[_?TOC_?\]", re.IGNORECASE)
_ADDRESS = re.compile(r"\w://|www\.", re.IGNORECASE)


def problems(body: str, hosts: frozenset[str]) -> list[str]:
    """What is wrong with `body`, in words; empty if it may be posted.

    `hosts` are the places ("host" or "host:port") that links may lead to.
    """
    marker = find_marker(body)
    found = [] if marker else ["it does not begin with a marker"]
    if len(body) > MAX_SIZE:
        # Nothing else is looked at: that would take its time.
        return [*found, f"it has {len(body)} characters"]
    if UNSEEN.search(body) or BREAKS.search(body):
        found.append("it holds characters that nobody sees")
    tokens = _parser().parse(body)
    lines = body.split("\n")
    suggests = marker is not None and marker.turn in SUGGESTIONS
    found += _quick_actions(tokens, lines)
    found += _html(tokens)
    found += _blocks(tokens, lines, suggests=suggests)
    found += _inline(tokens, hosts)
    return found


def safe(body: str) -> str:
    """What is posted instead of a body with problems; it has none, if `body` has its marker."""
    marker = find_marker(body)
    first = f"{marker.text()}\n\n" if marker else ""
    return (
        f"{first}**Sandpiper's answer is kept back.** It did not pass the last check of what may "
        "stand in a note.\n\nReply in this thread to ask for it in other words."
    )


def visible_lines(body: str) -> int:
    """How many lines a reader sees at once: all but what is folded away and the small print."""
    return sum(_height(token) for token in _unfolded(_parser().parse(body)))


def hosts_of(subject: Subject, hosts: frozenset[str]) -> frozenset[str]:
    """`hosts` and the one that GitLab itself gives its pages: it may be reached by another name."""
    return hosts | {urlsplit(subject.web_url).netloc, urlsplit(subject.gitlab_url).netloc} - {""}


class _EveryLink(MarkdownIt):
    """A parser that leaves no address out: which ones are good is looked at here."""

    def validateLink(self, url: str) -> bool:
        return True


@cache
def _parser() -> MarkdownIt:
    return _EveryLink("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _every(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


# ------------------------------------------------------------------------------------- problems


def _quick_actions(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[str]:
    if _SLASH_FIRST.search("\n".join(lines)):
        yield "a line begins with a slash"
    tops = [each.map for each in tokens if each.type == "paragraph_open" and each.level == 0]
    for first, last in filter(None, tops):
        if _SLASH.search("\n".join(lines[first:last])):
            yield "a paragraph holds a quick action"


def _html(tokens: Sequence[Token]) -> Iterator[str]:
    depth = markers = 0
    for token in _every(tokens):
        if token.type not in ("html_block", "html_inline"):
            continue
        text = token.content.strip()
        markers += text.startswith("<!--")
        depth += (text.startswith("<details>")) - (text == "</details>")
        if not _OURS.fullmatch(text):
            yield f"foreign HTML: {text[:40]!r}"
        if depth < 0:
            yield "a fold is closed that is not open"
            depth = 0
    if depth:
        yield "a fold is not closed"
    if markers > 1:
        yield "it has more than one marker"


def _blocks(tokens: Sequence[Token], lines: Sequence[str], *, suggests: bool) -> Iterator[str]:
    for token in tokens:
        if token.type != "fence" or not token.map:
            continue
        last = lines[token.map[1] - 1].strip(" \t>")
        closed = len(last) >= len(token.markup) and not last.strip(token.markup[0])
        if not closed or token.map[1] - token.map[0] < 2:
            yield "a block of code is not closed"
        allowed = _LANGUAGE.fullmatch(token.info) and token.info != "suggestion"
        if not allowed and not (suggests and _SUGGESTION.fullmatch(token.info)):
            yield f"a block of code is named {token.info[:40]!r}"


def _inline(tokens: Sequence[Token], hosts: frozenset[str]) -> Iterator[str]:
    for token in _every(tokens):
        if token.type == "image":
            yield "an image"
        if token.type == "link_open" and not _leads_to(str(token.attrs.get("href", "")), hosts):
            yield f"a link to {str(token.attrs.get('href', ''))[:80]!r}"
        if token.type == "inline" and _CONTENTS.search(_plain(token)):
            yield "a table of contents"
        if token.type == "text":
            yield from (f"a reference: {each!r}" for each in _REFERENCE.findall(token.content)[:1])
            yield from (f"an address: {each!r}" for each in _ADDRESS.findall(token.content)[:1])


def _plain(token: Token) -> str:
    return "".join(each.content for each in token.children or () if each.type == "text")


def _leads_to(url: str, hosts: frozenset[str]) -> bool:
    place = urlsplit(url)
    named = f"{place.netloc}{place.path}/".lower()
    return place.scheme in ("http", "https") and any(
        named.startswith(host.lower().rstrip("/") + "/") for host in hosts if host
    )


# ----------------------------------------------------------------------------------------- height


def _unfolded(tokens: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        text = token.content.strip() if token.type == "html_block" else ""
        depth += text.startswith("<details>")
        if not depth:
            yield token
        depth -= text == "</details>"


def _height(token: Token) -> int:
    if token.type in ("fence", "code_block"):
        return sum(_wrapped(line) for line in token.content.rstrip("\n").split("\n"))
    if token.type != "inline" or not token.children:
        return 0
    if token.children[0].type == "html_inline" and token.children[0].content == "<sub>":
        return 0
    text = "".join("\n" if each.type.endswith("break") else each.content for each in token.children)
    return sum(_wrapped(line) for line in text.split("\n"))


def _wrapped(line: str) -> int:
    return max(1, -(-len(line) // WIDTH))
