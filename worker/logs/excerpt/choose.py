"""Which of the weighed lines are shown: the most weight that fits in the budget."""

import heapq
import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import islice

from worker.logs.excerpt.quiet_lines import CUT
from worker.logs.excerpt.scan import Line
from worker.logs.line_kinds import GAP
from worker.logs.line_marks import sum_marks
from worker.logs.preview import clip_bytes

_SHOWN = 190
"""The most bytes shown of one line."""

_END = 50  # characters of a longer line's end that are shown at most

_MANY = " " * 12
_DEEP, _KEPT = 16, 4  # of the indentation that is deeper than _DEEP, one in _KEPT blanks is kept
_BLANKS = re.compile(r"(?<=\S) {12,}(?=\S)")
_POINTER = re.compile(r"(?:E )?[\s|?]*+(?:[\^~]|[-+][-+^~\s]*+$)")
"""A line that points at a part of the line above it."""

_CARETS = re.compile(r"[|\s]*+[\^~][\s^~]*+$")
_MOST_CARETS = 3
"""Only so many lines that point at a part of the line above, and say nothing else, are shown."""

_REPEAT = 0.958  # a line's worth is multiplied by this for each chosen line of the same make
_ENOUGH, _ALIKE = 5, 0.75  # chosen lines of one kind; factor for each line beyond them
_MOST_ALIKE = 12  # the most lines of one kind that are chosen
_TOGETHER = 0.275  # gain for each chosen line next to this one: no gap mark, and it reads better
_BETWEEN, _REACH = 5.0, 7  # gain with chosen lines both above and below, at most this far away
_BASE, _COST = 40, 0.71  # how much a line's length counts against it
_SURE, _SURER = 0.0, 0.5  # a line that weighs more is of the failure: one of trouble, any other
_HEAVIEST = 2  # how many of the heaviest lines are always shown
_TROUBLES = 3  # how many lines of trouble are always shown if none is surely of the failure

_NAMES = re.compile(
    r"""^[SFEI]*\.[SFEI.]*|\S*(?:::|/)\S*|\d+"""
    r"""|'[^']{0,80}'|"[^"]{0,80}"|`[^`]{0,80}`|[‘][^’]{0,80}’|- .{1,80}$"""
)
_OFTEN = 3
_RAISES = frozenset(("named", "colon_error"))
_COMPILED = frozenset(("place_head", "colon_error", "opens"))
_JUDGED, _ASSERTED = frozenset(("judged",)), frozenset(("judged", "named"))


