"""The last step before a note is posted: its body is checked, part by part.

Its values were redacted before they were put together; here nothing is rewritten. A part that reads
like a secret all the same, also if only the rendered note shows it, is left out, and the note says
so; the other parts stay, whatever stands in them.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from urllib.parse import urlsplit

from worker.conversation.context import Subject
from worker.safety.lint import MAX_SIZE, Block, Fault, find_faults, make_safe_body, parse_blocks
from worker.safety.markdown import find_marker, write_code_block
from worker.safety.neutralise import neutralise
from worker.safety.untrusted import one_line, visible
from worker.verdict.finding import WithheldPart

log = logging.getLogger("sandpiper.forge")

Redact = Callable[[str], str]

_MOST_ROUNDS = 8
"""How often parts are refused: without one, another may read like a secret, with what is left."""

MAX_SHOWN = 200
"""Characters of a withheld part that are shown to the model again."""

PLAIN = "*(This part could not stand in a note as it was written; here it is as plain text.)*"
LEFT_OUT = "*(A part is left out here: it reads like a secret.)*"
SECRET = "it holds a secret"
"""The fault of a part that shows a secret once it is rendered."""


@dataclass(frozen=True, slots=True)
class FinishedBody:
    """A `body` that may be posted; `kept_back` says that it has none of the original text."""

    body: str
    kept_back: bool = False


def finish_body(body: str, hosts: frozenset[str], redact: Redact) -> FinishedBody:
    """Return `body` without invisible characters. A block that is not allowed in a note is logged
    and replaced by plain text, or by a sentence if it holds a secret.

    `hosts` are the places that links may lead to (see `lint.find_faults`).
    """
    text = visible(body)
    faults = _find_faults(text, hosts, redact)
    if not faults:
        return FinishedBody(text)
    marker = find_marker(body)
    session = marker.session_id if marker else "?"
    wrong = redact("; ".join(fault.what for fault in faults))[:500]
    log.error("session %s: parts of a note are kept back: %s", session, wrong)
    for _ in range(_MOST_ROUNDS):
        before, text = text, _replace_blocks(text, faults)
        if text == before:  # what is wrong is wrong with the body as a whole
            break
        if not (faults := _find_faults(text, hosts, redact)):
            return FinishedBody(text)
    log.error("session %s: the whole note is kept back", session)
    return FinishedBody(make_safe_body(body), kept_back=True)


def find_kept_back(
    hosts: frozenset[str], redact: Redact, answer: str, write: Callable[..., str] = neutralise
) -> tuple[WithheldPart, ...]:
    """Return the parts of a model's redacted `answer` that are not allowed in a note as written.

    `write` is the function that makes the answer's Markdown harmless.
    """
    text = visible(write(answer, hosts))
    found: dict[str, WithheldPart] = {}
    for block in parse_blocks(text[:MAX_SIZE]):
        part = "\n".join(block.lines)
        # Faults of the body as a whole (a missing marker) do not concern a part.
        faults = [fault for fault in _find_faults(part, hosts, redact) if fault.block]
        if faults:
            shown = one_line(_read_block(block, redact), MAX_SHOWN)
            found.setdefault(shown, WithheldPart(shown, faults[0].what))
    return tuple(found.values())


_SIGNATURE = re.compile(r"(?<=\?sig=)\d{1,12}\.([0-9a-f]{16,128})(?=\))", re.ASCII)
_HTML = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]{0,200}>", re.DOTALL)
_MARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")


def _find_faults(body: str, hosts: frozenset[str], redact: Redact) -> list[Fault]:
    found = find_faults(body, hosts)
    if len(body) > MAX_SIZE:
        return found
    return [*found, *_find_secrets(body, redact)]


def _find_secrets(body: str, redact: Redact) -> Iterator[Fault]:
    """Yield the parts that redaction would change: of the text, or once Markdown and HTML are
    rendered. Each item of a list is a part."""
    changed = _find_changed_lines(body, redact)
    for block in parse_blocks(body):
        items = block.split_items()
        found = [each for each in items if _holds_secret(each, changed, redact)]
        # What only several items together show, the whole list does.
        if not found and len(items) > 1 and _holds_secret(block, changed, redact):
            found = [block]
        yield from (Fault(SECRET, part) for part in found)
        changed = changed.difference(range(block.first, block.first + len(block.lines)))
    # Of no block are the definitions of links, which nobody reads.
    texts = body.split("\n")
    yield from (Fault(SECRET, Block((), (texts[line],), line)) for line in sorted(changed))


def _holds_secret(part: Block, changed: frozenset[int], redact: Redact) -> bool:
    lines = range(part.first, part.first + len(part.lines))
    read = part.read_text()
    return not changed.isdisjoint(lines) or any(
        redact(text) != text for text in {read, _HTML.sub("", read)}
    )


def _find_changed_lines(body: str, redact: Redact) -> frozenset[int]:
    """Return the numbers of the lines of a body, but for its marker, that redaction would change.

    The signature of a link to a session's page is looked at by itself: together with the `sig=`
    before it, it would be mistaken for a secret.
    """
    marker = find_marker(body)
    text = body[len(marker.text()) if marker else 0 :]
    signed = [found for found in _SIGNATURE.finditer(text) if redact(found[1]) == found[1]]
    for found in reversed(signed):
        text = f"{text[: found.start()]}0{text[found.end() :]}"
    clean = redact(text)
    if clean == text:
        return frozenset()
    pairs = zip_longest(text.split("\n"), clean.split("\n"))
    return frozenset(line for line, (before, after) in enumerate(pairs) if before != after)


def _read_block(block: Block, redact: Redact) -> str:
    """Return the redacted text of a block, as a reader sees it."""
    read = _read_text(block)
    joined = _HTML.sub("", read)
    return redact(read) if redact(joined) == joined else redact(joined)


def _read_text(block: Block) -> str:
    return block.read_text() or "\n".join(block.lines)


def _replace_blocks(body: str, faults: Sequence[Fault]) -> str:
    """Return `body` with the blocks of the faults replaced by their plain text, or by a sentence if
    they hold a secret."""
    lines = body.split("\n")
    secret = {
        fault.block.first + at
        for fault in faults
        if fault.what == SECRET and fault.block
        for at in range(len(fault.block.lines))
    }
    for block in reversed(_list_outermost(faults)):
        first, end = block.first, block.first + len(block.lines)
        holds_secret = not secret.isdisjoint(range(first, end))
        text = LEFT_OUT if holds_secret else write_code_block(_read_text(block).strip("\n"))
        if block.is_item:
            mark = _MARK.match(lines[first])
            lines[first:end] = [f"{mark[0] if mark else '- '}{text}"]
        else:
            lines[first:end] = ["", *([] if holds_secret else [PLAIN, ""]), text, ""]
    return "\n".join(lines)


def _list_outermost(faults: Sequence[Fault]) -> list[Block]:
    """Return the blocks of the faults, in their order, without those that are in another one."""
    blocks = [fault.block for fault in faults if fault.block]
    found: list[Block] = []
    end = 0
    for block in sorted(blocks, key=lambda each: (each.first, -len(each.lines))):
        if block.first >= end:
            found.append(block)
            end = block.first + len(block.lines)
    return found


def add_subject_hosts(subject: Subject, hosts: frozenset[str]) -> frozenset[str]:
    """Return `hosts` and the places of `subject`: its merge request, its project under both URLs
    that GitLab may use, and the project that its pipeline ran in."""
    project = _project_of(subject.web_url)
    if not project:
        return hosts
    pages = {subject.web_url, project, _project_of(subject.pipeline_web_url)} - {""}
    pages |= {f"{subject.gitlab_url}/{subject.project}"} if subject.project else set()
    return hosts | {place.netloc + place.path for place in map(urlsplit, pages)}


def _project_of(page: str) -> str:
    project, found, _ = page.partition("/-/")
    return project if found else ""
