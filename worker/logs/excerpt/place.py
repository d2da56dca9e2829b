"""The values of a line's place: where it is in the log, and what is near it."""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from worker.logs.excerpt import marks
from worker.logs.excerpt.scan import KeptLine, ScanResult, cut_before_error
from worker.logs.excerpt.words import load_weights

_STAMP = re.compile(
    r"^(?:\[task \S+\] ?|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?\s?)"
    r"(?:\d\d:\d\d:\d\d\s+)?"
)
_COLOUR = re.compile(rb"\^\[\[[\d;]{0,20}[mK]")
"""A colour whose escape character a program wrote as two, as `cat -v` does."""

_NAME = re.compile(r"""(?<!\S)[^\s\d_./\\:@{}=\[\]()<>'"-]*+[\d_./\\:@{}=\[\]()<>'"-]\S*+""")
_MAY_END = frozenset({"ended", "make", "shouted", "fault"})

_COUNTS = bytes.maketrans(b"23456789", b"11111111")
"""Lines that differ only in digits are read alike, except for 0: it means that nothing failed."""

_CHANGED = ("+", "-")
"""What a changed line of a diff begins with."""

_NONE = -6.0  # weight of a line that does not exist
_FADE = 0.25  # how much a line's effect on its neighbours falls with each line
_GAP = 2  # at least this many lines left out separate the lines before from those after

NAMES = (
    *("previous", "next", "previous3", "next3", "faded_before", "faded_after"),
    *("parent", "opened", "in_block", "frames", "in_diff"),
    *("exit5", "exit25", "exit120", "no_exit"),
    *("later_commands", "last_command", "failing_command", "before_commands", "since_command"),
    *("end8", "end40", "end200", "progress"),
    *("count", "makes", "first", "last", "like_previous", "like_next"),
    *("hits_after", "hits_before", "after_gap"),
)
"""The names of the values of `compute_rows`, in order."""


@dataclass(slots=True)
class Line:
    """A kept line. `text` has no timestamp; `ends`: it says that a command failed.

    `make` is the same for lines that differ only in names and numbers; `words` is what the line's
    words add to its weight.
    """

    source: KeptLine
    text: str
    marks: frozenset[str]
    make: str
    ends: bool
    words: float = 0.0


def list_lines(scan: ScanResult) -> list[Line]:
    """Return the kept lines with their text, marks and make."""
    known: dict[bytes, tuple[frozenset[str], str, bool, float]] = {}
    word_weights = load_weights()
    sets: dict[frozenset[str], frozenset[str]] = {}
    lines = []
    for kept in scan.lines:
        data = _COLOUR.sub(b"", kept.data) if b"^[[" in kept.data else kept.data
        text = without_stamp(cut_before_error(data).decode("utf-8", "replace"))
        alike = kept.data.translate(_COUNTS)
        if alike not in known:
            seen = frozenset(marks.find_marks(text))
            ends = not seen.isdisjoint(_MAY_END) and marks.says_command_failed(text)
            weight = word_weights.weigh(text)
            known[alike] = sets.setdefault(seen, seen), _make_shape(text), ends, weight
        lines.append(Line(kept, text, *known[alike]))
    return lines


def without_stamp(text: str) -> str:
    """Return a line without the timestamp that some runners put at its beginning."""
    return _STAMP.sub("", text)


def compute_rows(
    scan: ScanResult, lines: list[Line], own: list[float]
) -> Iterator[tuple[float, ...]]:
    """Return for each line the values of `NAMES`; `own` is each line's weight by itself."""
    if not lines:
        return iter(())
    places = [line.source.index for line in lines]
    gaps = [True, *(after - before > _GAP for before, after in pairwise(places)), True]
    columns = (
        *_compute_neighbours(own, gaps),
        *_compute_blocks(lines, own, gaps),
        *_compute_exits(scan, lines),
        *_compute_commands(scan, lines),
        *_compute_ends(scan, places),
        *_compute_repeats(lines),
        [math.log1p(len(scan.hits) - bisect_right(scan.hits, at)) for at in places],
        [math.log1p(bisect_right(scan.hits, at)) for at in places],
        [float(gap) for gap in gaps[:-1]],
    )
    return zip(*columns, strict=True)


def _make_shape(text: str) -> str:
    return " ".join(_NAME.sub("#", text[:200]).split())


def _compute_neighbours(own: list[float], gaps: list[bool]) -> list[list[float]]:
    before = _compute_before(own, gaps[:-1])
    after = [column[::-1] for column in _compute_before(own[::-1], gaps[:0:-1])]
    return [before[0], after[0], before[1], after[1], before[2], after[2]]


