"""One pass over a log: keeps the lines that need a closer look, in bounded memory."""

import math
import re
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, filterfalse

from ahocorasick_rs import BytesAhoCorasick

from sandbox.image.failure_words import HARD, HARD_IN_CONTEXT, LOUD, SIGNS, SOFT
from worker.logs.excerpt.quiet_lines import Ending, Piece, RareLines

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

_RARE = 150
"""The most lines that are kept because there is none like them."""

_ROUGHLY = 6
_EARLY = 1.5  # how much counts against a log's first line, compared with its last one
_STALE = 6.0  # how much counts against a line that the last green log has

_MAX_KEYS = 150_000
_MAX_KEPT = 1_500
"""The most bytes of a line that are kept."""

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

CUT = "[cut]"
"""Marks where a part of a line was left out."""

_RAISED = (b"Error: ", b"Exception: ", b"error: ", b"panic: ", b"Fatal Python error: ")
_FAR = 110  # a line whose error begins at most this far into it is shown from its beginning
_LEAD = 40  # bytes kept before an error that begins later
_FITS = 180  # bytes of such a line that are shown: more of its beginning, if its end is short
_LAST = 200  # bytes kept of the end of a line that is longer than `_MAX_KEPT`

_COMMAND = b"\n$ "
_COMMANDS = 400
"""How many of a log's last commands are kept."""


