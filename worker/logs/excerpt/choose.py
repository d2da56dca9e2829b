"""Which of the weighed lines are shown: the most weight that fits in the budget."""

import heapq
import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import islice

from worker.logs.excerpt.lines import Line
from worker.logs.excerpt.scan import CUT
from worker.logs.excerpt.weigh import SHORT, TELLS, compute_worths, find_faint, says_it_goes_well
from worker.logs.line_kinds import GAP
from worker.logs.line_marks import sum_marks
from worker.logs.preview import clip_bytes

SHOWN = 190
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
_ENOUGH, _ALIKE = 5, 0.75  # chosen lines of one `_kind`; factor for each line beyond them
_MOST_ALIKE = 12  # the most lines of one `_kind` that are chosen
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
        self._script = script
        self._shown = _shorten_lines(lines)
        self._weights = weights
        self._total = total
        self._limit = limit - len(GAP.encode()) - 1
        self._worth = compute_worths(lines, weights)
        self._faint = find_faint(lines, weights, self._worth)
        self._index = {line.source.index: j for j, line in enumerate(lines)}
        self._written: dict[int, str] = {}
        self._makes: Counter[str] = Counter()
        self._kinds: dict[int, str] = {}
        self._alike: Counter[str] = Counter()
        self._texts: set[str] = set()
        self._size = 0
        self._carets = 0
        self._heap: list[tuple[float, int]] = []
        self._is_explained = any(map(self._is_sure, range(len(lines))))

    def write_text(self, end_lines: Sequence[int] = ()) -> str:
        """Choose lines and return them as `NUMBER: text`, gaps marked.

        The lines with the indexes `end_lines` are always shown if they fit.
        """
        self._heap = [(-self._rate(j), j) for j in range(len(self._lines)) if self._tells(j)]
        heapq.heapify(self._heap)
        self._take_certain(end_lines)
        while self._heap and self._limit - self._size > 20:
            known, j = heapq.heappop(self._heap)
            if self._lines[j].source.index in self._written:
                continue
            if self._alike[self._kind(j)] >= _MOST_ALIKE:
                continue
            value = self._rate(j)
            if value < -known:
                heapq.heappush(self._heap, (-value, j))
            else:
                self._take_line(j)
        for j in _find_table_rows(self._lines, self._written):
            self._take_line(j)
        self._fill_room()
        return "\n".join(self._show_lines())

    def _fill_room(self) -> None:
        """If no line is surely of the failure, take all of the script's that fit, the heaviest
        first, but none about work that goes well: the cause may be told in words that nobody
        foresaw."""
        if self._is_explained:
            return
        said = (j for j, line in enumerate(self._lines) if line.source.index in self._script)
        for j in sorted(said, key=self._weights.__getitem__, reverse=True):
            if not says_it_goes_well(self._lines[j]) and self._alike[self._kind(j)] < _MOST_ALIKE:
                self._take_line(j)

    def _is_sure(self, j: int) -> bool:
        marks = self._lines[j].marks
        sure = _SURER if marks.isdisjoint(TELLS) else _SURE
        return "ended" not in marks and self._weights[j] >= sure

    def _take_certain(self, end_lines: Sequence[int]) -> None:
        """Take the lines that are always shown if they fit: the heaviest ones, the last count of
        failed tests, the exception that is raised most often, the first error of a compiler, the
        first failed assertion with its line of code, and how the job ended."""
        marks = [line.marks for line in self._lines]
        tallies = [j for j, names in enumerate(marks) if "tally" in names]
        raised = [j for j, names in enumerate(marks) if names >= _RAISES and self._worth[j]]
        again = [j for j in raised if self._lines[j].source.count >= _OFTEN]
        often = max(
            again, key=lambda j: (self._lines[j].source.count, self._worth[j]), default=None
        )
        compiled, asserted = (self._first(marks, wanted) for wanted in (_COMPILED, _ASSERTED))
        asserted = self._first(marks, _JUDGED) if asserted is None else asserted
        said_by = asserted - 1 if asserted and "pointed" in marks[asserted - 1] else None
        ended = [self._index[at] for at in end_lines if at in self._index]
        heaviest = [*self._list_heaviest(), *([] if self._is_explained else self._list_troubles())]
        for j in (*heaviest, *tallies[-1:], often, compiled, said_by, asserted, *ended):
            if j is not None:
                self._take_line(j)

    def _list_heaviest(self) -> list[int]:
        """Return the heaviest lines, which shorter ones would precede if ranked by value."""
        shown = filter(self._tells, range(len(self._lines)))
        ranked = sorted(shown, key=self._weights.__getitem__, reverse=True)
        copies: dict[str, int] = {}
        for j in ranked:
            copies.setdefault(self._lines[j].text, j)
        return list(islice(copies.values(), _HEAVIEST))

    def _list_troubles(self) -> list[int]:
        """Return the script's lines with words of trouble that weigh most by themselves: where no
        line is surely of the failure, its place in the log says little."""
        told = (
            j
            for j, line in enumerate(self._lines)
            if line.source.index in self._script
            and not line.marks.isdisjoint(TELLS)
            and self._tells(j)
        )
        return sorted(told, key=lambda j: -sum_marks(self._lines[j].marks)[0])[:_TROUBLES]

    def _first(self, marks: Sequence[frozenset[str]], wanted: frozenset[str]) -> int | None:
        """Return the first line with the `wanted` marks that is not from a configuration check."""
        fitting = (j for j, names in enumerate(marks) if names >= wanted and "probe" not in names)
        return next((j for j in fitting if self._worth[j]), None)

    def _rate(self, j: int) -> float:
        line = self._lines[j]
        alike = max(0, self._alike[self._kind(j)] - _ENOUGH) if self._alike else 0
        worth: float = self._worth[j] * _REPEAT ** self._makes[line.make] * _ALIKE**alike
        length = min(len(self._shown[j]), SHOWN) + len(str(line.source.index)) + _BASE
        value: float = worth * self._compute_company(line.source.index) / length**_COST
        return value

    def _tells(self, j: int) -> bool:
        """Whether the line may be chosen by itself if there is room. Where no line is surely of the
        failure, the runner's own work before and after the script does not take the room."""
        line = self._lines[j]
        said = (
            self._is_explained
            or line.source.index in self._script
            or not line.marks.isdisjoint(TELLS)
        )
        return said and self._worth[j] > 0 and not self._faint[j]

    def _compute_company(self, at: int) -> float:
        """Return the factor for chosen lines around a line, so that a block is kept together."""
        beside = sum(at + step in self._written for step in (-1, 1))
        below, above = (
            any(at + step * reach in self._written for reach in range(1, _REACH + 1))
            for step in (-1, 1)
        )
        return 1 + _TOGETHER * beside + _BETWEEN * (below and above)

    def _kind(self, j: int) -> str:
        if j not in self._kinds:
            self._kinds[j] = _kind(self._lines[j].text)
        return self._kinds[j]

    def _take_line(self, j: int) -> None:
        line = self._lines[j]
        at = line.source.index
        if at in self._written or (line.text in self._texts and len(line.text) > SHORT):
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
        if kind := self._kind(j):
            self._alike[kind] += 1
        self._texts.add(line.text)
        for step in range(-_REACH, _REACH + 1):
            near = self._index.get(at + step)
            if near is not None and self._tells(near) and at + step not in self._written:
                heapq.heappush(self._heap, (-self._rate(near), near))
        self._fill_holes(at)

    def _fill_holes(self, at: int) -> None:
        """Take a line left out between two chosen ones: a gap mark says less and costs as much."""
        for step in (-1, 1):
            hole = self._index.get(at + step)
            alone = at + 2 * step in self._written and at + step not in self._written
            if alone and hole is not None and self._worth[hole]:
                self._take_line(hole)

    def _show_lines(self) -> list[str]:
        shown: list[str] = []
        previous = -1
        for at in sorted(self._written):
            if at != previous + 1:
                shown.append(GAP)
            shown.append(self._written[at])
            previous = at
        if previous + 1 < self._total:
            shown.append(GAP)
        return shown


def clip_text(text: str) -> str:
    """Cut `text` to at most `SHOWN` bytes; `CUT` stands for what is left out.

    The end is kept if words after a colon stand there: they are often the reason, as in
    `PATH: errSecInternalComponent`.
    """
    if len(text.encode("utf-8", "replace")) <= SHOWN:
        return text
    end = text[-_END:].rpartition(": ")[2].strip()
    if not end[:1].isalpha() or len(end) > _END - 2 or text.startswith(CUT):
        return clip_bytes(text, SHOWN, f" {CUT}")
    return clip_bytes(text, SHOWN, f" {CUT} {end}")


def _kind(text: str) -> str:
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
        shown = shown or line.source.index in written
        if shown and numbers:
            yield from (row for row in (head, total) if row is not None)