def _compute_before(own: list[float], gaps: list[bool]) -> list[list[float]]:
    """Return the weight of the line before, the best of two before, and the best before, faded."""
    one, two, faded = [], [], []
    last = last_but_one = fading = _NONE
    for weight, gap in zip(own, gaps, strict=True):
        if gap:
            last = last_but_one = fading = _NONE
        one.append(last)
        two.append(max(last, last_but_one))
        faded.append(fading)
        last, last_but_one = weight, last
        fading = max(weight, fading) - _FADE
    return [one, two, faded]


def _compute_blocks(lines: list[Line], own: list[float], gaps: list[bool]) -> list[list[float]]:
    """Return, for each line: the greatest weight of the lines that it is indented under; how near
    before it an opening line is, with no closing line between (two scales); how deep in a stack
    trace it is; and, for a line of a diff, how near before it the diff's header is."""
    parents, opened, inside, frames, diffs = [], [], [], [], []
    stack: list[tuple[int, float]] = []  # with the best weight so far
    since, head, depth = math.inf, math.inf, 0
    for line, weight, gap in zip(lines, own, gaps, strict=False):
        if gap:
            stack, since, head, depth = [], math.inf, math.inf, 0
        indent = len(line.text) - len(line.text.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        above = stack[-1][1] if stack else _NONE
        parents.append(above)
        stack.append((indent, max(weight, above) if stack else weight))
        since = _count_since(line, since)
        opened.append(math.exp(-since / 6))
        inside.append(math.exp(-since / 30))
        depth = 0 if line.marks.isdisjoint(("frame", "python_frame")) else depth + 1
        frames.append(min(4.0, math.log2(1 + depth)))
        head = 0 if "diff_head" in line.marks else head + 1
        diffs.append(math.exp(-head / 20) if line.text.lstrip()[:1] in _CHANGED else 0.0)
    return [parents, opened, inside, frames, diffs]


def _count_since(line: Line, since: float) -> float:
    if "opens" in line.marks:
        return 0
    return math.inf if "closes" in line.marks else since + 1


def _compute_exits(scan: ScanResult, lines: list[Line]) -> list[list[float]]:
    """Return how near before the end of a failing command each line is (three scales), and 1 if no
    such end follows."""
    exits: list[float] = list(_find_endings(scan, lines) or [scan.end - 1])
    exits.append(math.inf)
    distances = [exits[bisect_left(exits, line.source.index)] - line.source.index for line in lines]
    near = [[math.exp(-distance / scale) for distance in distances] for scale in (5, 25, 120)]
    return [*near, [float(distance == math.inf) for distance in distances]]


def _find_endings(scan: ScanResult, lines: list[Line]) -> list[int]:
    """Return the indexes of the script's lines that say that a command failed."""
    return [
        line.source.index
        for line in lines
        if line.ends and scan.first <= line.source.index < scan.end
    ]


def _compute_commands(scan: ScanResult, lines: list[Line]) -> list[list[float]]:
    """Return, for each line: how many of the script's commands follow; whether its command is the
    last one; whether its command says that it failed; whether no command has begun yet; and how
    near the line is after its command."""
    places = [line.source.index for line in lines]
    begun, ends = scan.commands, _find_endings(scan, lines)
    own = [bisect_right(begun, at) for at in places]
    later = [len(begun) - count for count in own]
    begun, ends = [*begun, scan.total + 1], [*ends, scan.total]
    following = [ends[bisect_left(ends, at)] for at in places]
    return [
        [math.log1p(min(count, 50)) for count in later],
        [float(count > 0 and not left) for count, left in zip(own, later, strict=True)],
        [
            float(count > 0 and end < min(begun[count], scan.total))
            for count, end in zip(own, following, strict=True)
        ],
        [float(left > 0 and not count) for count, left in zip(own, later, strict=True)],
        [
            math.exp((begun[count - 1] - at) / 10) if count else 0.0
            for count, at in zip(own, places, strict=True)
        ],
    ]


def _compute_ends(scan: ScanResult, places: list[int]) -> list[list[float]]:
    """Return how near before the script's end each line is (three scales), and how far into it."""
    length = max(1, scan.end - scan.first)
    left = [scan.end - 1 - at for at in places]
    inside = [scan.first <= at < scan.end for at in places]
    return [
        *([math.exp(-n / scale) if n >= 0 else 0.0 for n in left] for scale in (8, 40, 200)),
        [(at - scan.first) / length * within for at, within in zip(places, inside, strict=True)],
    ]


def _compute_repeats(lines: list[Line]) -> list[list[float]]:
    makes = [line.make for line in lines]
    count = Counter(makes)
    first = {make: len(makes) - 1 - at for at, make in enumerate(reversed(makes))}
    last = {make: at for at, make in enumerate(makes)}
    like = [float(before == after) for before, after in pairwise(makes)]
    return [
        [math.log2(line.source.count) for line in lines],
        [math.log2(count[make]) for make in makes],
        [float(first[make] == at) for at, make in enumerate(makes)],
        [float(last[make] == at) for at, make in enumerate(makes)],
        [0.0, *like],
        [*like, 0.0],
    ]