@dataclass(frozen=True, slots=True)
class KeptLine:
    """A kept line; `index` counts from 0.

    `count` lines of the log are the same apart from digits and case. `new`: the last green log
    lacks it; None if there is no green log.
    """

    index: int
    data: bytes
    count: int
    new: bool | None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan found. All but `lines` and `total` are line indexes."""

    lines: list[KeptLine]  # in order
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
        self._hit_mildness: dict[bytes, float] = {}  # of the lines that are hits, by their keys
        self._hits: list[tuple[int, bytes]] = []
        self._kept: dict[int, tuple[bytes, bytes]] = {}
        self._tail: deque[Piece] = deque(maxlen=_TAIL)
        self._ending = Ending()
        self._rare = RareLines()
        self._before: list[tuple[bytes, bytes]] = []
        self._commands: deque[Piece] = deque(maxlen=_COMMANDS)
        self._lines_to_keep = 0
        self._first = 0
        self._total = 0

    def feed(self, chunk: bytes) -> None:
        """Add the next whole lines of a cleaned log."""
        text = chunk.removesuffix(b"\n")
        lines = text.split(b"\n")
        keys = text.translate(_LOWER, _DIGITS).split(b"\n")
        fresh = dict.fromkeys(filterfalse(self._counts.__contains__, keys))
        self._find_hits(lines, keys, fresh)
        self._rare.feed(self._total, lines, keys, fresh)
        self._counts.update(keys)
        hits = list(compress(range(len(keys)), map(self._hit_mildness.__contains__, keys)))
        self._remember(lines, keys, hits)
        if (script := _find_last(lines, text, _SCRIPT)) is not None:
            self._first = self._total + script + 1
        self._commands.extend(
            Piece(self._total + at, _cut_line(lines[at]), keys[at])
            for at in _find_command_lines(b"\n" + text)
        )
        self._ending.feed(self._total, lines, keys, self._counts)
        self._total += len(lines)
        self._shrink()

    def _find_hits(self, lines: list[bytes], keys: list[bytes], fresh: dict[bytes, None]) -> None:
        mildness = self._hit_mildness
        if self._green is not None:
            line_of = dict(zip(keys, lines, strict=True))
            new = self._green.find_new({key: line_of[key] for key in fresh})
            self._new |= new
            mildness.update(dict.fromkeys(new, 4.0))
        text = b"\n".join(fresh) + b"\n"
        end = 0
        while (start := end) < len(text):
            end = text.find(b"\n", start + _WINDOW) + 1 or len(text)
            mildness.update(_find_trouble(text[start:end]))

    def _remember(self, lines: list[bytes], keys: list[bytes], hits: list[int]) -> None:
        """Keep the best hits of these lines, and the lines around them."""
        base, size = self._total, len(lines)
        best = self._choose_best([(base + at, keys[at]) for at in hits], 2 * _HITS)
        kept = self._kept
        for at in range(min(self._lines_to_keep, size)):
            kept[base + at] = (_cut_line(lines[at]), keys[at])
        reach = -1
        for place, _ in best:
            start, reach = (
                max(reach + 1, place - base - _BEFORE),
                min(size - 1, place - base + _AFTER),
            )
            for at in range(start, reach + 1):
                if at >= 0:
                    kept[base + at] = (_cut_line(lines[at]), keys[at])
                elif -at <= len(self._before):
                    kept[base + at] = self._before[at]
        self._lines_to_keep = (
            max(0, best[-1][0] - base + _AFTER + 1 - size)
            if best
            else max(0, self._lines_to_keep - size)
        )
        self._hits += best
        start = max(0, size - _TAIL)
        self._tail.extend(
            Piece(base + at, _cut_line(lines[at]), keys[at]) for at in range(start, size)
        )
        self._before = [
            (_cut_line(line), key)
            for line, key in zip(lines[-_BEFORE:], keys[-_BEFORE:], strict=True)
        ]

    def _choose_best(self, hits: list[tuple[int, bytes]], most: int) -> list[tuple[int, bytes]]:
        """Return at most `most` hits, in order; loud, late and rare ones are preferred."""
        if len(hits) > _ROUGHLY * most:
            hits = self._choose_rarest(hits, _ROUGHLY * most, [key for _, key in hits])
        if len(hits) > most:
            hits = self._choose_rarest(hits, most, [_make_shape(key) for _, key in hits])
        return hits

    def _choose_rarest(
        self, hits: list[tuple[int, bytes]], most: int, kinds: Sequence[Hashable]
    ) -> list[tuple[int, bytes]]:
        count, seen = Counter(kinds), dict[Hashable, int]()
        span, mildness = hits[-1][0] + 1, self._hit_mildness
        rated = []
        for (place, key), kind in zip(reversed(hits), reversed(kinds), strict=True):
            times = seen[kind] = seen.get(kind, 0) + 1
            early = _EARLY * (1 - place / span)
            stale = _STALE if self._green is not None and key not in self._new else 0.0
            mild = mildness.get(key, 0.0) + stale
            rated.append((math.log2(count[kind] * times) + early + mild, place, key))
        rated.sort()
        return sorted((place, key) for _, place, key in rated[:most])

    def _shrink(self) -> None:
        if len(self._hits) > 4 * _HITS:
            self._hits = self._choose_best(self._hits, 2 * _HITS)
            self._kept = self._select_kept(self._hits)
        if len(self._counts) > _MAX_KEYS:
            self._counts = Counter(
                {key: n for key, n in self._counts.items() if n > 1 and len(key) < 400}
            )
            self._hit_mildness = {
                key: mild for key, mild in self._hit_mildness.items() if key in self._counts
            }

    def _select_kept(self, hits: list[tuple[int, bytes]]) -> dict[int, tuple[bytes, bytes]]:
        """Return the kept lines that are near one of the hits."""
        near = {at for place, _ in hits for at in range(place - _BEFORE, place + _AFTER + 1)}
        return {at: self._kept[at] for at in near & self._kept.keys()}

    def make_result(self) -> ScanResult:
        """Return everything that was kept, in order."""
        first, end = self._find_script()
        within = [(at, key) for at, key in self._hits if first <= at < end]
        hits = self._choose_best(within or self._hits, _HITS)
        troubles = [hit for hit in self._hits if hit[0] < first]
        begun = [
            at for at, _ in troubles if at in self._kept and self._kept[at][0].startswith(_TROUBLES)
        ]
        troubles = [
            hit for hit in troubles if any(0 <= hit[0] - at <= _SERVICE_LINES for at in begun[:20])
        ]
        if within:
            hits = [*troubles[:_MOST_TROUBLES], *hits]
        kept = self._select_kept(hits)
        for at, line, key in self._tail:
            if end - _END <= at < end or at >= self._total - _RUNNER_END:
                kept[at] = (line, key)
        rare = self._choose_rare(first, end)
        kept.update((at, (_cut_line(line), key)) for at, line, key in rare)
        ending = list(self._list_end_lines(first, end))
        kept.update((at, (_cut_line(line), key)) for at, line, key in ending)
        has_green = self._green is not None
        lines = [
            KeptLine(at, data, max(1, self._counts[key]), key in self._new if has_green else None)
            for at, (data, key) in sorted(kept.items())
            if data and not data.isspace()
        ]
        return ScanResult(
            lines,
            hits=[at for at, _ in hits],
            commands=[line.at for line in self._commands if first <= line.at < end],
            troubles=[at for at, _ in troubles],
            end_lines=[line.at for line in ending],
            first=first,
            end=end,
            total=self._total,
        )

    def _choose_rare(self, first: int, end: int) -> list[Piece]:
        """Return the script's lines of the rarest shapes, of equally rare ones the last."""
        found = self._rare.list_lines(self._counts)
        rated = [(count, -piece.at, piece) for count, piece in found if first <= piece.at < end]
        return [piece for _, _, piece in sorted(rated)[:_RARE]]

    def _list_end_lines(self, first: int, end: int) -> Iterator[Piece]:
        """Yield the lines that say how a failed job ended."""
        commands = [line for line in self._commands if first <= line.at < end]
        script = [line for line in self._tail if first <= line.at < end]
        written = [line for line in self._tail if line.text.strip()]
        if written:
            last = commands[-1] if commands else None
            yield from self._ending.list_lines(last, script, written[-1], self._counts)

    def _find_script(self) -> tuple[int, int]:
        first = self._first
        ends = (at for at, line, _ in self._tail if at > first and _is_heading(line, _AFTER_SCRIPT))
        return first, max(first + 1, next(ends, self._total))


