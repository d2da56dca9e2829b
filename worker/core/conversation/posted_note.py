"""What a note says, beside what the model wrote for it: cuts, parts left out, parts added. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from worker.core.finding import suggestions
from worker.core.finding.sections import split_sections
from worker.core.session_id import find_marker
from worker.core.text.untrusted import one_line

MOST_LINES = 16
"""Lines of each kind that are told."""

MAX_LINE = 300
MAX_READ = 100_000
"""Characters of a note and of an answer that are compared."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a note differs from the answer it was made of; empty where it does not.

    `visible_lines` are what its reader sees at once, where those are not the answer's own.
    `missing_lines` are lines of the answer that stand nowhere in it, suggestions apart;
    `added_lines` are folded lines that are not the answer's.
    """

    visible_lines: tuple[str, ...] = ()
    missing_lines: tuple[str, ...] = ()
    added_lines: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.visible_lines or self.missing_lines or self.added_lines)


def compare_note(note: str, answer: str) -> Difference:
    """How a posted `note` differs from the `answer`. The answer's verdict is not looked for."""
    visible, folded = _split_note(note[:MAX_READ])
    answer = answer[:MAX_READ]
    own = {_letters(line) for line in answer.split("\n")}
    # The verdict stands in the headline in other words, and changes may stand on the diff.
    parts = split_sections(suggestions.read_suggestions(answer)[0])
    wrote = [line for name in parts if name != "verdict" for line in parts[name].split("\n")]
    said = _letters("\n".join([*visible, *folded]))
    return Difference(
        visible_lines=_told(visible) if any(_letters(line) not in own for line in visible) else (),
        missing_lines=_told(line for line in wrote if _letters(line) not in said),
        added_lines=_told(line for line in folded if _letters(line) not in own),
    )


_OURS = ("<details>", "</details>", "<summary>", "<sub>")


def _split_note(note: str) -> tuple[list[str], list[str]]:
    """The lines of a note that are seen at once, and those that are folded; no small print."""
    marker = find_marker(note)
    visible: list[str] = []
    folded: list[str] = []
    depth = 0
    for line in note.removeprefix(marker.text() if marker else "").split("\n"):
        depth += line.count("<details>") - line.count("</details>")
        if _letters(line) and not line.startswith(_OURS):
            (folded if depth > 0 else visible).append(line)
    return visible, folded


_TARGET = re.compile(r"\]\([^()\s]*\)")


def _told(lines: Iterable[str]) -> tuple[str, ...]:
    told = [one_line(_TARGET.sub("]", line), MAX_LINE) for line in lines]
    told = [line for line in told if line]
    more = len(told) - MOST_LINES
    return tuple([*told[:MOST_LINES], *([f"(and {more} more lines)"] if more > 0 else [])])


def _letters(text: str) -> str:
    """What of a text survives the writing of a note: its letters and digits."""
    return re.sub(r"[\W_]+", "", _TARGET.sub("]", text)).lower()
