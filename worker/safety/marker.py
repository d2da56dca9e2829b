"""The hidden marker in a note, which names its session."""

import re
from dataclasses import dataclass
from enum import StrEnum

MARKER = re.compile(
    r"<!-- sandpiper:session=([0-9a-f]{20}) (turn|suggestion|command)=(\d{1,6}) -->"
)


class Kind(StrEnum):
    """The kind of a note of ours; its value is part of the marker."""

    TURN = "turn"
    SUGGESTION = "suggestion"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which session a note belongs to, and which of the session's notes it is.

    `number` is the turn's (from 0), or that of the suggestion on the diff (from 1). The plain
    answer to a command has a session id of its own and the number 0. A marker is trusted only in a
    note by the bot's own user.
    """

    session_id: str
    number: int = 0
    kind: Kind = Kind.TURN

    @property
    def turn(self) -> int | None:
        """The number of the turn that the note reports; None if it reports none."""
        return self.number if self.kind is Kind.TURN else None

    def text(self) -> str:
        """The marker as it is written in a note's body."""
        return f"<!-- sandpiper:session={self.session_id} {self.kind}={self.number} -->"


_OLD_NUMBERS = {
    999_001: (1, Kind.SUGGESTION),
    999_002: (2, Kind.SUGGESTION),
    999_003: (3, Kind.SUGGESTION),
    999_999: (0, Kind.COMMAND),
}
"""The meaning of turn numbers that notes of older versions use for other kinds of notes."""


def find_marker(body: str) -> Marker | None:
    """The marker at the very start of a note's body, where only we put one."""
    match = MARKER.match(body)
    if not match:
        return None
    number, kind = int(match[3]), Kind(match[2])
    if kind is Kind.TURN:
        number, kind = _OLD_NUMBERS.get(number, (number, kind))
    return Marker(match[1], number, kind)
