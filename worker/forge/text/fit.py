"""Chooses how much of a finding is visible at once, so that it fits; whole sentences where
possible."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from worker.core.text.sentences import (
    SHOWN,
    after_sentences,
    before_code,
    split_clauses,
    split_sentences,
)

MAX_QUOTES = 3
"""Quotes that are visible at once."""

LONGEST = (SHOWN, 280, 240, 120, 60)
"""The longest first sentence, in characters, that is shown whole: four lines, or three. Of a longer
one as many clauses are shown as fit; the later limits are used when nothing else can be cut."""

_SEPARATED = (".", "!", "?", "…", ",", ":", ";")


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How much of each part is shown; the defaults show all of it.

    `cause` and `to_do` count sentences. `quotes` counts quotes, each with all its lines or, without
    `whole_quotes`, with its first one; `least_quotes` of them show one of each failed job.
    `jobs_level` is the level of `shorten_jobs`, `longest` one of `LONGEST`.
    """

    cause: int
    to_do: int
    quotes: int
    least_quotes: int = 1
    whole_quotes: bool = True
    jobs_level: int = 0
    longest: int = LONGEST[0]


def choose_room(whole: PartLimits, fits: Callable[[PartLimits], bool]) -> PartLimits:
    """Returns the largest room that fits. The least needed parts are cut first; then whatever still
    fits is added again, the most needed first. If nothing fits, the smallest room is returned."""
    rooms = list(_narrow(whole))
    at = bisect_left(rooms, True, key=fits)
    return _refill(rooms[at], whole, fits) if at < len(rooms) else rooms[-1]


def _narrow(room: PartLimits) -> Iterator[PartLimits]:
    """Yields ever smaller rooms: without details of what failed, then without further lines of
    quotes, further quotes, further sentences of the advice and of the cause; the last quote and the
    failed jobs are cut last."""
    yield room
    for change in _ways_to_give(room):
        room = replace(room, **change)
        yield room


def _ways_to_give(room: PartLimits) -> Iterator[dict[str, Any]]:
    yield {"jobs_level": 1}
    yield {"whole_quotes": False}
    yield from ({"quotes": count} for count in range(room.quotes - 1, room.least_quotes - 1, -1))
    yield {"jobs_level": 2}
    yield from ({"to_do": count} for count in range(room.to_do - 1, 0, -1))
    yield from (
        {"quotes": count} for count in range(min(room.least_quotes, room.quotes) - 1, 0, -1)
    )
    yield from ({"cause": count} for count in range(room.cause - 1, 0, -1))
    yield {"quotes": 0}
    yield {"jobs_level": 3}
    yield {"jobs_level": 4}
    yield from ({"longest": size} for size in LONGEST[1:])


def _refill(room: PartLimits, whole: PartLimits, fits: Callable[[PartLimits], bool]) -> PartLimits:
    for change in _ways_to_refill(whole):
        wider = replace(room, **change)
        if _is_wider(wider, room) and fits(wider):
            room = wider
    return room


def _ways_to_refill(whole: PartLimits) -> Iterator[dict[str, Any]]:
    yield from ({"jobs_level": level} for level in (3, 2))
    yield from ({"quotes": 1} for _ in range(min(1, whole.quotes)))
    yield from ({"cause": count} for count in range(2, whole.cause + 1))
    yield from ({"quotes": count} for count in range(2, min(whole.least_quotes, whole.quotes) + 1))
    yield from ({"to_do": count} for count in range(2, whole.to_do + 1))
    yield from ({"quotes": count} for count in range(2, whole.quotes + 1))
    yield from ({"jobs_level": level} for level in (1, 0))
    yield {"whole_quotes": True}


def _is_wider(room: PartLimits, than: PartLimits) -> bool:
    counts = (room.cause, room.to_do, room.quotes, room.whole_quotes, -room.jobs_level)
    return counts > (than.cause, than.to_do, than.quotes, than.whole_quotes, -than.jobs_level)


# ---------------------------------------------------------------------------------------- sections


def count_sentences(text: str) -> int:
    """Counts the sentences before the first code block."""
    return len(split_sentences(before_code(text)))


