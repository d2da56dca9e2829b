"""The layout of the store: makes the names of stored objects, and parses them. Pure.

sessions/{project_id}/{mr_iid}/{session_id}/{turn:04d}/context.json
                                                      /sandbox.tar.gz
                                                      /evidence.json
                                                      /checkpoint.json
                                                      /claim.json
                                                      /stop.json
                                                      /after.json   written after the commit
                                                      /feedback.json
sessions/{project_id}/branch-{name}/{session_id}/…   the same, of a branch's pipeline
index/{session_id}          "{project_id}/{mr_iid}", or "{project_id}/branch-{name}": where it is
recent/{day}/{time}-{project_id}-{mr_iid}-{session_id}-{turn}.json   time counts back from END (ms);
                            a branch's has branch-{name} in the place of the mr_iid
spend/{project_id}/{YYYY-MM-DD}.json
known/{project_id}/{key}.json
known/{project_id}/knowledge.md
known/{project_id}/words.index
preferences/{project_id}/{mr_iid}.json, preferences/{project_id}/project.json
verdicts/{YYYY-MM-DD}.json
keys/installation           made once and kept: neither the sweep nor `forget` removes it
prompts/{sha256}.json       what sessions' models were told; renewed while it is used
incidents/{project_id}/{branch}.json            a watched branch, by `record.name_branch`
incidents/{project_id}/{branch}/{mr_iid}.json   a merge request into it
tests/{project_id}/{YYYY-MM-DD}.json            the tests of the pipelines made on that UTC day
retries/{project_id}.json   the jobs that the bot has run again

worker/README.md lists what else is in the store.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from worker.conversation.context import SessionKey
from worker.errors import StoreError
from worker.incidents.record import name_branch

ROOT = "sessions/"
RECENT, SPEND, KNOWN, INDEX, PROBE = "recent/", "spend/", "known/", "index/", "probe/"
PREFERENCES, VERDICTS, PROMPTS = "preferences/", "verdicts/", "prompts/"
INCIDENTS, TESTS, RETRIES = "incidents/", "tests/", "retries/"

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
_BRANCH = re.compile(r"branch-[A-Za-z0-9._-]{1,60}", re.ASCII)
_PLACE = rf"(?:{_NUMBER}|({_BRANCH.pattern}))"
_POINTER = re.compile(rf"{_NUMBER}/{_PLACE}", re.ASCII)
_NAME = re.compile(rf"sessions/{_NUMBER}/{_PLACE}/([0-9a-f]{{4,64}})/(\d{{4}})/([a-z.]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The parts of an object's name."""

    key: SessionKey
    turn: int
    leaf: str


def make_session_prefix(key: SessionKey) -> str:
    """Make the prefix of all turns of a session. Raises StoreError for an invalid key."""
    is_placed = 0 < key.mr_iid < 10**19 and not key.branch
    if key.mr_iid == 0:
        is_placed = _BRANCH.fullmatch(key.branch) is not None
    if not _ID.fullmatch(key.session_id) or not 0 < key.project_id < 10**19 or not is_placed:
        raise StoreError(f"not a session's key: {str(key)[:200]!r}")
    return f"{ROOT}{key.project_id}/{key.place}/{key.session_id}/"


def make_sessions_prefix(project_id: int, mr_iid: int, branch: str = "") -> str:
    """Make the prefix of all sessions of a merge request, of a branch (`record.name_branch`), of a
    project, or of the store."""
    if not project_id:
        return ROOT
    place = branch or (str(mr_iid) if mr_iid else "")
    return f"{ROOT}{project_id}/{place}/" if place else f"{ROOT}{project_id}/"


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
    key = SessionKey(int(match[1]), int(match[2] or 0), match[4], match[3] or "")
    return ObjectName(key, int(match[5]), match[6])


def make_index_name(start: str) -> str | None:
    """Make the name of an index entry, or the prefix of several; None for an invalid id."""
    return f"{INDEX}{start}" if _START.fullmatch(start) else None


def encode_pointer(key: SessionKey) -> bytes:
    """Encode the content of a session's index entry."""
    return f"{key.project_id}/{key.place}".encode()