class Choice:
    """Chooses the lines that are shown, and keeps account of the bytes that they take."""

    def __init__(
        self, lines: list[Line], weights: list[float], total: int, limit: int, script: range
    ) -> None:
        """The log has `total` lines; `script` are the indexes of those that the script wrote."""
        self._lines = lines
        self._weights = weights
        self._total = total
        self._limit = limit - len(GAP.encode()) - 1
        self._script = script
        self._shown = _shorten_lines(lines)
        self._kinds = [_make_kind(line.text) for line in lines]
        self._worth = compute_worths(lines, weights)
        self._is_explained = any(
            weight >= (_SURER if line.marks.isdisjoint(_TELLS) else _SURE)
            for line, weight in zip(lines, weights, strict=True)
            if "ended" not in line.marks
        )
        self._tells = self._find_telling()
        self._index = {line.index: j for j, line in enumerate(lines)}
        self._written: dict[int, str] = {}
        self._makes: Counter[str] = Counter()
        self._alike: Counter[str] = Counter()
        self._texts: set[str] = set()
        self._size = 0
        self._carets = 0
        self._heap: list[tuple[float, int]] = []

    def write_text(self, end_lines: Sequence[int] = ()) -> str:
        """Choose lines and return them as `NUMBER: text`, gaps marked.

        The lines with the indexes `end_lines` are always shown if they fit.
        """
        self._heap = [(-self._rate(j), j) for j, tells in enumerate(self._tells) if tells]
        heapq.heapify(self._heap)
        self._take_certain(end_lines)
        while self._heap and self._limit - self._size > 20:
            known, j = heapq.heappop(self._heap)
            if self._lines[j].index in self._written or self._has_enough(j):
                continue
            value = self._rate(j)
            if value < -known:
                heapq.heappush(self._heap, (-value, j))
            else:
                self._take_line(j)
        for j in _find_table_rows(self._lines, self._written):
            self._take_line(j)
        if not self._is_explained:
            self._fill_room()
        return "\n".join(self._show_lines())

    def _find_telling(self) -> list[bool]:
        """Return whether each line may be chosen by itself if there is room.

        A line that says too little is shown only between two others, or if it says how the job
        ended; so is a line of a drawn frame without words. Where no line is surely of the failure,
        the runner's own work before and after the script does not take the room.
        """
        rated = list(zip(self._lines, self._weights, self._worth, strict=True))
        heaviest = max((weight for _, weight, worth in rated if worth), default=0.0)
        faint = min(_FAINT, heaviest - _FAINTER)
        return [
            worth > 0
            and weight >= faint
            and (self._is_explained or self._is_said(line) or not line.marks.isdisjoint(_TELLS))
            and not _FRAME.fullmatch(line.text)
            for line, weight, worth in rated
        ]

    def _is_said(self, line: Line) -> bool:
        """Whether the script has written the line."""
        return line.index in self._script

    def _has_enough(self, j: int) -> bool:
        """Whether no more lines are chosen that are alike."""
        return self._alike[self._kinds[j]] >= _MOST_ALIKE

    def _fill_room(self) -> None:
        """Take all of the script's lines that fit, the heaviest first, but none about work that
        goes well: the cause may be told in words that nobody foresaw."""
        said = (j for j, line in enumerate(self._lines) if self._is_said(line))
        for j in sorted(said, key=self._weights.__getitem__, reverse=True):
            marks = self._lines[j].marks
            idle = not marks.isdisjoint(_PROGRESS) and marks.isdisjoint(_TELLS | _ADVISES)
            if "well" not in marks and not idle and not self._has_enough(j):
                self._take_line(j)

    def _take_certain(self, end_lines: Sequence[int]) -> None:
        """Take the lines that are always shown if they fit: the heaviest ones, the last count of
        failed tests, the exception that is raised most often, the first error of a compiler, the
        first failed assertion with its line of code, and how the job ended."""
        lines = self._lines
        tallies = [j for j, line in enumerate(lines) if "tally" in line.marks]
        often = max(
            (j for j in self._list_marked(_RAISES) if lines[j].count >= _OFTEN),
            key=lambda j: (lines[j].count, self._worth[j]),
            default=None,
        )
        compiled, asserted, judged = (
            next((j for j in self._list_marked(marks) if "probe" not in lines[j].marks), None)
            for marks in (_COMPILED, _ASSERTED, _JUDGED)
        )
        asserted = judged if asserted is None else asserted
        said_by = asserted - 1 if asserted and "pointed" in lines[asserted - 1].marks else None
        ended = [self._index.get(at) for at in end_lines]
        certain = (*self._list_heaviest(), *tallies[-1:], often, compiled, said_by, asserted)
        for j in (*certain, *ended):
            if j is not None:
                self._take_line(j)

    def _list_marked(self, marks: frozenset[str]) -> Iterator[int]:
        return (j for j, line in enumerate(self._lines) if line.marks >= marks and self._worth[j])

    def _list_heaviest(self) -> list[int]:
        """Return the heaviest lines, which shorter ones would precede if ranked by value; if no
        line is surely of the failure, also the script's lines with words of trouble that weigh most
        by themselves: there, a line's place in the log says little."""
        telling = [j for j, tells in enumerate(self._tells) if tells]
        copies: dict[str, int] = {}
        for j in sorted(telling, key=self._weights.__getitem__, reverse=True):
            copies.setdefault(self._lines[j].text, j)
        heaviest = list(islice(copies.values(), _HEAVIEST))
        if self._is_explained:
            return heaviest
        marks = {j: self._lines[j].marks for j in telling if self._is_said(self._lines[j])}
        told = [j for j in marks if not marks[j].isdisjoint(_TELLS)]
        return heaviest + sorted(told, key=lambda j: -sum_marks(marks[j])[0])[:_TROUBLES]

    def _rate(self, j: int) -> float:
        """Return a line's worth for the bytes that it takes: more beside and between chosen lines,
        so that a block is kept together, and less after others that are alike."""
        line, written = self._lines[j], self._written
        at = line.index
        alike = max(0, self._alike[self._kinds[j]] - _ENOUGH)
        worth: float = self._worth[j] * _REPEAT ** self._makes[line.make] * _ALIKE**alike
        beside = (at - 1 in written) + (at + 1 in written)
        between = any(at - reach in written for reach in range(1, _REACH + 1)) and any(
            at + reach in written for reach in range(1, _REACH + 1)
        )
        length = min(len(self._shown[j]), _SHOWN) + len(str(at)) + _BASE
        value: float = worth * (1 + _TOGETHER * beside + _BETWEEN * between) / length**_COST
        return value

    def _take_line(self, j: int) -> None:
        line, at = self._lines[j], self._lines[j].index
        if at in self._written or (line.text in self._texts and len(line.text) > _SHORT):
            return
        is_caret = _CARETS.match(line.text) is not None
        if is_caret and (self._carets >= _MOST_CARETS or at - 1 not in self._written):
            return
        written = f"{at + 1}: {clip_text(self._shown[j])}"
        beside = at - 1 in self._written or at + 1 in self._written
        cost = len(written.encode()) + 1 + (0 if beside else len(GAP.encode()) + 1)
        if self._size + cost > self._limit:
            return
        self._size += cost
        self._carets += is_caret
        self._written[at] = written
        self._makes[line.make] += 1
        if kind := self._kinds[j]:
            self._alike[kind] += 1
        self._texts.add(line.text)
        for place in range(at - _REACH, at + _REACH + 1):
            near = self._index.get(place)
            if near is not None and self._tells[near] and place not in self._written:
                heapq.heappush(self._heap, (-self._rate(near), near))
        for step in (-1, 1):  # one line left out: a gap mark says less and costs as much
            hole = self._index.get(at + step)
            alone = at + 2 * step in self._written and at + step not in self._written
            if alone and hole is not None and self._worth[hole]:
                self._take_line(hole)

    def _show_lines(self) -> Iterator[str]:
        previous = -1
        for at in sorted(self._written):
            if at != previous + 1:
                yield GAP
            yield self._written[at]
            previous = at
        if previous + 1 < self._total:
            yield GAP


