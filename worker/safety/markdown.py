"""What Sandpiper itself writes into Markdown: any text as code, with the languages that a block may
have, and the hidden marker in a note, which names its session."""

import re
from dataclasses import dataclass
from enum import StrEnum

from worker.safety.untrusted import visible

_LANGUAGE_NAMES = """
    text log bash sh shell console powershell python py ruby rb perl php lua r go rust rs c cpp
    cxx h cs csharp java kotlin scala groovy swift objc js javascript jsx ts typescript tsx json
    yaml yml toml ini xml html css scss sql diff patch dockerfile makefile make cmake hcl
    terraform nix haskell elixir erlang clojure ocaml dart zig asm
"""
_LANGUAGES = frozenset(_LANGUAGE_NAMES.split())
_MARKER = re.compile(r"<!(-+\s*sandpiper)", re.IGNORECASE)
_INCLUDE = re.compile(r"::include", re.IGNORECASE)


def write_code_line(text: str) -> str:
    """Return `text` as one code span on one line; "" for an empty text."""
    line = _break_markers(visible(text).replace("\n", " ")).strip()
    if not line:
        return ""
    fence = "`" * (_measure_longest_run(line) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def write_code_block(text: str, info: str = "", indent: int = 1) -> str:
    """Return `text` as a code block; an `info` that names no programming language becomes "text".

    The whole block is indented by `indent` columns (1 to 3), which Markdown removes again: so no
    line of it begins with "/", where older versions of GitLab look for a quick action.
    """
    lines = _break_markers(visible(text)).split("\n")
    fence = "`" * max(3, *(_measure_longest_run(line) + 1 for line in lines))
    language = info.strip().lower()
    opening = fence + (language if language in _LANGUAGES else "text")
    return "\n".join((" " * indent + line).rstrip() for line in (opening, *lines, fence))


def write_suggestion_block(text: str, above: int, below: int) -> str:
    """Return GitLab's suggestion block, which replaces the commented line, `above` lines before it
    and `below` lines after it with `text`.

    Return "" if `text` could not be shown unchanged: nobody should apply what they cannot read.
    """
    if _break_markers(visible(text)) != text or any(
        line != line.rstrip() for line in text.split("\n")
    ):
        return ""
    first, _, rest = write_code_block(text).partition("\n")
    return f"{first.removesuffix('text')}suggestion:-{above}+{below}\n{rest}"


def _break_markers(text: str) -> str:
    """Break up what a parser of the raw text would act on: our own marker, GitLab's include."""
    return _INCLUDE.sub(": :include", _MARKER.sub(r"<! \1", text))


def _measure_longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


# ------------------------------------------------------------------------------------- the marker

MARKER = re.compile(
    r"<!-- sandpiper:session=([0-9a-f]{20}) (turn|suggestion|command|incident)=(\d{1,6}) -->"
)


class Kind(StrEnum):
    """The kind of a note of ours, or of an issue; its value is part of the marker."""

    TURN = "turn"
    SUGGESTION = "suggestion"
    COMMAND = "command"
    INCIDENT = "incident"


@dataclass(frozen=True, slots=True)
class Marker:
    """Which session a note belongs to, and which of the session's notes it is.

    `number` is the turn's (from 0), or that of the suggestion on the diff (from 1). The plain
    answer to a command has a session id of its own and the number 0, and so has the issue of an
    incident. A marker is trusted only in a note or an issue by the bot's own user.
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
