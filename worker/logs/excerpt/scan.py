"""One pass over a log that keeps, in bounded memory, the lines that need a closer look: those with
words of trouble and the lines around them, the last ones, and those of `quiet_lines`."""

import math
import re
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, filterfalse, islice

from ahocorasick_rs import BytesAhoCorasick

from sandbox.image.failure_words import HARD, HARD_IN_CONTEXT, LOUD, SIGNS, SOFT
from worker.logs.excerpt.quiet_lines import (
    MAX_KEPT,
    Chunk,
    Ending,
    Piece,
    RareLines,
    cut_before_error,
)
from worker.logs.line_marks import find_marks, weigh_words

STEMS = (
    *((stem, 2.5) for stem in SOFT),
    *((stem, 1.5) for stem in (*HARD, *HARD_IN_CONTEXT)),
    *((stem, 0.0) for stem in (*LOUD, *SIGNS)),
)
"""Words of trouble, the loudest last, each with its mildness: what counts against its line."""

_FINDER = BytesAhoCorasick([stem for stem, _ in STEMS])
_MILDNESS = tuple(mildness for _, mildness in STEMS)
_WINDOW = 1 << 17
"""Bytes searched at once: almost every byte of a hostile log may be part of a match."""

_BEFORE, _AFTER = 6, 24  # lines kept around a line with a word of trouble

_HITS = 250
"""The most lines with a word of trouble that are used, of one log."""

_ROUGHLY = 6  # how many times more hits than wanted are first chosen by rougher kinds
_EARLY = 1.5  # how much counts against a log's first line, compared with its last one
_STALE = 6.0  # how much counts against a line that the last green log has

_MAX_KEYS = 150_000

_SCRIPT = b'Executing "step_script" stage of the job script'
_AFTER_SCRIPT = (
    b"Running after_script",
    b"Uploading artifacts for failed job",
    b"Cleaning up project directory and file based variables",
)
_MARKER = b"section_"
"""What those lines begin with if the log was kept without its control characters: then a section's
markers and its heading are one line."""

_END, _RUNNER_END, _TAIL = 60, 15, 460

_TROUBLES = (b"*** WARNING: Service ", b"Health check error")
"""How the runner says, before the script, that a service that it started is not healthy."""

_MOST_TROUBLES = 12

_SERVICE_LINES = 40
"""The most lines below such a line that may be the service's own log, which the runner prints."""

_COMMAND = b"\n$ "
_COMMANDS = 400
"""How many of a log's last commands are kept."""


_STAMP = re.compile(
    r"^(?:\[task \S+\] ?|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?\s?)"
    r"(?:\d\d:\d\d:\d\d\s+)?"
)
_COLOUR = re.compile(rb"\^\[\[[\d;]{0,20}[mK]")
"""A colour whose escape character a program wrote as two, as `cat -v` does."""

_NAME = re.compile(r"""(?<!\S)[^\s\d_./\\:@{}=\[\]()<>'"-]*+[\d_./\\:@{}=\[\]()<>'"-]\S*+""")
_MAY_END = frozenset({"ended", "make", "shouted", "fault"})

_EXIT = re.compile(
    r"(?:exited with|exit(?:ed)? (?:code|status)|returned (?:a )?(?:non-zero )?(?:exit )?"
    r"(?:code|status)|status code)[: ]*[1-9]\d{0,2}\b|\*\*\* \[[^\]]{0,200}\] Error \d"
    r"|^BUILD FAILED|^Build (?:step|failed)|FAILURE: Build failed",
    re.IGNORECASE,
)
"""What says that a command failed."""

_COUNTS = bytes.maketrans(b"23456789", b"11111111")
"""Lines that differ only in digits are read alike, except for 0: it means that nothing failed."""