def clip_text(text: str) -> str:
    """Cut `text` to at most 190 bytes; `CUT` stands for what is left out.

    The end is kept if words after a colon stand there: they are often the reason, as in
    `PATH: errSecInternalComponent`.
    """
    if len(text.encode("utf-8", "replace")) <= _SHOWN:
        return text
    end = text[-_END:].rpartition(": ")[2].strip()
    if not end[:1].isalpha() or len(end) > _END - 2 or text.startswith(CUT):
        return clip_bytes(text, _SHOWN, f" {CUT}")
    return clip_bytes(text, _SHOWN, f" {CUT} {end}")


def _make_kind(text: str) -> str:
    """Return a text that is the same for lines that differ only in numbers, paths, test names,
    quoted names and the progress before them; "" for a line with few letters."""
    kind = _NAMES.sub("", text[:200])
    return kind if sum(map(str.isalpha, kind)) > 3 else ""


def _shorten_lines(lines: list[Line]) -> list[str]:
    """Return the texts of the lines, with long runs of blanks shortened and none at the end: blanks
    cost as much as letters do, and say less.

    What is indented deeper stays so. A line that points at a part of the one above it, and the one
    above, keep their columns.
    """
    return [
        line.text.rstrip()
        if _MANY not in line.text or _POINTER.match(line.text) or _POINTER.match(below.text)
        else _shorten_blanks(line.text.rstrip())
        for line, below in zip(lines, [*lines[1:], *lines[-1:]], strict=True)
    ]


def _shorten_blanks(text: str) -> str:
    bare = text.lstrip(" ")
    depth = len(text) - len(bare)
    depth -= max(0, depth - _DEEP) * (_KEPT - 1) // _KEPT
    return " " * depth + _BLANKS.sub("  ", bare)


# -------------------------------------------------------------------------- what is worth showing