def decode_pointer(session_id: str, content: bytes) -> SessionKey | None:
    """Decode the key from an index entry's content; None if it is damaged."""
    match = _POINTER.fullmatch(content.decode("latin-1"))
    if not match:
        return None
    return SessionKey(int(match[1]), int(match[2] or 0), session_id, match[3] or "")


# -------------------------------------------------------------------------- beside the sessions
END = 10**13
"""Milliseconds, far in the future, from which the times of rows count back: newest first."""

_ROW = re.compile(
    rf"recent/\d{{6}}/(\d{{13}}-{_NUMBER}-{_PLACE}-[0-9a-f]{{4,64}}-\d{{4}})\.json", re.ASCII
)
_DAY = re.compile(r"(?:spend/\d{1,19}|verdicts)/(\d{4}-\d\d-\d\d)\.json")
_KNOWN = re.compile(r"known/([1-9]\d{0,18})/([0-9a-f]{8,64}\.json|knowledge\.md|words\.index)")


@dataclass(frozen=True, slots=True)
class RowName:
    """What a row's name says: its cursor in the list, when its turn began (epoch seconds), and its
    merge request, or the name of its branch."""

    cursor: str
    began_at: float
    project_id: int
    mr_iid: int
    branch: str = ""


def parse_row(name: str) -> RowName | None:
    """Return the row that a name describes, None for the name of another object."""
    match = _ROW.fullmatch(name)
    if not match:
        return None
    began_at = (END - 1 - int(match[1][:13])) / 1000
    return RowName(match[1], began_at, int(match[2]), int(match[3] or 0), match[4] or "")


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


# ------------------------------------------------------------------------------ watched branches
_INCIDENTS = re.compile(
    rf"incidents/{_NUMBER}/(branch-[A-Za-z0-9._-]{{1,60}})(?:/{_NUMBER})?\.json", re.ASCII
)


@dataclass(frozen=True, slots=True)
class IncidentName:
    """The parts of the name of a branch's record, or of that of a merge request into it."""

    project_id: int
    branch: str
    """As `record.name_branch` has it."""
    mr_iid: int
    """0 for the branch's own."""


def name_branch_record(project_id: int, branch: str, mr_iid: int = 0) -> str:
    """Name the record of a watched branch, or that of a merge request into it. Raises StoreError
    for what is no project and no merge request."""
    if not 0 < project_id < 10**19 or not 0 <= mr_iid < 10**19:
        raise StoreError(f"not a watched branch of a project: {project_id} {mr_iid}")
    place = f"{INCIDENTS}{project_id}/{name_branch(branch)}"
    return f"{place}/{mr_iid}.json" if mr_iid else f"{place}.json"


def parse_branch_record(name: str) -> IncidentName | None:
    """Parse the name of a branch's or a merge request's record; None for that of another object."""
    match = _INCIDENTS.fullmatch(name)
    return IncidentName(int(match[1]), match[2], int(match[3] or 0)) if match else None


# -------------------------------------------------------------------------------------- tests
_TESTS = re.compile(rf"tests/{_NUMBER}/(\d{{4}}-\d\d-\d\d)\.json", re.ASCII)


def name_tests(project_id: int, day: str) -> str:
    """Name the record of a project's tests on a day, YYYY-MM-DD. Raises StoreError for what is no
    project or no day."""
    name = f"{TESTS}{project_id}/{day}.json"
    if not _TESTS.fullmatch(name):
        raise StoreError(f"not a project's day: {project_id} {day[:40]!r}")
    return name


def parse_tests(name: str) -> tuple[int, str] | None:
    """Return the project and the day whose tests are stored there; None for another object."""
    match = _TESTS.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


# ----------------------------------------------------------------------------- jobs run again
_RETRIES = re.compile(rf"retries/{_NUMBER}\.json", re.ASCII)


def name_retries(project_id: int) -> str:
    """Name the record of what was run again in a project. Raises StoreError for no project."""
    if not 0 < project_id < 10**19:
        raise StoreError(f"not a project: {project_id}")
    return f"{RETRIES}{project_id}.json"


def parse_retries(name: str) -> int:
    """Return the project of such a record; 0 for the name of another object."""
    match = _RETRIES.fullmatch(name)
    return int(match[1]) if match else 0
