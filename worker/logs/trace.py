"""A GitLab job trace made readable: line N here is line N of the job's page.

GitLab's page leaves out empty lines, breaks lines at section markers, joins continued lines and
lets a carriage return clear its line. Only a log that is cleaned in the same way has the line
numbers of anchors such as `#L1843`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from worker.safety.untrusted import BREAKS, UNSEEN

MAX_LINE = 8192
"""The most characters of one line that are kept."""

PIECE = 1 << 20
"""Bytes of a streamed trace that are cleaned together."""

_MAX_HELD = 16 * PIECE  # of one line

LARGE = 16 << 20
"""A cleaned log of more than this many bytes is read only once, while it is streamed."""

PAGE_BYTES = 500 * 1024
"""The job's page shows this many bytes of the end of a trace, and counts its lines from there."""

_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]"
_STAMPED = re.compile(_STAMP + rb"[+ ]")
_CONTINUED = re.compile(rb"\n" + _STAMP + rb"\+")
_LINE_STAMP = re.compile(rb"(?m)^" + _STAMP + rb"[+ ]")
_WHEN = re.compile(rb"(?m)^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}Z [0-9a-f]{2}[OE] ")
_SECTION = re.compile(
    rb"section_(start|end):(\d+):([A-Za-z0-9_.-]+)(?:\[\w+=\w+(?:, ?\w+=\w+)*\])?\r\x1b\[0K"
)
_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_ESCAPE = re.compile(rb"\x1b(?:[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_RETURNS = re.compile(rb"(?<!\r)\r++\n")
_COLOURED_RETURN = re.compile(
    rb"(?<=[^\r\n])\r{1,8}(?=(?:\x1b\[[0-9;:]{0,40}m){1,8}\r{0,8}(?:\n|$))"
)
"""A carriage return between a line and the reset of its colour: nothing overwrites the line, but
the job's page leaves it out."""

_UNSHOWN = b"\x1e\x1f"
"""What such a line ends with until control characters are removed."""

_WIDE = re.compile(rb"\xff\xfe|(?:[\t\r\x1b -~]\x00){3}")
"""Where UTF-16 begins in a line: its mark, or three characters of ASCII."""

_NARROW = re.compile(rb"[ -~]{16}")
"""A text of which every byte is a character: no longer UTF-16."""

_TOLD = 200  # characters kept of the end of a line that is cut
_LONGEST_STAMP = 40
_CONTROL = bytes(code for code in (*range(32), 0x7F) if code not in b"\t\n")

MAX_SECTIONS = 2_000
MAX_TIMES = 5_000
MAX_UNSHOWN = 20_000

_MAX_NAME = 80


@dataclass(slots=True)
class Section:
    """A section: lines `first` to `last` of the cleaned log, from `start` to `end` (epoch seconds).

    `last` and `end` are 0 if the section's end was not seen.
    """

    name: str
    first: int
    last: int = 0
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class Timeline:
    """A log's sections and times, filled while it is cleaned.

    Bounded: if there are very many sections or times, only some are kept.
    """

    sections: list[Section] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    unshown: list[int] = field(default_factory=list)
    """The lines that the job's page leaves out."""
    step: int = 1
    """The least number of seconds between two of `times`."""

    _open: dict[str, Section] = field(default_factory=dict)

    def open_section(self, name: bytes, at: int, line: int) -> None:
        """Record that a section begins with this line."""
        if len(self.sections) < MAX_SECTIONS:
            section = Section(name.decode("ascii", "replace")[:_MAX_NAME], line, start=at)
            self.sections.append(section)
            self._open[section.name] = section

    def close_section(self, name: bytes, at: int, line: int) -> None:
        """Record that a section ended before this line."""
        section = self._open.pop(name.decode("ascii", "replace")[:_MAX_NAME], None)
        if section:
            section.last, section.end = max(section.first, line - 1), at

    def record_unshown(self, line: int) -> None:
        """Record that the job's page leaves out this line."""
        if len(self.unshown) < MAX_UNSHOWN:
            self.unshown.append(line)

    def wants_time(self, at: int) -> bool:
        """Whether this time is far enough from the last recorded one to be recorded."""
        return not self.times or at - self.times[-1][1] >= self.step

    def record_time(self, at: int, line: int) -> None:
        """Record when this line was written, unless a recorded time is too near."""
        if not self.wants_time(at):
            return
        self.times.append((line, at))
        if len(self.times) > MAX_TIMES:
            self.step *= 2
            kept, self.times = self.times, []
            for earlier, when in kept:
                self.record_time(when, earlier)

    @property
    def began(self) -> int:
        """The first recorded time, or the first section's, in epoch seconds; 0 if there is none."""
        first = [at for _, at in self.times[:1]] + [each.start for each in self.sections[:1]]
        return min(filter(None, first), default=0)

    @property
    def seconds(self) -> int:
        """The seconds between the first and the last recorded time, 0 if there are none."""
        return self.times[-1][1] - self.times[0][1] if self.times else 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that the sandbox's `log outline` reads; empty if nothing is known."""
        if not self.sections and not self.times:
            return {}
        return {
            "sections": [asdict(section) for section in self.sections],
            "times": self.times,
        }


def parse_stamp(stamp: bytes) -> int:
    """Return a time such as `2024-05-24T12:01:02` in epoch seconds, 0 if it is not valid."""
    try:
        return int(datetime.fromisoformat(stamp.decode()).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return 0


def clean_trace(raw: bytes) -> bytes:
    """Return the lines of a trace as its job's page shows them, in UTF-8, each ended by "\\n".

    Removed: the runner's timestamps, section markers (their header text stays), escape sequences,
    what a carriage return overwrote, control and invisible characters. UTF-16, as PowerShell writes
    it, is decoded. Lines longer than `MAX_LINE` are cut in their middle, and say so.
    """
    return _Cleaner().clean(raw)


def clean_pieces(raw: Iterable[bytes], timeline: Timeline | None = None) -> Iterator[bytes]:
    """Clean a trace of any size: yields whole cleaned lines, piece by piece.

    `timeline` is filled from the section markers and timestamps.
    """
    cleaner = _Cleaner(timeline)
    held = b""
    for data in raw:
        held += data
        if len(held) >= PIECE and (cut := _find_cut(held)):
            yield cleaner.clean(held[:cut])
            held = held[cut:]
    yield cleaner.clean(held)


def split_lines(cleaned: bytes) -> list[str]:
    """Split a cleaned log into lines: line N of the job's page is item N - 1."""
    lines = cleaned.decode("utf-8", "replace").split("\n")
    return lines if lines[-1] else lines[:-1]


def count_shown_lines(end: bytes) -> int:
    """Return how many lines the job's page shows of a long trace that ends with `end`.

    The page's `#L` anchors count from its own first line. `end` has at least `PAGE_BYTES` bytes.
    """
    timeline, shown = Timeline(), end[end.find(b"\n", len(end) - PAGE_BYTES) + 1 :]
    count = sum(lines.count(b"\n") for lines in clean_pieces([shown], timeline))
    return count - len(timeline.unshown)


class _Cleaner:
    """Cleans the pieces of one trace; a section may begin in one piece and end in another."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self._stamped: bool | None = None
        self._opened: set[bytes] = set()
        self._timeline = timeline
        self._lines = 0

    def clean(self, raw: bytes) -> bytes:
        """Return the next whole lines of the trace, cleaned."""
        if self._stamped is None:
            self._stamped = _STAMPED.match(raw) is not None
        if self._timeline is None:
            return self._clean(_SECTION.sub(self._replace_marker, self._without_stamps(raw)))
        return b"".join(self._clean_timed(raw, self._timeline))

    def _clean_timed(self, raw: bytes, timeline: Timeline) -> Iterator[bytes]:
        """Clean part by part, from marker to marker, so that each marker's line number is known."""
        for part in self._note_times(raw, timeline):
            data, start, kept = self._without_stamps(part), 0, list[bytes]()
            for mark in _SECTION.finditer(data):
                kept.append(data[start : mark.start()])
                start = mark.end()
                if self._replace_marker(mark):
                    yield self._clean_and_count(b"".join(kept))
                    kept = []
                    note = timeline.open_section if mark[1] == b"start" else timeline.close_section
                    note(mark[3], int(mark[2][:12]), self._lines + 1)
            yield self._clean_and_count(b"".join((*kept, data[start:])))

    def _note_times(self, raw: bytes, timeline: Timeline) -> Iterator[bytes]:
        start, last = 0, b""
        for line in _WHEN.finditer(raw) if self._stamped else ():
            if line[1] == last:
                continue
            last = line[1]
            if timeline.wants_time(at := parse_stamp(last)):
                if start < line.start():
                    yield raw[start : line.start()]
                start = line.start()
                timeline.record_time(at, self._lines + 1)
        yield raw[start:]

    def _clean_and_count(self, data: bytes) -> bytes:
        cleaned = self._clean(data)
        self._lines += cleaned.count(b"\n")
        return cleaned

    def _clean(self, data: bytes) -> bytes:
        if b"\0" in data:
            data = b"\n".join([_decode_wide(line) for line in data.split(b"\n")])
        lines = list(filter(None, _apply_overwrites(data).split(b"\n")))
        if b"\r\x1b[" in data:
            lines = [line for line in lines if line != _UNSHOWN]
            if self._timeline is not None:
                for number, line in enumerate(lines, self._lines + 1):
                    if line.endswith(_UNSHOWN):
                        self._timeline.record_unshown(number)
        if not lines:
            return b""
        longest = max(map(len, lines))
        # After dropping empty lines: the page counts a line that holds only control characters.
        data = b"\n".join(lines)
        if b"\x1b" in data:
            data = _ESCAPE.sub(b"", data)
        data = data.translate(None, _CONTROL)
        if not data.isascii() or longest > MAX_LINE:
            data = b"\n".join(
                [
                    line if line.isascii() and len(line) <= MAX_LINE else _readable(line)
                    for line in data.split(b"\n")
                ]
            )
        return data + b"\n"

    def _without_stamps(self, data: bytes) -> bytes:
        if not self._stamped:
            return data
        return _LINE_STAMP.sub(b"", _CONTINUED.sub(b"", data))

    def _replace_marker(self, marker: re.Match[bytes]) -> bytes:
        """Replace a marker by a line end; remove the end marker of a section that was not open."""
        if marker[1] == b"start":
            self._opened.add(marker[3].lower())
            return b"\n"
        known = marker[3].lower() in self._opened
        self._opened.discard(marker[3].lower())
        return b"\n" if known else b""


def _find_cut(data: bytes) -> int:
    """Return where whole lines end, 0 if none has yet. A continued line is kept together, unless
    more than `_MAX_HELD` bytes are held."""
    end = data.rfind(b"\n", 0, -_LONGEST_STAMP)
    while end >= 0 and _CONTINUED.match(data, end):
        end = data.rfind(b"\n", 0, end)
    if end >= 0:
        return end + 1
    return len(data) if len(data) > _MAX_HELD else 0


def _apply_overwrites(data: bytes) -> bytes:
    """Remove cursor moves and, in each line, everything up to its last carriage return."""
    if b"\r" in data:  # before removing escapes: a "\r" separated from "\n" by one clears its line
        if b"\r\n" in data:  # splitting and joining takes a third of the time of `replace`
            data = b"\n".join(data.split(b"\r\n"))
        if b"\r\n" in data:
            data = _RETURNS.sub(b"\n", data)
        data = data.rstrip(b"\r")
        if b"\r\x1b[" in data:
            data = _COLOURED_RETURN.sub(_UNSHOWN, data)
    if b"\x1b" in data:
        data = _CSI.sub(b"", data)
    if b"\r" in data:
        data = b"".join(_after_returns(data))
    return data


def _after_returns(data: bytes) -> Iterator[bytes]:
    start, at = 0, data.find(b"\r")
    while at >= 0:
        yield data[start : data.rfind(b"\n", start, at) + 1 or start]
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        start = data.rfind(b"\r", at, end) + 1
        at = data.find(b"\r", end)
    yield data[start:]


def _readable(line: bytes) -> bytes:
    text = UNSEEN.sub("", BREAKS.sub(" ", line.decode("utf-8", "replace")))
    if len(text) > MAX_LINE:
        kept = MAX_LINE - _TOLD - 40
        cut = len(text) - kept - _TOLD
        text = f"{text[:kept]} [{cut} characters cut] {text[-_TOLD:]}"
    return text.encode()


def _decode_wide(line: bytes) -> bytes:
    """Decode UTF-16 within a line that was split at a byte 10: the other half of its line end may
    be the first byte of the next line."""
    if b"\0" not in line or not (found := _WIDE.search(line)):
        return line
    start, ending = found.start(), _NARROW.search(line, found.end())
    if start % 2 == (line[0] == 0) and not _is_text(line[:start]):
        start %= 2  # characters of another script than ASCII come first
    end = line.rfind(b"\0", start, ending.start() if ending else None) + 1
    end -= (end - start) % 2
    text = line[start:end].decode("utf-16-le", "replace").removeprefix("\ufeff").rstrip("\r")
    # The zero byte is removed later; the job's page counts a line that holds nothing else.
    return line[:start] + text.encode() + b"\0" + line[end:] if end > start else line


def _is_text(data: bytes) -> bool:
    try:
        return data.translate(None, b"\t\x1b").decode().isprintable()
    except UnicodeDecodeError:
        return False