def begin_section(text: str, sentences: int, longest: int) -> tuple[str, str]:
    """Returns the first `sentences` of a section on one line, and the rest of the section. If the
    first one has more than `longest` characters, its first clauses and the whole section."""
    shown = split_sentences(before_code(text))[:sentences]
    if shown and len(shown[0]) > longest:
        return _cut_to_clauses(shown[0], longest), text
    rest = after_sentences(text, shown)
    if not shown:
        return "See the details below." if rest else "", rest
    line = _join_sentences(shown)
    if before_code(rest).strip() or not rest:
        return line, rest
    return f"{line[:-1]} (in the details)." if line.endswith(":") else line, rest


def _join_sentences(sentences: list[str]) -> str:
    text = sentences[0]
    for each in sentences[1:]:
        text += ("" if text.endswith(_SEPARATED) else ";") + f" {each}"
    return text


def _cut_to_clauses(sentence: str, longest: int) -> str:
    """Returns the clauses that fit into `longest` characters, or words if the first does not."""
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


# ------------------------------------------------------------------------------------ failed jobs

_IDS = r"\(\[?(?:job )?#?\d{1,19}(?=[\]),])(?:[^()]|\([^()]{0,300}\)){0,300}\)"
_JOB = rf"(?:`[^`\n]{{1,200}}`|[\w.:/-]{{1,80}}) {_IDS}"
_JOBS = re.compile(rf"{_JOB}(?: and {_JOB}){{0,20}}")
"""Names of jobs with their ids."""

_ASIDE = re.compile(r"(\((?:job )?#?\d{1,19}), [^()\d][^()]{0,300}\)")
"""The id of a job, and words about it."""

_AND_MORE = re.compile(r"(?<=[`)]) and(?: (?=`)|, *$)")
_LISTED = re.compile(r"and\b|or\b|[`\"“A-Z0-9]")
"""The beginning of a further test or step in a list, not of a reason."""

_ALLOWED = re.compile(r"\ballow")


@dataclass(slots=True)
class _Failed:
    """Jobs by name, and what failed in them; `ended` says that the sentence about them is over."""

    names: list[str]
    detail: str = ""
    ended: bool = False


def shorten_jobs(text: str, level: int) -> str:
    """Returns what failed, on one line. Level 0 is all of it, 1 each job with its first test or
    step, 2 the jobs alone, 3 the first three jobs, 4 nothing.

    From level 1 on, jobs that are allowed to fail are left out if there are others.
    """
    sentences = split_sentences(text)
    if not sentences or level >= 4:
        return ""
    if level == 0:
        return _join_sentences(sentences)
    every = _read_jobs(sentences)
    failed = [each for each in every if not _ALLOWED.search(each.detail)] or every
    if level == 1:
        return "; ".join(map(_write_first_failure, failed))
    names = [name for each in failed for name in each.names]
    more = f" and {len(names) - 3} more" if level == 3 and len(names) > 3 else ""
    return ", ".join(names[:3] if more else names) + more


def _read_jobs(sentences: list[str]) -> list[_Failed]:
    found: list[_Failed] = []
    for sentence in sentences:
        for piece in split_clauses(sentence, ",;"):
            _add_clause(piece, found)
        found[-1].ended = True
    return found


def _add_clause(piece: str, found: list[_Failed]) -> None:
    """Adds a clause: names of jobs, or what failed in them. The first clause always names jobs."""
    named = _JOBS.match(piece)
    held = found[-1] if found else None
    if held and not named and (held.detail or held.ended):
        held.detail += "" if held.ended else piece
        return
    if held is None or held.detail or held.ended:
        held = _Failed([])
        found.append(held)
    name = named[0] if named else split_clauses(piece, ":")[0]
    held.names.append(name.rstrip(" :,;."))
    held.detail += piece[len(name) :].lstrip(" :,;.")


def _write_first_failure(failed: _Failed) -> str:
    """Returns the jobs and the first thing that failed in them."""
    names = _ASIDE.sub(r"\1)", ", ".join(failed.names))
    clause = _AND_MORE.split(split_clauses(failed.detail, ",;")[0])[0]
    first = split_clauses(clause, ":")[0]
    rest = failed.detail[len(clause) :].lstrip(" ,;")
    more = " and more" if first == clause and _LISTED.match(rest) else ""
    return f"{names}: {first.rstrip(' ,;:.')}{more}" if first else names
