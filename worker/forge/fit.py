"""How much of a finding is shown at once, so that it fits: whole sentences, never parts of one."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from worker.core.sentences import SHOWN, split_clauses, split_sentences

MAX_QUOTES = 3
"""Quotes that are shown at once."""

LONGEST = (SHOWN, 240, 120, 60)
"""Characters of a first sentence that stand whole: three lines. Of a longer one its clauses do, and
of several such ones, where all else has given way, fewer of them."""

_SEPARATED = (".", "!", "?", "…", ",", ":", ";")


@dataclass(frozen=True, slots=True)
class Room:
    """How much of each part is shown; the defaults show all of it.

    `cause` and `to_do` count sentences. `quotes` counts quotes, each with all its lines or, without
    `whole_quotes`, with its first one. `failed` is the level of `shorten_jobs`, `longest` one of
    `LONGEST`.
    """

    cause: int
    to_do: int
    quotes: int
    whole_quotes: bool = True
    failed: int = 0
    longest: int = LONGEST[0]


def choose_room(whole: Room, fits: Callable[[Room], bool]) -> Room:
    """The most that fits: what gives way first is the least needed. What gave way for nothing comes
    back, the most needed first. If nothing fits, the least there is."""
    rooms = list(_narrower(whole))
    at = bisect_left(rooms, True, key=fits)
    return _refilled(rooms[at], whole, fits) if at < len(rooms) else rooms[-1]


def _narrower(room: Room) -> Iterator[Room]:
    """Ever less: details of what failed, further lines of quotes, further quotes, further sentences
    of what to do and of the cause; the last quote and the failed jobs only then."""
    yield room
    for change in _ways_to_give(room):
        room = replace(room, **change)
        yield room


def _ways_to_give(room: Room) -> Iterator[dict[str, Any]]:
    yield {"failed": 1}
    yield {"whole_quotes": False}
    yield from ({"quotes": count} for count in range(room.quotes - 1, 0, -1))
    yield from ({"to_do": count} for count in range(room.to_do - 1, 0, -1))
    yield {"failed": 2}
    yield from ({"cause": count} for count in range(room.cause - 1, 0, -1))
    yield {"quotes": 0}
    yield {"failed": 3}
    yield from ({"longest": size} for size in LONGEST[1:])


def _refilled(room: Room, whole: Room, fits: Callable[[Room], bool]) -> Room:
    for name in ("cause", "to_do", "quotes"):
        while getattr(room, name) < getattr(whole, name):
            wider = replace(room, **{name: getattr(room, name) + 1})
            if not fits(wider):
                break
            room = wider
    for wider in (replace(room, failed=0), replace(room, whole_quotes=True)):
        room = wider if fits(wider) else room
    return room


# ---------------------------------------------------------------------------------------- sections


_FENCE = re.compile(r"(?m)^[ \t>]*(?:`{3,}|~{3,})")


def count_sentences(text: str) -> int:
    """How many sentences stand before the first block of code."""
    return len(split_sentences(_before_code(text)))


def begin_section(text: str, sentences: int, longest: int) -> tuple[str, bool]:
    """The first `sentences` of a section on one line, and whether that is all of it. A first one of
    more than `longest` characters is shown by its first clauses."""
    prose = _before_code(text)
    line = _first_sentences(prose, sentences, longest)
    whole = sentences >= count_sentences(text) and not line.endswith(" …")
    if prose == text or not whole:
        return line, whole and prose == text
    if not line:
        return "See the details below.", False
    return f"{line[:-1]} (in the details)." if line.endswith(":") else line, False


def _before_code(text: str) -> str:
    fence = _FENCE.search(text)
    return text[: fence.start()] if fence else text


def _first_sentences(text: str, count: int, longest: int) -> str:
    shown = split_sentences(text)[:count]
    if shown and len(shown[0]) > longest:
        return _clauses(shown[0], longest)
    return _joined(shown) if shown else ""


def _joined(sentences: list[str]) -> str:
    text = sentences[0]
    for each in sentences[1:]:
        text += ("" if text.endswith(_SEPARATED) else ";") + f" {each}"
    return text


def _clauses(sentence: str, longest: int) -> str:
    """The clauses that fit into `longest` characters, or words where the first one does not."""
    for marks in (";:", ",;:", ""):
        parts = split_clauses(sentence, marks) if marks else sentence.split(" ")
        text, glue = "", "" if marks else " "
        for part in parts:
            if len(text) + len(part) > longest:
                break
            text += part + glue
        if text:
            return f"{text.rstrip(' ,;:')} …"
    return f"{sentence[:longest]} …"


def shorten_jobs(text: str, level: int) -> str:
    """What failed, on one line: 0 all of it, 1 without what follows a colon or a first sentence, 2
    with the first three of several names, 3 nothing."""
    sentences = split_sentences(text)
    if not sentences or level >= 3:
        return ""
    if level == 0:
        return _joined(sentences)
    names = split_clauses(sentences[0], ":")[0].rstrip(" :")
    parts = split_clauses(names, ",;")
    if level == 1 or len(parts) <= 3:
        return names
    shown = "".join(parts[:3]).rstrip(" ,;")
    return f"{shown} and {len(parts) - 3} more"