_SHORT = 11
"""A text that is at most this long says too little to be a copy of another."""

_LEAST = -5.5  # the least weight of a line that is shown
_FAINT, _FAINTER = -4.0, 4.0  # a faint line weighs less, and is so much below the heaviest line
_IDLE = 2.6  # how much less than the heaviest line a line about work going well may weigh

_FRAME = re.compile("[ \\t\u2500-\u257f]*")  # box drawing

_GOES_WELL = frozenset(("calm", "level", "progress", "closes", "fold"))
_PROGRESS = frozenset(("level", "progress", "fold"))
_ADVISES = frozenset(("advice", "claim", "negation"))
_TELLS = frozenset(
    (
        *("fault", "trouble", "shouted", "named", "crossed", "colon_error", "opens"),
        *("summary", "numbered", "judged", "diff", "expected"),
    )
)
"""The marks of lines that have words or a form of trouble."""


def compute_worths(lines: list[Line], weights: list[float]) -> list[float]:
    """Return how likely each line is to explain the failure, 0 for lines that are not shown.

    Copies of a line are worth the same, so that one failure is shown whole instead of parts of
    several. An exception is worth no less than the stack trace below it.
    """
    both = list(zip(lines, weights, strict=True))
    best = max((weight for line, weight in both if "well" not in line.marks), default=None)
    worths = []
    for line, weight in both:
        idle = not line.marks.isdisjoint(_GOES_WELL) and line.marks.isdisjoint(_TELLS)
        least = _LEAST if best is None or not idle else max(_LEAST, best - _IDLE)
        is_shown = best is None or (weight >= least and "well" not in line.marks)
        likely = 1 / (1 + math.exp(-max(-30.0, min(30.0, weight))))
        worths.append(likely if is_shown else 0.0)
    copies: dict[str, float] = {}
    for line, worth in zip(lines, worths, strict=True):
        copies[line.text] = max(worth, copies.get(line.text, 0.0))
    for j, line in enumerate(lines):
        if worths[j] and len(line.text) > _SHORT:
            worths[j] = copies[line.text]
    for head, frames in _find_traces(lines):
        if worths[head]:
            worths[head] = max(worths[head], *(worths[j] for j in frames))
    return worths


def _find_traces(lines: list[Line]) -> Iterator[tuple[int, range]]:
    """Yield the positions of the line above each stack trace, and of the trace's lines."""
    start = 0
    for j in range(1, len(lines) + 1):
        follows = j < len(lines) and lines[j].index == lines[j - 1].index + 1
        if follows and "frame" in lines[j].marks:
            continue
        if j - start > 1 and "frame" not in lines[start].marks and lines[start].text.strip():
            yield start, range(start + 1, j)
        start = j


# ------------------------------------------------------------------ what the rows of a table mean

_CELLS = re.compile(r" {0,40}\| {0,40}| {2,40}")
_TOTAL_ROW = re.compile(r"\W{0,3}(?:all(?: files)?|totals?|sum|overall)\b", re.IGNORECASE)
_TABLE_RULE = re.compile(r"[-=+| ]{9,200}$")
_LEAST_CELLS = 3
"""A row has at least this many cells."""


def _find_table_rows(lines: Sequence[Line], written: Container[int]) -> Iterator[int]:
    """Yield the positions of the head and the total row of each table of which a row is written.

    `written` are indexes of lines. The rows of a table have one number of cells, of which the last
    may be empty, and are mostly numbers; the head has none.
    """
    head, total, width, shown = None, None, 0, False
    for j, line in enumerate(lines):
        may_be_row = "|" in line.text or "  " in line.text.strip()
        cells = _CELLS.split(line.text.strip(" |")) if may_be_row else []
        if len(cells) < _LEAST_CELLS or _TABLE_RULE.match(line.text):
            continue
        numbers = sum(any(map(str.isdigit, cell)) for cell in cells)
        if not numbers:
            head, total, width, shown = j, None, len(cells), False
        elif head is None or abs(len(cells) - width) > 1:
            continue
        elif _TOTAL_ROW.match(cells[0]):
            total = j
        shown = shown or line.index in written
        if shown and numbers:
            yield from (row for row in (head, total) if row is not None)
