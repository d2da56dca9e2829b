"""The last step before a body is posted: seen as GitLab and a reader see it, redacted, checked."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from worker.core.finding import KeptBack
from worker.core.session_id import find_marker
from worker.core.text.untrusted import one_line, visible
from worker.forge.defence.lint import MAX_SIZE, Block, Fault, find_faults, parse_blocks, safe
from worker.forge.defence.neutralise import neutralise
from worker.forge.text.code import code_block

log = logging.getLogger("sandpiper.forge")

Redact = Callable[[str], str]

MAX_SHOWN = 200
"""Characters of a part that are shown to the model again."""

PLAIN = "*(This part could not stand in a note as it was written; here it is as plain text.)*"
SECRET = "it holds a secret"
"""What is wrong with a part that shows one when it is rendered."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A `body` that may be posted; `kept_back` says that nothing of the text is left in it."""

    body: str
    kept_back: bool = False


def finish(body: str, hosts: frozenset[str], redact: Redact) -> Finished:
    """`body` without unseen characters and secrets; a block that must not stand in a note is
    logged and written anew as plain text.

    `hosts` are the places that links may lead to (see `lint.find_faults`).
    """
    text = _redacted(visible(body), redact)
    faults = _faults(text, hosts, redact)
    if not faults:
        return Finished(text)
    marker = find_marker(body)
    session = marker.session_id if marker else "?"
    wrong = redact("; ".join(fault.what for fault in faults))[:500]
    log.error("session %s: parts of a note are kept back: %s", session, wrong)
    text = _rewritten(text, [fault.block for fault in faults if fault.block], redact)
    if _faults(text, hosts, redact):
        log.error("session %s: the whole note is kept back", session)
        return Finished(safe(body), kept_back=True)
    return Finished(text)


def find_kept_back(
    hosts: frozenset[str], redact: Redact, answer: str, write: Callable[..., str] = neutralise
) -> tuple[KeptBack, ...]:
    """The parts of a model's redacted `answer` that cannot stand in a note as it wrote them.

    `write` makes its Markdown harmless.
    """
    text = visible(write(answer, hosts))
    found: dict[str, KeptBack] = {}
    for block in parse_blocks(text[:MAX_SIZE]):
        part = "\n".join(block.lines)
        # What `find_faults` says of a body as a whole (its marker) is not said of a part.
        faults = [fault for fault in _faults(part, hosts, redact) if fault.block]
        if faults:
            shown = one_line(_read(block, redact), MAX_SHOWN)
            found.setdefault(shown, KeptBack(shown, faults[0].what))
    return tuple(found.values())


_SIGNATURE = re.compile(r"(?<=\?sig=)(\d{1,12}\.[0-9a-f]{16,128})(?=\))", re.ASCII)
_HTML = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>]{0,200}>", re.DOTALL)


def _redacted(body: str, redact: Redact) -> str:
    """`body` but for its marker. The signature of a link to a page of ours is looked at by itself:
    the name before it would make a secret of it."""
    marker = find_marker(body)
    first = marker.text() if marker else ""
    pieces = _SIGNATURE.split(body[len(first) :])
    return first + "".join(redact(piece) for piece in pieces)


def _faults(body: str, hosts: frozenset[str], redact: Redact) -> list[Fault]:
    found = find_faults(body, hosts)
    if len(body) > MAX_SIZE:
        return found
    return [*found, *_secrets(parse_blocks(body), redact)]


def _secrets(blocks: Sequence[Block], redact: Redact) -> Iterator[Fault]:
    """The blocks that Markdown or HTML joins a secret in."""
    for block in blocks:
        read = block.read()
        if any(redact(text) != text for text in {read, _HTML.sub("", read)}):
            yield Fault(SECRET, block)


def _read(block: Block, redact: Redact) -> str:
    """What a reader may see of a block."""
    read = block.read() or "\n".join(block.lines)
    joined = _HTML.sub("", read)
    return redact(read) if redact(joined) == joined else redact(joined)


def _rewritten(body: str, blocks: Sequence[Block], redact: Redact) -> str:
    """`body` with plain text in the place of the blocks."""
    lines = body.split("\n")
    for block in sorted({block.first: block for block in blocks}.values(), key=_first)[::-1]:
        text = code_block(_read(block, redact).strip("\n"))
        lines[block.first : block.first + len(block.lines)] = ["", PLAIN, "", text, ""]
    return "\n".join(lines)


def _first(block: Block) -> int:
    return block.first