@dataclass(slots=True)
class Line:
    """A kept line as it is read; `index` counts from 0."""

    index: int
    count: int  # of the log's lines that are the same apart from digits and case
    new: bool | None  # whether the last green log lacks it; None if there is no green log
    text: str  # without a timestamp
    marks: frozenset[str]
    make: str  # the same for lines that differ only in names and numbers
    ends: bool = False  # whether it says that a command failed
    words: float = 0.0  # what its words add to its weight


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan found. All but `lines` and `total` are line indexes."""

    lines: list[Line]  # in order
    hits: list[int]  # lines with a word of trouble, or that are new
    commands: list[int]  # echoes of the script's last commands
    troubles: list[int]
    """Before the script: there the runner reports that a service it started is not healthy."""
    end_lines: list[int]  # how a failed job ended, the most telling first
    first: int  # where the script begins
    end: int  # the line after the script
    total: int  # how many lines the log has


class Scan:
    """Scans a log: feed it whole lines, in order, then ask what was found."""

    def __init__(self, green: Iterable[bytes] | None = None) -> None:
        """`green`: the last green log of the same job, if there is one."""
        self._green = PassedLines(green) if green is not None else None
        self._new: set[bytes] = set()
        self._counts: Counter[bytes] = Counter()
        self._mildness: dict[bytes, float] = {}  # of the lines that are hits, by their keys
        self._hits: list[tuple[int, bytes]] = []
        self._kept: dict[int, tuple[bytes, bytes]] = {}  # as pieces; plain tuples are made faster
        self._kept_until = 0  # the lines before this one follow a hit
        self._tail: deque[Piece] = deque(maxlen=_TAIL)
        self._commands: deque[Piece] = deque(maxlen=_COMMANDS)
        self._ending = Ending()
        self._rare = RareLines()
        self._first = 0
        self._total = 0

    def feed(self, cleaned: bytes) -> None:
        """Add the next whole lines of a cleaned log."""
        text = cleaned.removesuffix(b"\n")
        chunk = Chunk(self._total, text.split(b"\n"), _make_keys(text))
        fresh = dict.fromkeys(filterfalse(self._counts.__contains__, chunk.keys))
        self._find_hits(chunk, fresh)
        self._rare.feed(chunk, fresh)
        self._counts.update(chunk.keys)
        self._remember(chunk)
        if _SCRIPT in text:
            starts = (at for at, line in enumerate(chunk.lines, 1) if _is_heading(line, (_SCRIPT,)))
            self._first = max((chunk.base + at for at in starts), default=self._first)
        text = b"\n" + text
        self._commands.extend(map(chunk.cut, _find_command_lines(text)))
        self._ending.feed(chunk, text, self._counts)
        self._total += len(chunk.lines)
        self._shrink()

    def _find_hits(self, chunk: Chunk, fresh: Iterable[bytes]) -> None:
        if self._green is not None:
            line_of = dict(zip(chunk.keys, chunk.lines, strict=True))
            new = self._green.find_new({key: line_of[key] for key in fresh})
            self._new |= new
            self._mildness.update(dict.fromkeys(new, 4.0))
        text = b"\n".join(fresh) + b"\n"
        end = 0
        while (start := end) < len(text):
            end = text.find(b"\n", start + _WINDOW) + 1 or len(text)
            self._mildness.update(_find_trouble(text[start:end]))

    def _remember(self, chunk: Chunk) -> None:
        """Keep the best hits of these lines, and the lines around them."""
        lines, keys, kept = chunk.lines, chunk.keys, self._kept
        is_hit = map(self._mildness.__contains__, keys)
        best = self._choose_best([*compress(enumerate(keys, chunk.base), is_hit)], 2 * _HITS)
        for place in _list_near(best).union(range(chunk.base, self._kept_until)):
            at = place - chunk.base
            if 0 <= at < len(lines):
                line = lines[at]
                kept[place] = line if len(line) <= MAX_KEPT else chunk.cut(at).text, keys[at]
            elif 0 < -at <= len(self._tail):
                kept[place] = self._tail[at].text, self._tail[at].key
        if best:
            self._kept_until = best[-1][0] + _AFTER + 1
        self._hits += best
        self._tail.extend(map(chunk.cut, range(max(0, len(lines) - _TAIL), len(lines))))

    def _choose_best(self, hits: list[tuple[int, bytes]], most: int) -> list[tuple[int, bytes]]:
        """Return at most `most` hits, in order; loud, late and rare ones are preferred."""
        if len(hits) > _ROUGHLY * most:
            hits = self._choose_rarest(hits, _ROUGHLY * most, [key for _, key in hits])
        if len(hits) > most:
            # Lines that differ only in names, paths and numbers are of one kind.
            kinds = [tuple(filter(bytes.isalpha, key[:200].split())) for _, key in hits]
            hits = self._choose_rarest(hits, most, kinds)
        return hits

    def _choose_rarest(
        self, hits: list[tuple[int, bytes]], most: int, kinds: Sequence[Hashable]
    ) -> list[tuple[int, bytes]]:
        count, seen = Counter(kinds), dict[Hashable, int]()
        span = hits[-1][0] + 1
        rated = []
        for (place, key), kind in zip(reversed(hits), reversed(kinds), strict=True):
            times = seen[kind] = seen.get(kind, 0) + 1
            early = _EARLY * (1 - place / span)
            stale = _STALE if self._green is not None and key not in self._new else 0.0
            mild = self._mildness.get(key, 0.0) + stale
            rated.append((math.log2(count[kind] * times) + early + mild, place, key))
        rated.sort()
        return sorted((place, key) for _, place, key in rated[:most])

    def _shrink(self) -> None:
        if len(self._hits) > 4 * _HITS:
            self._hits = self._choose_best(self._hits, 2 * _HITS)
            self._kept = {at: self._kept[at] for at in _list_near(self._hits) & self._kept.keys()}
        if len(self._counts) > _MAX_KEYS:
            few = {key: n for key, n in self._counts.items() if n > 1 and len(key) < 400}
            self._counts = Counter(few)
            self._mildness = {key: mild for key, mild in self._mildness.items() if key in few}

    def make_result(self) -> ScanResult:
        """Return everything that was kept, in order."""
        first = self._first
        after = (
            at for at, line, _ in self._tail if at > first and _is_heading(line, _AFTER_SCRIPT)
        )
        end = max(first + 1, next(after, self._total))
        within = [hit for hit in self._hits if first <= hit[0] < end]
        hits = self._choose_best(within or self._hits, _HITS)
        troubles = self._list_troubles(first)
        if within:
            hits = [*troubles[:_MOST_TROUBLES], *hits]
        commands = [piece for piece in self._commands if first <= piece.place < end]
        script = [piece for piece in self._tail if first <= piece.place < end]
        last = next((piece for piece in reversed(self._tail) if piece.text.strip()), None)
        ending = [*self._ending.list_lines(last, commands, script, self._counts)]
        rarest = self._rare.list_rarest(self._counts, range(first, end))
        kept = [Piece(at, *self._kept[at]) for at in _list_near(hits) & self._kept.keys()]
        kept += [
            piece
            for piece in self._tail
            if end - _END <= piece.place < end or piece.place >= self._total - _RUNNER_END
        ]
        return ScanResult(
            lines=[*self._read_lines(sorted({*kept, *rarest, *ending}))],
            hits=[at for at, _ in hits],
            commands=[piece.place for piece in commands],
            troubles=[at for at, _ in troubles],
            end_lines=[piece.place for piece in ending],
            first=first,
            end=end,
            total=self._total,
        )

    def _read_lines(self, pieces: Iterable[Piece]) -> Iterator[Line]:
        known: dict[bytes, tuple[frozenset[str], str, bool, float]] = {}
        sets: dict[frozenset[str], frozenset[str]] = {}
        for place, line, key in pieces:
            if not line or line.isspace():
                continue
            data = _COLOUR.sub(b"", line) if b"^[[" in line else line
            text = without_stamp(cut_before_error(data).decode("utf-8", "replace"))
            alike = line.translate(_COUNTS)
            if alike not in known:
                seen = frozenset(find_marks(text))
                ends = not seen.isdisjoint(_MAY_END) and _EXIT.search(text[:1000]) is not None
                make = " ".join(_NAME.sub("#", text[:200]).split())
                known[alike] = sets.setdefault(seen, seen), make, ends, weigh_words(text)
            new = key in self._new if self._green is not None else None
            yield Line(place, max(1, self._counts[key]), new, text, *known[alike])

    def _list_troubles(self, first: int) -> list[tuple[int, bytes]]:
        """Return the hits before the script that are on or below a report of the runner's that a
        service is not healthy."""
        hits = [hit for hit in self._hits if hit[0] < first]
        kept = ((at, self._kept[at][0]) for at, _ in hits if at in self._kept)
        begun = [*islice((at for at, text in kept if text.startswith(_TROUBLES)), 20)]
        return [hit for hit in hits if any(0 <= hit[0] - at <= _SERVICE_LINES for at in begun)]


def without_stamp(text: str) -> str:
    """Return a line without the timestamp that some runners put at its beginning."""
    return _STAMP.sub("", text)


def _list_near(hits: Iterable[tuple[int, bytes]]) -> set[int]:
    return {at for place, _ in hits for at in range(place - _BEFORE, place + _AFTER + 1)}


def _is_heading(line: bytes, headings: tuple[bytes, ...]) -> bool:
    return line in headings or (line.startswith(_MARKER) and line.endswith(headings))


def _find_command_lines(text: bytes) -> Iterator[int]:
    """Yield the indexes of the lines that echo a command; each line follows a line break."""
    line, start, at = 0, 0, text.find(_COMMAND)
    while at >= 0:
        line += text.count(b"\n", start, at)
        yield line
        start, at = at, text.find(_COMMAND, at + 1)


def _find_trouble(text: bytes) -> dict[bytes, float]:
    """Return the lines of `text` with a word of trouble, each with its loudest word's mildness."""
    found: dict[bytes, float] = {}
    line, mildest, end = b"", 0.0, -1
    for word, at, _ in _FINDER.find_matches_as_indexes(text, overlapping=True):
        mild = _MILDNESS[word]
        if at > end:
            start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            line, mildest = text[start:end], mild
            found[line] = mild
        elif mild < mildest:
            found[line] = mildest = mild
    return found


