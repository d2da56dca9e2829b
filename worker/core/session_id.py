"""The name of a session, and the hidden marker by which a note names it."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

MARKER = re.compile(
    r"<!-- sandpiper:session=([0-9a-f]{20}) (turn|suggestion|command)=(\d{1,6}) -->"
)


class Kind(StrEnum):
    """What a note of ours is; its value stands in the marker."""

    TURN = "turn"
    SUGGESTION = "suggestion"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which session a note belongs to, and which of the session's notes it is.

    `number` is that of the turn or of the suggestion on the diff, from 1. The plain answer to a
    command has an id of its own for a session, and no number. Believed only on a note of the bot's
    own user.
    """

    session_id: str
    number: int = 0
    kind: Kind = Kind.TURN

    @property
    def turn(self) -> int | None:
        """The number of the turn that the note reports; None if it reports none."""
        return self.number if self.kind is Kind.TURN else None

    def text(self) -> str:
        """The marker as it stands in a note's body."""
        return f"<!-- sandpiper:session={self.session_id} {self.kind}={self.number} -->"


_OLD_NUMBERS: Mapping[int, tuple[int, Kind]] = MappingProxyType(
    {
        999_001: (1, Kind.SUGGESTION),
        999_002: (2, Kind.SUGGESTION),
        999_003: (3, Kind.SUGGESTION),
        999_999: (0, Kind.COMMAND),
    }
)
"""What the numbers of turns that never were stand for in notes of older versions."""


def find_marker(body: str) -> Marker | None:
    """The marker at the very start of a note's body, where only we put one."""
    found = MARKER.match(body)
    if not found:
        return None
    number, kind = int(found[3]), Kind(found[2])
    if kind is Kind.TURN:
        number, kind = _OLD_NUMBERS.get(number, (number, kind))
    return Marker(found[1], number, kind)


def make_session_id(
    gitlab_url: str, project_id: int, mr_iid: int, pipeline_id: int, workflow: str, salt: str = ""
) -> str:
    """The same for every delivery of one pipeline's failure of one workflow.

    `salt` sets a dry run's session apart, so that it never stands in for a posted one.
    """
    parts = [gitlab_url.rstrip("/"), str(project_id), str(mr_iid), str(pipeline_id), workflow, salt]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]
