"""What GitLab would do with a note, for tests: rendering, references, quick actions."""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

COMMAND = re.compile(r"^/\w+", re.MULTILINE)
REFERENCES = re.compile(
    r"@[\w.-]"
    r"|(?<![&\w])[#!$&]\d"
    r"|[\w/][#!$&]\d"
    r"|(?<!\w)[%~](?:\w|\"[^\"\n]+\")"
    r"|\^alert#\d"
    r"|\[\w+:[\w-]+\]"
    r"|%\{"
    r"|\[\[[\w /|-]+\]\]|\[_?TOC_?\]|::include"
)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|www\.", re.IGNORECASE)


def tokens(markdown: str) -> Iterator[Token]:
    """All tokens of the rendered text, those inside of lines included."""
    for token in PARSER.parse(markdown):
        yield token
        yield from token.children or ()


def texts(markdown: str) -> Iterator[str]:
    """The texts that a reader sees outside of code and links."""
    linked = 0
    for token in tokens(markdown):
        linked += (token.type == "link_open") - (token.type == "link_close")
        if token.type == "text" and not linked:
            yield token.content


def codes(markdown: str) -> list[str]:
    """What stands in spans and blocks of code."""
    return [token.content for token in tokens(markdown) if token.type in ("code_inline", "fence")]


def items(markdown: str) -> Iterator[tuple[str, str]]:
    """Each paragraph and block of code, after the numbers ("-" for none) of the items it is in."""
    path: list[str] = []
    for token in PARSER.parse(markdown):
        if token.type == "list_item_open":
            path.append(token.info or "-")
        elif token.type == "list_item_close":
            path.pop()
        elif token.type == "inline":
            yield "".join(path), "".join(each.content for each in token.children or ())
        elif token.type in ("fence", "code_block"):
            yield "".join(path), token.content.strip()


def links(markdown: str) -> list[str]:
    """Where links lead."""
    return [str(token.attrs["href"]) for token in tokens(markdown) if token.type == "link_open"]


def quick_actions(body: str) -> list[str]:
    """What an older GitLab would run (a search through the raw text, no code respected), and what
    19.x would (raw lines of the top-level paragraphs)."""
    found = COMMAND.findall(body.replace("\r", ""))
    lines = body.split("\n")
    for token in PARSER.parse(body):
        if token.type == "paragraph_open" and token.level == 0 and token.map:
            found += COMMAND.findall("\n".join(lines[token.map[0] : token.map[1]]))
    return found


def dangers(body: str, hosts: frozenset[str] = frozenset()) -> list[str]:
    """Everything in `body` that a note must not do; empty if there is nothing."""
    found = [f"quick action {command}" for command in quick_actions(body)]
    for token in tokens(body):
        if token.type in ("html_block", "html_inline", "image"):
            found.append(f"{token.type} {token.content!r}")
        if token.type == "fence" and not re.fullmatch(r"[a-z]+", token.info):
            found.append(f"a block named {token.info!r}")
    for text in texts(body):
        found += [f"reference {each!r} in {text!r}" for each in REFERENCES.findall(text)]
        found += [f"address {each!r} in {text!r}" for each in ADDRESS.findall(text)]
    found += [f"link to {link}" for link in links(body) if not leads_to(link, hosts)]
    return found


def leads_to(link: str, hosts: frozenset[str]) -> bool:
    return any(link.startswith((f"https://{host}/", f"http://{host}/")) for host in hosts)
