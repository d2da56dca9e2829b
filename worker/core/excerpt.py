"""Which lines of a failed job's log explain the failure: a general mechanism, no tool by name.

A line counts by its words (a loud error more than a "cannot", a summary with zero errors hardly),
by how rare lines of its make are, and by how close before a command's failing end it stands. What
counts lends weight to its neighbours, more to those after it, so that messages and stack traces
stay whole. The budget goes to the heaviest lines; each make of line pays less the second time.
"""

import heapq
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

MESSAGE = 280
"""Bytes shown of a line that counts by itself."""

CONTEXT = 150
"""Bytes shown of any other line."""

MAX_CANDIDATES = 40_000
"""Lines looked at closely; of more, the first and the last."""

GAP = "…"

_STEMS = tuple(
    re.split(
        r"\|",
        "error|fail|fatal|panic|exception|traceback|assert|cannot|can't|could not|couldn't|unable"
        "|not found|no such|undefined|unresolved|denied|refused|timed out|timeout|missing|invalid"
        "|unexpected|mismatch|conflict|killed|segmentation|segfault|core dumped|abort"
        "|out of memory|no space|unsupported|unknown|does not|doesn't|did not|didn't|rejected"
        "|expected|actual|but was|exited with|exit code|exit status|broken|incorrect|illegal"
        "|violation|differ|caused by|should |not ok|✗|✖|✕|[-]|***",
    )
)
_WORD, _END = r"(?<![\w/.-])", r"(?![\w/-]|\.\w)"  # not inside a path or a compound
_STRONG = re.compile(
    _WORD + r"(?:errors?|fatal|panic(?:ked)?|exceptions?|traceback|fail(?:s|ed|ing|ures?)?"
    r"|assert(?:ion)?)" + _END + r"|\b\w{1,80}(?:Error|Exception|Failure)\b|[✗✖✕]|\[-\]|\bnot ok\b"
    r"|\*\*\*|UNEXPECTED|\bFAIL",
    re.IGNORECASE,
)
_MIDDLING = re.compile(
    _WORD + r"(?:cannot|can't|can not|could ?n[o']t|unable|not found|no such|undefined|unresolved"
    r"|denied|refused|timed? ?out|missing|invalid|unexpected|mismatch|conflicts?|killed"
    r"|segmentation|segfault|core dumped|abort(?:ed|ing)?|out of memory|no space|unsupported"
    r"|unknown|does ?n[o']t|did ?n[o']t|rejected|expected|actual|but was|exit (?:code|status)"
    r"|exited with|broken|incorrect|illegal|violations?|differs?|caused by"
    r"|should (?:have|be|not))" + _END,
    re.IGNORECASE,
)
_LOUD = re.compile(
    r"^\W{0,6}(?:ERROR|FATAL|FAIL(?:ED|URE)?|E {2,}|error(?:\[\w+\])?:|fatal:|panic:|not ok"
    r"|Traceback|Caused by|[✗✖✕])|^\s*\[-\]|\b(?:ERROR|FAIL|FAILED|FATAL|FAILURE)\b|\berror:"
    r"|: error\b|(?:Error|Exception):"
)
_NOTHING = re.compile(
    r"\b(?:0|no|without|zero) (?:\w+ )?(?:errors?|fail\w*|exceptions?|warnings?|problems?)\b"
    r"|(?:errors?|fail\w*|exceptions?)\W{1,4}0\b|=> (?:\d|on|off|enabled|no value)",
    re.IGNORECASE,
)
_CALM = re.compile(
    r"\b(?:ok|pass(?:ed)?|success\w*|info|debug|installing|downloading|compiling)\b|\[\+\]|[✓✔]"
    r"|^\W*\+ ",
    re.IGNORECASE,
)
_SOFT = re.compile(r"\b(?:warn(?:ing)?s?|deprecated|ignored|skipp\w+)\b", re.IGNORECASE)
_PLACE = re.compile(r"[\w/-]\.\w{1,5}[:(]\d+|, line \d+")
_EXIT = re.compile(
    r"(?:exited with|exit(?:ed)? (?:code|status)|returned (?:non-zero )?(?:exit )?(?:code|status)"
    r"|status code|completed with exit code)[: ]*[1-9]\d{0,2}\b|\*\*\* \[[^\]]{0,200}\] Error \d"
    r"|^BUILD FAILED|^Build (?:step|failed)|FAILURE: Build failed",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{7,}|\d+")
_IN_NAMES = re.compile(r"""[\d_./\\:@{}=\[\]()<>'"-]""")
_STAMP = re.compile(
    r"^(?:\[task \S+\] ?|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?\s?)"
    r"(?:\d\d:\d\d:\d\d\s+)?"
)

_SCRIPT = b'Executing "step_script" stage of the job script\n'
_AFTER = (
    b"Running after_script",
    b"Uploading artifacts for failed job",
    b"Cleaning up project directory and file based variables",
)

_LENT_AFTER = (0.8, 0.68, 0.55, 0.45, 0.38, 0.32, 0.27, 0.22)
_LENT_BEFORE = (0.6, 0.45, 0.33, 0.24, 0.18, 0.12)
_RARITY = 0.7  # how fast lines of one make lose weight
_REPEAT = 0.55  # what the next line of a chosen make is still worth
_NEAR, _NEAR_LINES = 1.5, 25  # what a failing end adds to the messages before it
_CLOSE, _CLOSE_LINES = 5.0, 15  # what it adds to any line before it
_TAIL, _LAST = 0.1, 0.05  # shares of the budget for the last lines before it, and of the script


def excerpt(cleaned: bytes, limit: int) -> str:
    """The explaining lines as `1843: text`, in order, gaps marked; at most `limit` bytes.

    `cleaned` is what `logs.clean` gave. A log that fits is shown whole.
    """
    log = _Log(cleaned)
    if len(cleaned) + 8 * len(log.lines) <= limit:
        return "\n".join(f"{at + 1}: {log.text(at)}" for at in range(len(log.lines)))
    return _Choice(log, limit).text()


class _Log:
    """The lines of a log, and what is known of each; line numbers count from 0 here."""

    def __init__(self, cleaned: bytes) -> None:
        self._cleaned = cleaned
        self.lines = cleaned.removesuffix(b"\n").split(b"\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        self._texts: dict[int, str] = {}
        self._keys: dict[int, str] = {}
        self._makes: dict[int, str] = {}
        self.first, self.end = self._script()

    def text(self, at: int) -> str:
        """The line without a timestamp at its beginning."""
        if at not in self._texts:
            self._texts[at] = _STAMP.sub("", self.lines[at].decode("utf-8", "replace"))
        return self._texts[at]

    def key(self, at: int) -> str:
        """The same for lines that differ in numbers only."""
        if at not in self._keys:
            self._keys[at] = _NUMBER.sub("0", self.text(at)[:400].strip())
        return self._keys[at]

    def make(self, at: int) -> str:
        """The same for lines that differ in names, paths and numbers only."""
        if at not in self._makes:
            words = self.text(at)[:200].split()
            self._makes[at] = " ".join("#" if _IN_NAMES.search(word) else word for word in words)
        return self._makes[at]

    def _script(self) -> tuple[int, int]:
        """Where the output of the job's script begins and ends."""
        header = self._cleaned.rfind(_SCRIPT)
        first = self._line_at(header) + 1 if header >= 0 else 0
        count = len(self.lines)
        ends = (at for at in range(max(first, count - 400), count) if self.lines[at] in _AFTER)
        return first, max(first + 1, next(ends, count))

    def _line_at(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def candidates(self) -> list[int]:
        """The lines that hold any word of trouble."""
        lowered = self._cleaned.lower()
        found: set[int] = set()
        for stem in map(str.encode, _STEMS):
            offset = lowered.find(stem)
            while offset >= 0:
                at = self._line_at(offset)
                found.add(at)
                offset = lowered.find(stem, self._starts[at + 1])
        ordered = sorted(found)
        if len(ordered) > MAX_CANDIDATES:
            ordered = ordered[: MAX_CANDIDATES // 4] + ordered[-MAX_CANDIDATES * 3 // 4 :]
        return ordered

    @cached_property
    def messages(self) -> dict[int, float]:
        """How loud each line is that says something went wrong."""
        loud = ((at, _loudness(self.text(at)[:1000])) for at in self.candidates())
        return {at: weight for at, weight in loud if weight}

    @cached_property
    def exits(self) -> list[int]:
        """Where a command of the script failed; its last line if none says so."""
        found = [
            at
            for at in self.messages
            if self.first <= at < self.end and _EXIT.search(self.text(at)[:1000])
        ]
        return found or [self.end - 1]


def _loudness(text: str) -> float:
    weight = 6.0 if _STRONG.search(text) else 0.0
    if _MIDDLING.search(text):
        weight += 2.5
    if not weight:
        return 0.0
    if _LOUD.search(text):
        weight += 4.0
    if _PLACE.search(text):
        weight += 1.5
    if _NOTHING.search(text):
        weight *= 0.1
    elif _CALM.search(text):
        weight *= 0.45
    return weight * 0.4 if _SOFT.search(text) else weight


def _weights(log: _Log) -> dict[int, float]:
    """The weight of every line that has one."""
    makes = {at: log.make(at) for at in log.messages}
    count = Counter(makes.values())
    own = {
        at: loudness / (1 + _RARITY * math.log2(count[makes[at]])) * _position(log, at)
        for at, loudness in log.messages.items()
    }
    weights = dict(own)
    for at, weight in own.items():
        for step, lent in _neighbours():
            if 0 <= at + step < len(log.lines) and weights.get(at + step, 0.0) < weight * lent:
                weights[at + step] = weight * lent
    for end in log.exits[-6:]:
        for at in range(max(log.first, end - 2 * _CLOSE_LINES), end + 1):
            weights[at] = weights.get(at, 0.0) + _CLOSE * math.exp((at - end) / _CLOSE_LINES)
    return weights


def _neighbours() -> Iterator[tuple[int, float]]:
    yield from enumerate(_LENT_AFTER, 1)
    yield from ((-step, lent) for step, lent in enumerate(_LENT_BEFORE, 1))


def _position(log: _Log, at: int) -> float:
    if not log.first <= at < log.end:
        return 0.3  # the runner's own work
    following = bisect_left(log.exits, at)
    last = log.end - 1
    distance = (log.exits[following] if following < len(log.exits) else last + 15) - at
    progress = (at - log.first) / (log.end - log.first)
    return 0.6 + 0.5 * progress + _NEAR * math.exp(-distance / _NEAR_LINES)


class _Choice:
    """The lines taken so far, and what they cost."""

    def __init__(self, log: _Log, limit: int) -> None:
        self._log = log
        self._limit = limit
        self._size = 0
        self._taken: dict[int, str] = {}
        self._keys: Counter[str] = Counter()
        self._makes: Counter[str] = Counter()

    def text(self) -> str:
        """Choose, and write what was chosen."""
        self._tail(self._log.exits[-1], _TAIL)
        self._tail(self._log.end - 1, _LAST)
        self._heaviest()
        written: list[str] = []
        previous = -1
        for at in sorted(self._taken):
            if at != previous + 1:
                written.append(GAP)
            written.append(self._taken[at])
            previous = at
        if previous + 1 < len(self._log.lines):
            written.append(GAP)
        return "\n".join(written)

    def _tail(self, last: int, share: float) -> None:
        room = self._size + self._limit * share
        at = last
        while at >= self._log.first and self._take(at, room):
            at -= 1

    def _heaviest(self) -> None:
        heap = [(-weight, -at, 0) for at, weight in _weights(self._log).items()]
        heapq.heapify(heap)
        while heap and self._limit - self._size > 60:
            weight, at, known = heapq.heappop(heap)
            at = -at
            taken = self._makes[self._log.make(at)] if at in self._log.messages else 0
            if taken > known:
                heapq.heappush(heap, (weight * _REPEAT ** (taken - known), -at, taken))
            elif self._keys[self._log.key(at)] < 2:
                self._take(at, self._limit)

    def _take(self, at: int, room: float) -> bool:
        """Take a line if it fits (or was taken before, or says nothing)."""
        if at in self._taken or not self._log.lines[at].strip():
            return True
        message = at in self._log.messages
        line = f"{at + 1}: {_clipped(self._log.text(at), MESSAGE if message else CONTEXT)}"
        cost = len(line.encode()) + 1 + (0 if at - 1 in self._taken else len(GAP.encode()) + 1)
        if self._size + cost > min(room, self._limit - 4):
            return False
        self._size += cost
        self._taken[at] = line
        self._keys[self._log.key(at)] += 1
        if message:
            self._makes[self._log.make(at)] += 1
        return True


def _clipped(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[: limit - 3].decode("utf-8", "ignore") + GAP