# ------------------------------------------------------------------ what a passed run has too

_LOWER = bytes(range(256)).lower()
_MAX_PASSED = 500_000
_VOLATILE = re.compile(rb"(?<=\s)-\d{1,6}(?=:)|(?:/[\w.@+-]+)+/|\b(?=\w{0,80}\d)\w+|\s+")


class PassedLines:
    """The lines of a cleaned log; tells which lines of another log are new.

    The log comes in chunks of whole lines. If it has very many different ones, the first are kept.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._keys: set[bytes] = set()
        self._masks: set[int] = set()
        for chunk in chunks:
            text = chunk.removesuffix(b"\n")
            lines = dict(zip(_make_keys(text), text.split(b"\n"), strict=True))
            if len(self._keys) <= _MAX_PASSED:
                fresh = lines.keys() - self._keys
                self._keys |= fresh
                self._masks.update(hash(_mask(lines[key])) for key in fresh)

    def find_new(self, lines: dict[bytes, bytes]) -> set[bytes]:
        """Return the keys of those `lines` (by key) that differ from every green line in more than
        timestamps, hashes, numbers and the folders of paths."""
        fresh = lines.keys() - self._keys
        return {key for key in fresh if hash(_mask(lines[key])) not in self._masks}


def _make_keys(text: bytes) -> list[bytes]:
    return text.translate(_LOWER, b"0123456789").split(b"\n")


def _mask(line: bytes) -> bytes:
    return _VOLATILE.sub(b"", line[:500]).lower()
