"""The layout of the store: makes the names of stored objects, and parses them. Pure.

sessions/{project_id}/{mr_iid}/{session_id}/{turn:04d}/context.json
                                                      /sandbox.tar.gz
                                                      /evidence.json
                                                      /checkpoint.json
                                                      /claim.json
                                                      /stop.json
                                                      /after.json   written after the commit
                                                      /feedback.json
index/{session_id}          "{project_id}/{mr_iid}": where a session is, by its id
recent/{day}/{time}-{project_id}-{mr_iid}-{session_id}-{turn}.json   time counts back from END (ms)
spend/{project_id}/{YYYY-MM-DD}.json
known/{project_id}/{key}.json
known/{project_id}/knowledge.md
known/{project_id}/words.index
preferences/{project_id}/{mr_iid}.json, preferences/{project_id}/project.json
verdicts/{YYYY-MM-DD}.json
keys/installation           made once and kept: neither the sweep nor `forget` removes it
prompts/{sha256}.json       what sessions' models were told; renewed while it is used

worker/README.md lists what else is in the store.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from worker.conversation.context import SessionKey
from worker.errors import StoreError

ROOT = "sessions/"
RECENT, SPEND, KNOWN, INDEX, PROBE = "recent/", "spend/", "known/", "index/", "probe/"
PREFERENCES, VERDICTS, PROMPTS = "preferences/", "verdicts/", "prompts/"

INSTALLATION_KEY = "keys/installation"
"""The random key of this installation: 64 hex digits."""

CONTEXT = "context.json"
FILES = "sandbox.tar.gz"
EVIDENCE = "evidence.json"
CHECKPOINT = "checkpoint.json"
CLAIM = "claim.json"
STOP = "stop.json"
AFTER = "after.json"
FEEDBACK = "feedback.json"

MAX_TURN = 9999

_ID = re.compile(r"[0-9a-f]{4,64}", re.ASCII)
_START = re.compile(r"[0-9a-f]{1,64}", re.ASCII)
_NUMBER = r"([1-9]\d{0,18})"
_POINTER = re.compile(rf"{_NUMBER}/{_NUMBER}".encode(), re.ASCII)
_NAME = re.compile(
    rf"sessions/{_NUMBER}/{_NUMBER}/([0-9a-f]{{4,64}})/(\d{{4}})/([a-z.]+)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The parts of an object's name."""

    key: SessionKey
    turn: int
    leaf: str


def make_session_prefix(key: SessionKey) -> str:
    """Make the prefix of all turns of a session. Raises StoreError for an invalid key."""
    numbers = (key.project_id, key.mr_iid)
    if not _ID.fullmatch(key.session_id) or not all(0 < number < 10**19 for number in numbers):
        raise StoreError(f"not a session's key: {str(key)[:200]!r}")
    return f"{ROOT}{key.project_id}/{key.mr_iid}/{key.session_id}/"


def make_merge_request_prefix(project_id: int, mr_iid: int) -> str:
    """Make the prefix of all sessions of a merge request, of a project, or of the store."""
    if not project_id:
        return ROOT
    return f"{ROOT}{project_id}/{mr_iid}/" if mr_iid else f"{ROOT}{project_id}/"


def make_turn_prefix(key: SessionKey, number: int) -> str:
    """Make the prefix of one turn's objects."""
    if not 0 <= number <= MAX_TURN:
        raise StoreError(f"a session has turns 0 to {MAX_TURN}, not {number}")
    return f"{make_session_prefix(key)}{number:04d}/"


def parse_name(name: str) -> ObjectName | None:
    """Parse an object's name; None if it is not a session's object."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    key = SessionKey(int(match[1]), int(match[2]), match[3])
    return ObjectName(key, int(match[4]), match[5])


def make_index_name(start: str) -> str | None:
    """Make the name of an index entry, or the prefix of several; None for an invalid id."""
    return f"{INDEX}{start}" if _START.fullmatch(start) else None


def encode_pointer(key: SessionKey) -> bytes:
    """Encode the content of a session's index entry."""
    return f"{key.project_id}/{key.mr_iid}".encode()


def decode_pointer(session_id: str, content: bytes) -> SessionKey | None:
    """Decode the key from an index entry's content; None if it is damaged."""
    match = _POINTER.fullmatch(content)
    return SessionKey(int(match[1]), int(match[2]), session_id) if match else None


# -------------------------------------------------------------------------- beside the sessions
END = 10**13
"""Milliseconds, far in the future, from which the times of rows count back: newest first."""

_ROW = re.compile(r"recent/\d{6}/(\d{13})-(\d{1,19})-(\d{1,19})-[0-9a-f]{4,64}-\d{4}\.json")
_DAY = re.compile(r"(?:spend/\d{1,19}|verdicts)/(\d{4}-\d\d-\d\d)\.json")
_KNOWN = re.compile(r"known/([1-9]\d{0,18})/([0-9a-f]{8,64}\.json|knowledge\.md|words\.index)")


@dataclass(frozen=True, slots=True)
class RowName:
    """What a row's name says: when its turn began (epoch seconds), and its merge request."""

    began_at: float
    project_id: int
    mr_iid: int


def parse_row(name: str) -> RowName | None:
    """Return the row that a name describes, None for the name of another object."""
    match = _ROW.fullmatch(name)
    if not match:
        return None
    return RowName((END - 1 - int(match[1])) / 1000, int(match[2]), int(match[3]))


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
    """Return the project of which a known failure, its memory or its words are stored, and how
    their name ends: "{key}.json", or a MemoryPart. None for the name of another object."""
    match = _KNOWN.fullmatch(name)
    return (int(match[1]), match[2]) if match else None
