"""Makes object names from session keys and parses them (pure). The layout of the store:

sessions/{project_id}/{mr_iid}/{session_id}/{turn:04d}/context.json
                                                      /sandbox.tar.gz
                                                      /evidence.json
                                                      /checkpoint.json
                                                      /claim.json
                                                      /stop.json
                                                      /after.json   written after the commit
                                                      /feedback.json
index/{session_id}      "{project_id}/{mr_iid}": where a session is, by its id

worker/README.md lists what else is in the store.
"""

import re
from dataclasses import dataclass

from worker.conversation.context import SessionKey
from worker.errors import StoreError

CONTEXT = "context.json"
FILES = "sandbox.tar.gz"
EVIDENCE = "evidence.json"
CHECKPOINT = "checkpoint.json"
CLAIM = "claim.json"
STOP = "stop.json"
AFTER = "after.json"
FEEDBACK = "feedback.json"

ROOT = "sessions/"
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
    return f"index/{start}" if _START.fullmatch(start) else None


def encode_pointer(key: SessionKey) -> bytes:
    """Encode the content of a session's index entry."""
    return f"{key.project_id}/{key.mr_iid}".encode()


def decode_pointer(session_id: str, content: bytes) -> SessionKey | None:
    """Decode the key from an index entry's content; None if it is damaged."""
    match = _POINTER.fullmatch(content)
    return SessionKey(int(match[1]), int(match[2]), session_id) if match else None
