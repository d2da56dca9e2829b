"""`log errors`: the lines that look like the failure, one of each shape, the most telling first."""

import re
from dataclasses import dataclass

from sandbox.image.log_text import Page, Shapes, answer, batches, counted, picked, shown

MOST = 20_000
"""Groups that are kept while reading."""

TRIED = 200
"""Groups that are shown at most."""

_LOUD = (b"error", b"fail", b"fatal", b"panic", b"exception", b"traceback", b"assert", b"not ok")
_HARD = (
    b"cannot", b"can't", b"could not", b"unable to", b"not found", b"no such", b"undefined",
    b"denied", b"refused", b"timed out", b"timeout", b"killed", b"segmentation", b"core dump",
    b"abort", b"out of memory", b"no space", b"mismatch", b"unexpected", b"invalid",
    b"unresolved", b"violation", b"rejected", b"but was", b"! ", b"*** ",
)  # fmt: skip
_CALM = re.compile(
    rb"\b(?:0|no|zero|without) (?:\w+ )?(?:errors?|fail\w*|exceptions?|warnings?)\b"
    rb"|(?:errors?|fail\w*|exceptions?)\W{1,4}0\b|\bwarn(?:ing)?\b|\bdeprecat|\bdebug\b|\binfo\b"
    rb"|-werror|error[_-]?(?:handler|log|page|prone)|\bpassed\b|\bok\b|\bcompiling\b|\bdownload",
)
_STARTS = re.compile(
    rb"\W{0,6}(?:error|fatal|fail|panic|traceback|exception|caused by|not ok|e  )|\S+error:"
)
_ENDING = re.compile(rb"exit(?:ed)? (?:with|code|status)|job failed|returned (?:a )?non-zero")


@dataclass
class Group:
    """Lines of one shape: how telling, how many, the first and the last."""

    weight: float
    count: int
    first: int
    last: int


def weight(shape: bytes) -> float:
    """How much a line looks like a failure; 0 for one that does not."""
    text = shape[:300].lower()
    loud = any(word in text for word in _LOUD)
    if not loud and not any(word in text for word in _HARD):
        return 0.0
    found = 2.0 if loud else 1.0
    if _CALM.search(text):
        found -= 1.5
    if _STARTS.match(text):
        found += 1.5
    if _ENDING.search(text):
        found -= 0.7
    return max(found, 0.0)


class Candidates:
    """Feed it the lines of a log in order; it groups those that look like the failure."""

    def __init__(self) -> None:
        self.groups: dict[bytes, Group] = {}
        self.lines = 0
        self.hits: list[int] = []
        self._shapes = Shapes()
        self._weights: dict[bytes, float] = {}

    def feed(self, lines: list[bytes]) -> None:
        weights, groups = self._weights, self.groups
        if len(weights) > 4 * MOST:
            weights.clear()
        for number, shape in enumerate(self._shapes.of(lines), self.lines + 1):
            if shape not in weights:
                weights[shape] = weight(shape)
            if not weights[shape]:
                continue
            self.hits.append(number)
            if shape in groups:
                groups[shape].count += 1
                groups[shape].last = number
            elif len(groups) < MOST:
                groups[shape] = Group(weights[shape], 1, number, number)
        self.lines += len(lines)

    def best(self) -> list[Group]:
        """The groups, the most telling first: loud ones, rare ones, late ones."""
        return sorted(self.groups.values(), key=self._rank)

    def _rank(self, group: Group) -> float:
        late = group.first / max(1, self.lines)
        return -(group.weight + late - 0.5 * (min(group.count, 1024).bit_length() - 1))


def candidates(path: str) -> Candidates:
    found = Candidates()
    for lines in batches(path):
        found.feed(lines)
    return found


def errors(path: str, room: int, most: int, after: int, context: int | None) -> str:
    """The groups that fit, the most telling first, printed in the order of the log."""
    found = candidates(path)
    ranked = [group for group in found.best() if group.first > after]
    tried = ranked[: min(most, TRIED)]
    steps = range(-1, 4) if context is None else range(-context, context + 1)
    lines = picked(path, {group.first + step for group in tried for step in steps})
    texts = {number: f"{number}- {shown(line, 160)}" for number, line in lines.items()}
    texts |= {group.first: _main(group, lines[group.first]) for group in tried}
    page, told = Page(room), 0
    for group in tried:
        near = [group.first + step for step in steps if group.first + step in lines]
        around = {number: texts[number] for number in near}
        main = {group.first: texts[group.first]}
        if not page.add(around | main) and not page.add(main):
            break
        told += 1
    total = counted(len(found.hits), "candidate line")
    more = f"[{len(ranked) - told:,} less telling ones are not shown: --bytes N, --after LINE]"
    return answer(
        f"{total} in {counted(len(found.groups), 'group')}, of {found.lines:,} lines:",
        *page.lines(),
        more if told < len(ranked) else "",
    )


def _main(group: Group, line: bytes) -> str:
    alike = f" [{group.count:,} like it, last at {group.last}]" if group.count > 1 else ""
    return f"{group.first}: {shown(line)}{alike}"
