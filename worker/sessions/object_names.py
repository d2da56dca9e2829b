"""Parses the names of stored objects: how old they are, and what they belong to. Pure.

recent/{day}/{time}-{project_id}-{mr_iid}-{session_id}-{turn}.json   time counts back from END (ms)
spend/{project_id}/{YYYY-MM-DD}.json
known/{project_id}/{key}.json
known/{project_id}/knowledge.md
index/{session_id}
preferences/{project_id}/{mr_iid}.json, preferences/{project_id}/project.json
verdicts/{YYYY-MM-DD}.json
keys/installation           made once and kept: neither the sweep nor `forget` removes it
prompts/{sha256}.json       what sessions' models were told; renewed while it is used
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

RECENT, SPEND, KNOWN, INDEX, PROBE = "recent/", "spend/", "known/", "index/", "probe/"
PREFERENCES, VERDICTS, PROMPTS = "preferences/", "verdicts/", "prompts/"

INSTALLATION_KEY = "keys/installation"
"""The random key of this installation: 64 hex digits."""

END = 10**13
"""Milliseconds, far in the future, from which the times of rows count back: newest first."""

_ROW = re.compile(r"recent/\d{6}/(\d{13})-(\d{1,19})-(\d{1,19})-[0-9a-f]{4,64}-\d{4}\.json")
_DAY = re.compile(r"(?:spend/\d{1,19}|verdicts)/(\d{4}-\d\d-\d\d)\.json")
_KNOWN = re.compile(r"known/([1-9]\d{0,18})/([0-9a-f]{8,64})\.json")

_MEMORY = re.compile(r"known/([1-9]\d{0,18})/knowledge\.md")
_WORDS = re.compile(r"known/([1-9]\d{0,18})/words\.index")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the list of turns: when its turn began (epoch seconds), and its merge request."""

    began_at: float
    project_id: int
    mr_iid: int


def parse_row(name: str) -> Row | None:
    """Return the row that a name describes, None for the name of another object."""
    match = _ROW.fullmatch(name)
    if not match:
        return None
    return Row((END - 1 - int(match[1])) / 1000, int(match[2]), int(match[3]))


def name_day(at: float) -> str:
    """Return the UTC day of a time in epoch seconds, as YYYY-MM-DD."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def name_verdicts(day: str) -> str:
    """Return the name of a day's counted verdicts; `day` is YYYY-MM-DD."""
    return f"{VERDICTS}{day}.json"


def parse_day_end(name: str) -> float | None:
    """Return when the day of a cost or verdict record ended (epoch seconds).

    None for the name of another object.
    """
    match = _DAY.fullmatch(name)
    if not match:
        return None
    try:
        return datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp() + 86_400
    except ValueError:
        return None


def parse_known(name: str) -> tuple[int, str] | None:
    """Return the project and key of a known failure, None for the name of another object."""
    match = _KNOWN.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def parse_words(name: str) -> int | None:
    """Return the project of an index of error words, None for the name of another object."""
    match = _WORDS.fullmatch(name)
    return int(match[1]) if match else None


def parse_memory(name: str) -> int | None:
    """Return the project that a memory belongs to, None for the name of another object."""
    match = _MEMORY.fullmatch(name)
    return int(match[1]) if match else None
