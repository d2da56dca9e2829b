"""An independent check of a note before it is posted: does it keep what the renderers promise?

It reads the body with a Markdown parser, as GitLab does, and shares no code with `neutralise`, so
that a mistake in one of the two is caught by the other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from unicodedata import east_asian_width
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from worker.safety.markdown import MARKER, Kind, find_marker
from worker.safety.untrusted import BREAKS, UNSEEN

MAX_SIZE = 80_000
"""The most characters of a body: the longest note, and the text that marks it as outdated."""

MAX_LINES = 8
"""The most lines of a finding that are visible before anything is unfolded."""

WIDTH = 100
"""About how many characters fit on a line of the merge request's page."""

_OURS = re.compile(
    MARKER.pattern + r"|<details>(?:\n<summary>[\w ',.]{1,80}</summary>)?|</details>|</?sub>"
)
_SLASH = re.compile(r"^[ \t]{0,3}/[A-Za-z_]", re.MULTILINE)
_SLASH_FIRST = re.compile(r"^/\w", re.MULTILINE)
_LANGUAGE = re.compile(r"[a-z]*")
_SUGGESTION = re.compile(r"suggestion:-\d{1,3}\+\d{1,3}")
_REFERENCE = re.compile(
    r"@[\w.-]|[#!$&]\d|[%~](?:\w|\"[^\"\n]{1,100}\")|\^alert#\d"
    r"|\[\w{1,40}:[^\s\[\]]{1,200}\]|%\{|::include|\*iteration:[\w\"]"
    r"|GL-\d|(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,60}-\d|[0-9a-fA-F]{40}"
    r"|[\w.-]/[\w.-]{1,200}>"
)
_CONTENTS = re.compile(r"\[[_*]?TOC[_*]?\]", re.IGNORECASE)
_ADDRESS = re.compile(r"\w://|www\.", re.IGNORECASE)
_SIGNATURE = re.compile(r"sig=\d{1,12}\.[0-9a-f]{16,128}", re.ASCII)
_AWAY = re.compile(r"//|\\|/\.\.?(?:/|$)|[\x00-\x1f]")
_MENTIONED = re.compile(
    r"^(?!/-/(?:blob|raw|tree|jobs)/).*/(?:issues|merge_requests|epics|work_items|milestones|iterations|cadences|snippets|designs"
    r"|commits?|compare|vulnerabilities|alert_management|incidents|boards|labels)/"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level block of a body: its `tokens`, its `lines`, and the number of its `first` line,
    from 0."""

    tokens: tuple[Token, ...]
    lines: tuple[str, ...]
    first: int

    def read_text(self) -> str:
        """Return the block as a reader sees it, as plain text."""
        texts = []
        for token in self.tokens:
            if token.type in ("fence", "code_block"):
                texts.append(token.content)
            elif token.type == "inline":
                shown = [each for each in token.children or () if each.type != "html_inline"]
                texts.append("".join(map(_read_token, shown)))
        return "\n".join(texts)

    @property
    def is_item(self) -> bool:
        """Whether it is an item of a list."""
        return bool(self.tokens) and self.tokens[0].type == "list_item_open"

    def split_items(self) -> "list[Block]":
        """Return the items of a list, each as a block without blank lines at its end; of another
        block, the block itself."""
        items: list[Block] = []
        first = 0
        for at, token in enumerate(self.tokens):
            if token.type == "list_item_open" and token.level == 1:
                first = at
            elif token.type == "list_item_close" and token.level == 1:
                begin, end = self.tokens[first].map or (self.first, self.first)
                lines = list(self.lines[begin - self.first : end - self.first])
                while lines and not lines[-1].strip():
                    lines.pop()
                items.append(Block(self.tokens[first : at + 1], tuple(lines), begin))
        return items or [self]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a `block`, or with the whole body if `block` is None."""

    what: str
    block: Block | None = None


def find_faults(body: str, hosts: frozenset[str]) -> list[Fault]:
    """Return what is wrong with `body`, and where; [] if it may be posted.

    `hosts` are the places ("host", "host:port" or either with a path) that links may lead to. A
    page that GitLab cross-references may be linked only if it is one of them.
    """
    marker = find_marker(body)
    found = [] if marker else [Fault("it does not begin with a marker")]
    if len(body) > MAX_SIZE:
        # The other checks would take too long.
        return [*found, Fault(f"it has {len(body)} characters")]
    if UNSEEN.search(body) or BREAKS.search(body):
        found.append(Fault("it holds characters that nobody sees"))
    if "\r" in body:
        # Markdown ends lines there, too: the other checks, which look at lines, would miss some.
        return found
    suggests = marker is not None and marker.kind is Kind.SUGGESTION
    blocks = parse_blocks(body)
    for block in blocks:
        wrong = (*_check_text(block), *_check_code(block, suggests), *_check_inline(block, hosts))
        found += [Fault(what, block) for what in wrong]
    return [*found, *_check_folds(blocks), *_check_hidden_text(body, blocks)]


def make_safe_body(body: str) -> str:
    """Return what is posted instead of a faulty body: `body`'s marker and a fixed text."""
    marker = find_marker(body)
    first = f"{marker.text()}\n\n" if marker else ""
    return (
        f"{first}**Sandpiper's answer is kept back.** It did not pass the last check of what may "
        "stand in a note.\n\nReply in this thread to ask for it in other words."
    )


def count_visible_lines(body: str) -> int:
    """Count the lines visible at once: all but the folded sections and the small print.

    A link definition defines nothing here: `find_faults` refuses a body that has one.
    """
    count = depth = 0
    for token in _get_block_parser().parse(body):
        text = token.content.strip() if token.type == "html_block" else ""
        depth += text.startswith("<details>")
        if not depth and token.type in ("fence", "code_block"):
            count += sum(map(_count_wrapped_lines, token.content.rstrip("\n").split("\n")))
        elif not depth and token.type == "inline":
            count += _count_text_lines(token.content)
        depth -= text == "</details>"
    return count


class _EveryLink(MarkdownIt):
    """A parser that accepts every link; this module checks which links are allowed."""

    def validateLink(self, url: str) -> bool:
        return True


@cache
def _get_parser() -> MarkdownIt:
    return _EveryLink("commonmark", {"html": True}).enable(["table", "strikethrough"])


@cache
def _get_block_parser() -> MarkdownIt:
    """Return a parser that leaves the text inside blocks unread, which takes most of the time."""
    return _EveryLink("commonmark", {"html": True}).enable("table").disable(["inline", "text_join"])


def _walk_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


# --------------------------------------------------------------------------------------- blocks


def parse_blocks(body: str) -> list[Block]:
    """Return the blocks of a body in their order."""
    lines = body.split("\n")
    found: list[Block] = []
    group: list[Token] = []
    for token in _get_parser().parse(body):
        group.append(token)
        if token.level == 0 and token.nesting <= 0:
            first, last = group[0].map or (0, 0)
            found.append(Block(tuple(group), tuple(lines[first:last]), first))
            group = []
    return found


def _read_token(token: Token) -> str:
    return "\n" if token.type.endswith("break") else token.content


# ------------------------------------------------------------------------------------- problems


def _check_text(block: Block) -> Iterator[str]:
    text = "\n".join(block.lines)
    if _SLASH_FIRST.search(text):
        yield "a line begins with a slash"
    if block.tokens[0].type == "paragraph_open" and _SLASH.search(text):
        yield "a paragraph holds a quick action"
    for token in _walk_tokens(block.tokens):
        if token.type in ("html_block", "html_inline"):
            text = token.content.strip()
            if not _OURS.fullmatch(text):
                yield f"foreign HTML: {text[:40]!r}"


def _check_folds(blocks: Sequence[Block]) -> Iterator[Fault]:
    depth = markers = 0
    for block in blocks:
        for token in _walk_tokens(block.tokens):
            if token.type not in ("html_block", "html_inline"):
                continue
            text = token.content.strip()
            markers += text.startswith("<!--")
            depth += text.startswith("<details>") - (text == "</details>")
            if depth < 0:
                yield Fault("a fold is closed that is not open", block)
                depth = 0
    if depth:
        yield Fault("a fold is not closed")
    if markers > 1:
        yield Fault("it has more than one marker")


def _check_hidden_text(body: str, blocks: Sequence[Block]) -> Iterator[Fault]:
    """Yield text outside every block: link definitions, which are not rendered."""
    shown = {block.first + at for block in blocks for at in range(len(block.lines))}
    for number, line in enumerate(body.split("\n")):
        if line.strip() and number not in shown:
            yield Fault(f"hidden text: {line.strip()[:40]!r}", Block((), (line,), number))


def _check_code(block: Block, suggests: bool) -> Iterator[str]:
    for token in block.tokens:
        if token.type != "fence" or not token.map:
            continue
        last = block.lines[token.map[1] - 1 - block.first].strip(" \t>")
        closed = len(last) >= len(token.markup) and not last.strip(token.markup[0])
        if not closed or token.map[1] - token.map[0] < 2:
            yield "a block of code is not closed"
        allowed = _LANGUAGE.fullmatch(token.info) and token.info != "suggestion"
        if not allowed and not (suggests and _SUGGESTION.fullmatch(token.info)):
            yield f"a block of code is named {token.info[:40]!r}"


def _check_inline(block: Block, hosts: frozenset[str]) -> Iterator[str]:
    is_target = False
    for token in _walk_tokens(block.tokens):
        if is_target:  # the text of an autolink repeats the target that is checked
            is_target = False
            continue
        is_target = token.type == "link_open" and token.info == "auto"
        if token.type == "image":
            yield "an image"
        if token.type == "link_open" and not _leads_to(str(token.attrs.get("href", "")), hosts):
            yield f"a link to {str(token.attrs.get('href', ''))[:80]!r}"
        if token.type == "inline" and _CONTENTS.search(_join_texts(token)):
            yield "a table of contents"
        if token.type == "text":
            yield from (f"a reference: {each!r}" for each in _REFERENCE.findall(token.content)[:1])
            yield from (f"an address: {each!r}" for each in _ADDRESS.findall(token.content)[:1])


def _join_texts(token: Token) -> str:
    """Return the texts of a block with the markup and line ends between them."""
    texts = []
    for each in token.children or ():
        marks = "\n" if each.type.endswith("break") else each.markup
        texts.append(each.content if each.type == "text" else marks)
    return "".join(texts)


def _leads_to(url: str, hosts: frozenset[str]) -> bool:
    try:
        place = urlsplit(url)
    except ValueError:
        return False
    # GitLab unescapes a URL before it determines what the URL refers to.
    path = unquote(unquote(place.path))
    if place.scheme not in ("http", "https") or _AWAY.search(path):
        return False
    if place.query and not _SIGNATURE.fullmatch(place.query):
        return False
    named = f"{place.netloc}{path}/".lower()
    roots = [host.lower().rstrip("/") for host in hosts if host]
    return any(
        named.startswith(root + "/") and not _MENTIONED.search(named[len(root) :]) for root in roots
    )


# ----------------------------------------------------------------------------------------- height


@lru_cache(maxsize=256)  # of the many candidates for a note, most have most paragraphs in common
def _count_text_lines(markdown: str) -> int:
    children = _get_parser().parseInline(markdown)[0].children
    if not children or (children[0].type == "html_inline" and children[0].content == "<sub>"):
        return 0
    text = "".join(map(_read_token, children))
    return sum(_count_wrapped_lines(line) for line in text.split("\n"))


def _count_wrapped_lines(line: str) -> int:
    """Count the lines that `line` takes when wrapped at `WIDTH`, between words if possible."""
    lines, filled = 1, 0
    for word in line.split():
        # Characters such as Chinese ones are two columns wide.
        width = len(word) + sum(not c.isascii() and east_asian_width(c) in "WF" for c in word)
        if filled and filled + 1 + width > WIDTH:
            lines, filled = lines + 1, 0
        filled += (filled > 0) + width
        lines += (filled - 1) // WIDTH
        filled -= (filled - 1) // WIDTH * WIDTH
    return lines
