"""A GitLab job trace made readable: line N here is the line that the job's page numbers N.

GitLab's page leaves out empty lines, breaks lines at section markers, joins continued lines and
lets a carriage return clear its line. Only a log cleaned the same way gives line numbers that
`#L1843` leads to (wire-gitlab 7).
"""

import re
from collections.abc import Iterable, Iterator

from worker.core.excerpt import Excerpt, Green, excerpt
from worker.core.hostile import BREAKS, UNSEEN

MAX_LINE = 8192
"""Characters of one line that are kept."""

PIECE = 1 << 20
"""Bytes of a streamed trace that are cleaned together."""

_MAX_HELD = 16 * PIECE  # of one line

PAGE_BYTES = 500 * 1024
"""The job's page shows this much of the end of a trace, and counts its lines from there."""

_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [0-9a-f]{2}[OE]"
_STAMPED = re.compile(_STAMP + rb"[+ ]")
_CONTINUED = re.compile(rb"\n" + _STAMP + rb"\+")
_LINE_STAMP = re.compile(rb"(?m)^" + _STAMP + rb"[+ ]")
_SECTION = re.compile(
    rb"section_(start|end):\d+:([A-Za-z0-9_.-]+)(?:\[\w+=\w+(?:, ?\w+=\w+)*\])?\r\x1b\[0K"
)
_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_ESCAPE = re.compile(rb"\x1b(?:[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_LONGEST_STAMP = 40
_CONTROL = bytes(code for code in (*range(32), 0x7F) if code not in b"\t\n")


def clean(raw: bytes) -> bytes:
    """The lines of a trace as its job's page shows them, in UTF-8, each ended by "\\n".

    Gone: the runner's timestamps, section markers (their header text stays), escape sequences,
    what a carriage return overwrote, control and unseen characters. Longer lines than `MAX_LINE`
    are cut, and say so.
    """
    cleaner = _Cleaner()
    return cleaner.clean(raw)


def pieces(raw: Iterable[bytes]) -> Iterator[bytes]:
    """`clean` for a trace of any size: whole cleaned lines, piece by piece."""
    cleaner = _Cleaner()
    held = b""
    for data in raw:
        held += data
        if len(held) >= PIECE and (cut := _cut(held)):
            yield cleaner.clean(held[:cut])
            held = held[cut:]
    yield cleaner.clean(held)


def split(cleaned: bytes) -> list[str]:
    """The lines of a cleaned log: line N of the job's page is item N - 1."""
    lines = cleaned.decode("utf-8", "replace").split("\n")
    return lines if lines[-1] else lines[:-1]


def preview(cleaned: bytes, limit: int = 4096, green: bytes | None = None) -> str:
    """The lines of a cleaned log that explain the failure, as `1843: text`, gaps marked.

    At most `limit` bytes of UTF-8; long lines are clipped. A log that fits is shown whole.
    `green` is the cleaned log of the last run of the same job that passed: what is new counts more.
    """
    return excerpt(cleaned, limit, green)


def preview_of(
    raw: Iterable[bytes], limit: int = 4096, green: Iterable[bytes] | None = None
) -> str:
    """The preview of a trace that comes in pieces; memory does not grow with the trace.

    `green` is the trace of a run that passed, in pieces too.
    """
    known = None
    if green is not None:
        known = Green()
        for lines in pieces(green):
            known.feed(lines)
    made = Excerpt(limit, known)
    for lines in pieces(raw):
        made.feed(lines)
    return made.text()


def hidden_lines(raw: bytes) -> int:
    """How many lines of `clean(raw)` stand before the part that the job's page shows.

    The page's `#L` anchors count from its own first line: 0 for traces up to `PAGE_BYTES`.
    """
    if len(raw) <= PAGE_BYTES:
        return 0
    cut = raw.find(b"\n", len(raw) - PAGE_BYTES) + 1
    return clean(raw[:cut]).count(b"\n")


class _Cleaner:
    """Cleans the pieces of one trace: sections begin in one and end in another."""

    def __init__(self) -> None:
        self._stamped: bool | None = None
        self._opened: set[bytes] = set()

    def clean(self, raw: bytes) -> bytes:
        """The cleaned lines of the next whole lines of the trace."""
        data = _overwritten(_SECTION.sub(self._broken, self._without_stamps(raw)))
        data = _without_empty(data)
        if not data:
            return b""
        data = _without_controls(data)
        lines = data.split(b"\n")
        if not data.isascii() or max(map(len, lines)) > MAX_LINE:
            data = b"\n".join(map(_readable, lines))
        return data + b"\n"

    def _without_stamps(self, data: bytes) -> bytes:
        if self._stamped is None:
            self._stamped = _STAMPED.match(data) is not None
        if not self._stamped:
            return data
        return _LINE_STAMP.sub(b"", _CONTINUED.sub(b"", data))

    def _broken(self, marker: re.Match[bytes]) -> bytes:
        """Markers become line ends; the end of a section that never was open becomes nothing."""
        if marker[1] == b"start":
            self._opened.add(marker[2].lower())
            return b"\n"
        known = marker[2].lower() in self._opened
        self._opened.discard(marker[2].lower())
        return b"\n" if known else b""


def _cut(data: bytes) -> int:
    """Where whole lines end, 0 if nowhere yet. A line that later ones continue is kept together."""
    end = data.rfind(b"\n", 0, -_LONGEST_STAMP)
    while end >= 0 and _CONTINUED.match(data, end):
        end = data.rfind(b"\n", 0, end)
    if end >= 0:
        return end + 1
    return len(data) if len(data) > _MAX_HELD else 0


def _without_empty(data: bytes) -> bytes:
    while b"\n\n" in data:  # each round halves a run; five times as fast as one substitution
        data = data.replace(b"\n\n", b"\n")
    return data.strip(b"\n")


def _overwritten(data: bytes) -> bytes:
    """Cursor moves gone; of a line with carriage returns, only what stands after the last one."""
    if b"\r" in data:  # before the escapes go: a "\r" they part from "\n" does clear its line
        data = b"\n".join(line.rstrip(b"\r") for line in data.split(b"\n"))
    if b"\x1b" in data:
        data = _CSI.sub(b"", data)
    if b"\r" in data:
        data = b"\n".join(line.rpartition(b"\r")[2] for line in data.split(b"\n"))
    return data


def _without_controls(data: bytes) -> bytes:
    # After the empty lines went: the page counts a line that holds nothing else.
    if b"\x1b" in data:
        data = _ESCAPE.sub(b"", data)
    return data.translate(None, _CONTROL)


def _readable(line: bytes) -> bytes:
    if not line.isascii():
        text = line.decode("utf-8", "replace")
        line = UNSEEN.sub("", BREAKS.sub(" ", text)).encode()
    return line if len(line) <= MAX_LINE else _clipped(line.decode())


def _clipped(text: str) -> bytes:
    if len(text) <= MAX_LINE:
        return text.encode()
    kept = MAX_LINE - 40
    return f"{text[:kept]} [{len(text) - kept} characters cut]".encode()