def cut_before_error(line: bytes) -> bytes:
    """Return a line; if its error begins far into it, only the part from just before the error."""
    at = min((at for word in _RAISED if (at := line.find(word)) >= 0), default=0)
    if at <= _FAR:
        return line
    start = min(at - _LEAD, max(0, len(line) - _FITS))
    parts = (line.find(mark, start, at) + 1 for mark in (b" ", b"/"))
    start = min(filter(None, parts), default=start)
    return b"%s %s" % (CUT.encode(), line[start:])


def _cut_line(line: bytes) -> bytes:
    if len(line) <= _MAX_KEPT:
        return line
    kept = cut_before_error(line)
    if len(kept) <= _MAX_KEPT:
        return kept
    return b"%s %s %s" % (kept[: _MAX_KEPT - _LAST], CUT.encode(), kept[-_LAST:])


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


def _make_shape(key: bytes) -> tuple[bytes, ...]:
    """Return a value that is the same for lines that differ only in names, paths and numbers."""
    return tuple(filter(bytes.isalpha, key[:200].split()))


def _find_last(lines: list[bytes], text: bytes, heading: bytes) -> int | None:
    if heading not in text:
        return None
    found = (at for at in range(len(lines) - 1, -1, -1) if _is_heading(lines[at], (heading,)))
    return next(found, None)


def _is_heading(line: bytes, headings: tuple[bytes, ...]) -> bool:
    return line in headings or (line.startswith(_MARKER) and line.endswith(headings))


# ------------------------------------------------------------------ what a passed run has too

_LOWER = bytes(range(256)).lower()
_DIGITS = b"0123456789"

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
            self._add_lines(chunk)

    def _add_lines(self, chunk: bytes) -> None:
        text = chunk.removesuffix(b"\n")
        lines = dict(
            zip(text.translate(_LOWER, _DIGITS).split(b"\n"), text.split(b"\n"), strict=True)
        )
        fresh = lines.keys() - self._keys
        if len(self._keys) > _MAX_PASSED:
            return
        self._keys |= fresh
        self._masks.update(hash(_mask(lines[key])) for key in fresh)

    def find_new(self, lines: dict[bytes, bytes]) -> set[bytes]:
        """Return the keys of those `lines` (by key) that differ from every green line in more than
        timestamps, hashes, numbers and the folders of paths."""
        fresh = lines.keys() - self._keys
        return {key for key in fresh if hash(_mask(lines[key])) not in self._masks}


def _mask(line: bytes) -> bytes:
    return _VOLATILE.sub(b"", line[:500]).lower()
