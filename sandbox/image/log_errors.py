"""`log errors`: the lines that look most like the failure, one of each shape."""

import re
from dataclasses import dataclass

from sandbox.image.log_text import (
    Page,
    ShapeCache,
    clip_line,
    format_count,
    join_parts,
    read_batches,
    read_lines,
    refuse_stream,
)
from sandbox.image.log_values import list_elsewhere

MOST = 20_000
"""The most groups that are kept while reading."""

TRIED = 200
"""The most groups that are shown."""

BEST = 20
"""The groups whose values are looked for in other lines."""

_LOUD = (b"error", b"fail", b"fatal", b"panic", b"exception", b"traceback", b"assert", b"not ok")
_HARD = (
    b"cannot", b"can't", b"could not", b"unable to", b"not found", b"no such", b"undefined",
    b"denied", b"refused", b"timed out", b"timeout", b"killed", b"segmentation", b"core dump",
    b"abort", b"out of memory", b"no space", b"mismatch", b"unexpected", b"invalid",
    b"unresolved", b"violation", b"rejected", b"but was", b"! ", b"*** ", b"cve-",
    b"unbound variable", b"no module named", b"not installed", b"is outdated", b"[bug]",
)  # fmt: skip
_CALM = re.compile(
    rb"\b(?:0|no|zero|without) (?:\w+ )?(?:errors?|fail\w*|exceptions?|warnings?)\b"
    rb"|(?:errors?|fail\w*|exceptions?)\W{1,4}0\b|\bwarn(?:ing)?\b|\bdeprecat|\bdebug\b|\binfo\b"
    rb"|-werror|error[_-]?(?:handler|log|page|prone)|\bpassed\b|\bok\b|\bcompiling\b|\bdownload",
)
_FINE = re.compile(
    rb"\s*(?:\xe2\x9c[\x93\x94]|\xe2\x88\x9a)(?!.*(?:\xe2\x9c[\x97\x98]|fail(?:ed|ures?)\b))"
    rb"|\s*--- pass: |\[ {2,9}ok \]"
    rb"|\s*(?:downloaded|downloading|compiling|checking|fetching|fetched|copying path|building"
    rb"|installing|unpacking) (?!fail|error)[\w@'\"/.#-]{1,200}(?: v?#\S*|\.\.\.)(?: \.\.\.)?\s*$"
)
"""A test that passed, or a package that is fetched or built; its name may say anything."""

_STARTS = re.compile(
    rb"\W{0,6}(?:error|fatal|fail|panic|traceback|exception|caused by|not ok|e  )|\S+error:"
)
_PLACED = re.compile(rb"(?:vet: )?[\w./\\@-]{1,200}\.\w{1,8}(?::#|\(#\)): \S")
"""The shape of a line that begins with a place in a file, such as a linter's finding."""

_ADDRESS = re.compile(rb"https?://[^\s\"'<>]+")
"""An address. Its words, such as those of a package called error-ex, are not what happened."""

_TRAILER = re.compile(
    rb"\[error\] *(?:->|\[help #?|to see the full|re-run maven|for more information"
    rb"|after correcting|mvn <args>|see (?:/|#|dump files)|please refer to|$)"
    rb"|npm (?:err!|error) a complete log|\* try:|> run with --|run gradle"
)
"""What a build tool writes after any failure."""

_ENDING = re.compile(rb"exit(?:ed)? (?:with|code|status)|job failed|returned (?:a )?non-zero")


@dataclass
class Group:
    """Lines of one shape: their weight, their number, the first and the last."""

    weight: float
    count: int
    first: int
    last: int


def rate_shape(shape: bytes) -> float:
    """Rate how much a line looks like a failure; 0 if it does not."""
    text = _ADDRESS.sub(b"", shape[:300].lower())
    if _FINE.match(text) or _TRAILER.match(text):
        return 0.0
    loud = any(word in text for word in _LOUD)
    if not loud and not any(word in text for word in _HARD):
        return 0.8 if _PLACED.match(text) and not _CALM.search(text) else 0.0
    weight = 2.0 if loud else 1.0
    if _CALM.search(text):
        weight -= 1.5
    if _STARTS.match(text):
        weight += 1.5
    if _ENDING.search(text):
        weight -= 0.7
    return max(weight, 0.0)


class Candidates:
    """Groups the lines that look like the failure. `feed` takes a log's lines in order."""

    def __init__(self) -> None:
        self.groups: dict[bytes, Group] = {}
        self.lines = 0
        self.hits: list[int] = []
        self._shapes = ShapeCache()
        self._weights: dict[bytes, float] = {}

    def feed(self, lines: list[bytes]) -> None:
        weights, groups = self._weights, self.groups
        if len(weights) > 4 * MOST:
            weights.clear()
        for number, shape in enumerate(self._shapes.look_up(lines), self.lines + 1):
            if shape not in weights:
                weights[shape] = rate_shape(shape)
            if not weights[shape]:
                continue
            self.hits.append(number)
            if shape in groups:
                groups[shape].count += 1
                groups[shape].last = number
            elif len(groups) < MOST:
                groups[shape] = Group(weights[shape], 1, number, number)
        self.lines += len(lines)

    def rank_groups(self) -> list[Group]:
        """Return the groups, the most telling first: high weight, few lines, late in the log."""
        return sorted(self.groups.values(), key=self._rank)

    def _rank(self, group: Group) -> float:
        lateness = group.first / max(1, self.lines)
        return -(group.weight + lateness - 0.5 * (min(group.count, 1024).bit_length() - 1))


def find_candidates(path: str) -> Candidates:
    candidates = Candidates()
    for lines in read_batches(path):
        candidates.feed(lines)
    return candidates


def show_errors(path: str, room: int, most: int, after: int, context: int | None) -> str:
    """Format the most telling groups that fit, in the order of the log."""
    refuse_stream(path)
    candidates = find_candidates(path)
    ranked = [group for group in candidates.rank_groups() if group.first > after]
    tried = ranked[: min(most, TRIED)]
    steps = range(-1, 4) if context is None else range(-context, context + 1)
    lines = read_lines(path, {group.first + step for group in tried for step in steps})
    texts = {number: f"{number}- {clip_line(line, 160)}" for number, line in lines.items()}
    texts |= {group.first: _format_group(group, lines[group.first]) for group in tried}
    best = [lines[group.first] for group in tried[:BEST]]
    elsewhere = list_elsewhere(path, best, candidates.hits, room // 3)
    page, shown = Page(room - sum(len(line.encode()) + 1 for line in elsewhere)), 0
    for group in tried:
        near = [group.first + step for step in steps if group.first + step in lines]
        around = {number: texts[number] for number in near}
        main = {group.first: texts[group.first]}
        if not page.add(around | main) and not page.add(main):
            break
        shown += 1
    total = format_count(len(candidates.hits), "candidate line")
    groups = format_count(len(candidates.groups), "group")
    more = f"[{len(ranked) - shown:,} less telling ones are not shown: --bytes N, --after LINE]"
    return join_parts(
        f"{total} in {groups}, of {candidates.lines:,} lines:",
        *page.format_lines(),
        more if shown < len(ranked) else "",
        *elsewhere,
    )


def _format_group(group: Group, line: bytes) -> str:
    alike = f" [{group.count:,} like it, last at {group.last}]" if group.count > 1 else ""
    return f"{group.first}: {clip_line(line)}{alike}"
