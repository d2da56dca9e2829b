"""How much of a finding is shown at once, so that it fits: whole sentences, never parts of one."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from worker.core.sentences import (
    SHOWN,
    after_sentences,
    before_code,
    split_clauses,
    split_sentences,
)

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


def count_sentences(text: str) -> int:
    """How many sentences stand before the first block of code."""
    return len(split_sentences(before_code(text)))


def begin_section(text: str, sentences: int, longest: int) -> tuple[str, str]:
    """The first `sentences` of a section on one line, and what of the section that leaves. Of a
    first one of more than `longest` characters the first clauses are shown, which leaves it all."""
    shown = split_sentences(before_code(text))[:sentences]
    if shown and len(shown[0]) > longest:
        return _clauses(shown[0], longest), text
    rest = after_sentences(text, shown)
    if not shown:
        return "See the details below." if rest else "", rest
    line = _joined(shown)
    if before_code(rest).strip() or not rest:
        return line, rest
    return f"{line[:-1]} (in the details)." if line.endswith(":") else line, rest


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
