"""Compares a note with the answer it was made from: cuts, parts left out, parts added. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from worker.core.finding import suggestions
from worker.core.finding.model import Evidence
from worker.core.finding.quotes import scan_quotes
from worker.core.finding.sections import FENCE, split_sections
from worker.core.session_id import find_marker
from worker.core.text.sentences import split_sentences
from worker.core.text.untrusted import one_line

MOST_LINES = 16
"""The most lines of each kind that are listed."""

MAX_LINE = 480
MAX_READ = 100_000
"""Characters of a note and of an answer that are compared."""

_COMPARED = 280
"""Characters of a line of a quote that are compared: a note cuts longer ones."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a note differs from the answer it was made from; empty if it does not.

    `visible_lines` are the lines that are not folded, if some of them are not from the answer.
    `missing_lines` are the answer's sentences, quotes and lines of code that are not in the note,
    except suggestions; `added_lines` are folded lines that are not from the answer.
    """

    visible_lines: tuple[str, ...] = ()
    missing_lines: tuple[str, ...] = ()
    added_lines: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.visible_lines or self.missing_lines or self.added_lines)


def compare_note(
    note: str, answer: str, write: Callable[[str], str] = lambda text: text
) -> Difference:
    """How a posted `note` differs from the redacted `answer`. The answer's verdict is not compared.

    `write` is the function that makes the answer's Markdown harmless: what it changes is no
    difference.
    """
    visible, folded = _split_note(note[:MAX_READ])
    answer = answer[:MAX_READ]
    # The headline gives the verdict in other words, and changes may be on the diff.
    parts = split_sections(suggestions.read_suggestions(answer)[0])
    wrote = [piece for name in parts if name != "verdict" for piece in _pieces(name, parts[name])]
    said = _letters("\n".join([*visible, *folded]))
    # Code is in the note as it was, and prose as it was written there.
    both = [*answer.split("\n"), *write(answer).split("\n")]
    lines = {_letters(line) for line in both}
    lines |= {_letters(line) for piece in wrote for line in piece.lines}
    every = _letters("\n".join(line for line in both if not FENCE.match(line)))
    return Difference(
        visible_lines=_limit_lines(visible)
        if any(not _is_among(lines, each) for each in visible)
        else (),
        missing_lines=_limit_lines(
            piece.text for piece in wrote if not piece.stands_in(said, write)
        ),
        added_lines=_limit_lines(_keep_added(folded, every)),
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence, a line of code, or a quote with its `lines`; `text` is how the model wrote it."""

    text: str
    lines: tuple[str, ...]

    def stands_in(self, said: str, write: Callable[[str], str]) -> bool:
        """Whether the letters of a note, `said`, contain all of it, as it is or as `write` writes
        it."""
        return all(
            _letters(line, _COMPARED) in said or _letters(write(line), _COMPARED) in said
            for line in self.lines
        )


def _pieces(section: str, text: str) -> Iterator[_Piece]:
    """The pieces of a section, in order."""
    coded = False
    for each in scan_quotes(text, replying=section != "evidence"):
        if isinstance(each, Evidence):
            lines = tuple(each.text.split("\n"))
            yield _Piece(f"- {each.where}: {' / '.join(lines)}", lines)
        elif FENCE.match(each.text):
            coded = not coded
        else:
            for line in [each.text] if coded else split_sentences(each.text):
                yield _Piece(line, (line,))


_OURS = ("<details>", "</details>", "<summary>", "<sub>")
_HEADING = re.compile(r"\*\*[^*]{1,80}\*\*")
_PLACE = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)]) .{1,400}?, lines? \d{1,9}(?:-\d{1,9})?\]?:")


def _split_note(note: str) -> tuple[list[str], list[str]]:
    """The visible lines of a note and the folded ones, without its small print."""
    marker = find_marker(note)
    visible: list[str] = []
    folded: list[str] = []
    depth = 0
    for line in note.removeprefix(marker.text() if marker else "").split("\n"):
        depth += line.count("<details>") - line.count("</details>")
        if _letters(line) and not line.startswith(_OURS) and not FENCE.match(line):
            (folded if depth > 0 else visible).append(line)
    return visible, folded


def _keep_added(folded: Iterable[str], answer: str) -> Iterator[str]:
    """The folded lines whose letters are not among the answer's, below their headings."""
    heading = ""
    for line in folded:
        if _HEADING.fullmatch(line):
            heading = line
        elif _letters(line) not in answer and _letters(_after_place(line)) not in answer:
            yield from filter(None, (heading, line))
            heading = ""


def _is_among(lines: set[str], line: str) -> bool:
    """Whether a line of a note is one of the answer's; the place of a quote may differ."""
    return _letters(line) in lines or _letters(_after_place(line)) in lines | {""}


def _after_place(line: str) -> str:
    """The text after the place in a quote's line; any other line whole."""
    line = _TARGET.sub("]", line)
    place = _PLACE.match(line)
    return line[place.end() :] if place else line


_TARGET = re.compile(r"\]\([^()\s]*\)")


def _limit_lines(lines: Iterable[str]) -> tuple[str, ...]:
    texts = [one_line(_TARGET.sub("]", line), MAX_LINE) for line in lines]
    texts = [line for line in texts if line]
    more = len(texts) - MOST_LINES
    return tuple([*texts[:MOST_LINES], *([f"(and {more} more lines)"] if more > 0 else [])])


def _letters(text: str, most: int | None = None) -> str:
    """The letters and digits of a text, of its first `most` characters, in lower case: what writing
    a note leaves unchanged. The targets of links are no part of it."""
    return re.sub(r"[\W_]+", "", _TARGET.sub("]", text)[:most]).lower()
