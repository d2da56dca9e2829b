"""Detects texts that are raw data instead of an answer. Pure."""

import json
import re
from collections.abc import Sequence

from worker.conversation.answer_text import Block, BlockKind
from worker.safety.untrusted import parse_json

_LEAST_DUMP = 400
"""A text without prose is a dump if it has this many characters."""

_LEAST_SAID = 40
"""A text with this many characters of prose is no dump."""

_LOG_LINE = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\d{1,6}[:|]\s|\$ |[+>] |\[\d+/\d+\]"
    r"|(?:ERROR|INFO|WARN(?:ING)?|DEBUG|TRACE|FATAL|npm ERR!|E  |diff --git|@@ |[-+]{3} )"
    r"|section_(?:start|end))"
)

_JSON = re.compile(r'\{\s*"|\[\s*[\[{"]')
_BETWEEN = re.compile(r"[\s,]*+")


def is_broken_json(text: str, blocks: Sequence[Block]) -> bool:
    """Return whether a text is, or ends in a block of, JSON that breaks off in its middle."""
    bare = text.strip()
    if _JSON.match(bare):
        return bare[-1] not in "}]" and _breaks_off(bare)
    last = blocks[-1] if blocks else None
    return last is not None and last.info == "json" and not last.is_closed


def _breaks_off(text: str) -> bool:
    """Return whether one of the values that a text begins with is not whole."""
    at = 0
    while _JSON.match(text, at):
        try:
            _, at = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            return True
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
    return False


def is_dump(text: str, blocks: Sequence[Block]) -> bool:
    """Return whether a text holds data and almost no words of the model's own."""
    bare = text.strip()
    if bare[:1] in ("{", "[") and parse_json(bare) is not None:
        return True
    prose = "\n".join(block.text for block in blocks if block.kind is BlockKind.PROSE)
    own_lines = [line for line in prose.split("\n") if not _LOG_LINE.match(line)]
    return len(bare) >= _LEAST_DUMP and len("".join(own_lines).strip()) < _LEAST_SAID
