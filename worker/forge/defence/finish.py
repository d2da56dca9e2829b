"""The last step before a note is posted: its body is redacted and checked.

The body is read as GitLab renders it, so a secret that only the rendered note shows is found too.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from worker.core.finding import WithheldPart
from worker.core.session_id import find_marker
from worker.core.text.untrusted import one_line, visible
from worker.forge.defence.lint import (
    MAX_SIZE,
    Block,
    Fault,
    find_faults,
    make_safe_body,
    parse_blocks,
)
from worker.forge.defence.neutralise import neutralise
from worker.forge.text.code import write_code_block

log = logging.getLogger("sandpiper.forge")

Redact = Callable[[str], str]

MAX_SHOWN = 200
"""Characters of a withheld part that are shown to the model again."""

PLAIN = "*(This part could not stand in a note as it was written; here it is as plain text.)*"
SECRET = "it holds a secret"
"""The fault of a part that shows a secret once it is rendered."""


@dataclass(frozen=True, slots=True)
class FinishedBody:
    """A `body` that may be posted; `kept_back` says that it has none of the original text."""

    body: str
    kept_back: bool = False


def finish_body(body: str, hosts: frozenset[str], redact: Redact) -> FinishedBody:
    """Return `body` without invisible characters and secrets. A block that is not allowed in a
    note is logged and replaced by plain text.

    `hosts` are the places that links may lead to (see `lint.find_faults`).
    """
    text = _redact_body(visible(body), redact)
    faults = _find_faults(text, hosts, redact)
    if not faults:
        return FinishedBody(text)
    marker = find_marker(body)
    session = marker.session_id if marker else "?"
    wrong = redact("; ".join(fault.what for fault in faults))[:500]
    log.error("session %s: parts of a note are kept back: %s", session, wrong)
    text = _replace_blocks(text, [fault.block for fault in faults if fault.block], redact)
    if _find_faults(text, hosts, redact):
        log.error("session %s: the whole note is kept back", session)
        return FinishedBody(make_safe_body(body), kept_back=True)
    return FinishedBody(text)


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


_SIGNATURE = re.compile(r"(?<=\?sig=)(\d{1,12}\.[0-9a-f]{16,128})(?=\))", re.ASCII)
_HTML = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]{0,200}>", re.DOTALL)


def _redact_body(body: str, redact: Redact) -> str:
    """Redact all of `body` but its marker. The signature of a link to a session's page is redacted
    separately: together with the `sig=` before it, it would be mistaken for a secret."""
    marker = find_marker(body)
    first = marker.text() if marker else ""
    pieces = _SIGNATURE.split(body[len(first) :])
    return first + "".join(redact(piece) for piece in pieces)


def _find_faults(body: str, hosts: frozenset[str], redact: Redact) -> list[Fault]:
    found = find_faults(body, hosts)
    if len(body) > MAX_SIZE:
        return found
    return [*found, *_find_secrets(parse_blocks(body), redact)]


def _find_secrets(blocks: Sequence[Block], redact: Redact) -> Iterator[Fault]:
    """Yield the blocks that show a secret once Markdown and HTML are rendered."""
    for block in blocks:
        read = block.read_text()
        if any(redact(text) != text for text in {read, _HTML.sub("", read)}):
            yield Fault(SECRET, block)


def _read_block(block: Block, redact: Redact) -> str:
    """Return the redacted text of a block, as a reader sees it."""
    read = block.read_text() or "\n".join(block.lines)
    joined = _HTML.sub("", read)
    return redact(read) if redact(joined) == joined else redact(joined)


def _replace_blocks(body: str, blocks: Sequence[Block], redact: Redact) -> str:
    """Return `body` with the blocks replaced by their plain text."""
    lines = body.split("\n")
    by_line = {block.first: block for block in blocks}
    for _, block in sorted(by_line.items(), reverse=True):
        text = write_code_block(_read_block(block, redact).strip("\n"))
        lines[block.first : block.first + len(block.lines)] = ["", PLAIN, "", text, ""]
    return "\n".join(lines)
