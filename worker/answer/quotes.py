"""The grammar of quotes. The workflow asks for one of these on each line of Evidence:

    - job 4711 line 1843: text of that line
    - job 4711 lines 1843-1845: text of the first line
      the second line
      the third line
    - file src/app.py line 12: text                (as of the pipeline's commit)
    - file src/app.py at main line 12: text
    - artifact 4711 reports/junit.xml line 9: text
    - konflux TASKRUN STEP line 12: text
    - testing farm REQUEST FILE line 9: text
    - test tests.test_app.test_sum: text of its message

Models vary the marks, brackets and links around a quote; these are accepted. A quote that is read
here is only a claim: `proof` checks it. Every pattern is bounded, because the text is hostile.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from worker.conversation.answer_text import FENCE, find_fenced_lines
from worker.verdict.finding import (
    Evidence,
    Finding,
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    RequestFile,
    TaskStep,
)

MAX_SPAN = 5
"""The most lines of one quote."""


@dataclass(frozen=True, slots=True)
class Prose:
    """A line that is no quote. `item` says that one was expected: it is a bullet or code."""

    text: str
    item: bool = False


_BLANK = r"[ \t]{1,8}"
_ANY = r"[ \t]{0,8}"
_BULLET = r"(?:[-*+]|\d{1,3}[.)])"
_ITEM = re.compile(rf"[ \t>]*{_BULLET}[ \t]")
_NESTED = re.compile(rf"[ \t>]+(?!{_BULLET}[ \t])\S")
_MARK = re.compile(rf"(?P<space>[ \t]{{0,40}}){_BULLET}(?=[ \t])")
_LEAD = rf"[ \t>]{{0,40}}(?:{_BULLET}{_BLANK})?[*_`\[]{{0,3}}"
_TO = r"(?:[ \t]{0,8}(?:-L?|–|to)[ \t]{0,8}(?P<last>\d{1,9}))?"
_IN_WORDS = rf"[*_`]{{0,2}}[ \t,]{{1,8}}(?:lines?|L)[ \t]{{0,8}}(?P<first>\d{{1,9}}){_TO}"
_IN_SIGNS = rf"(?::L?|\#L)(?P<first>\d{{1,9}}){_TO}"
_TEXT = (
    r"[*_`\]]{0,3}(?:\([^()\s]{0,500}\))?[*_]{0,2}[ \t]{0,8}"
    r":(?:\*\*(?=[ \t]|$))?[ \t]{0,8}(?P<text>.*)"
)
_JOB = r"\#?(?P<job>\d{1,15})"
_PATH = r"`?(?P<path>[^\s`]{1,1000}?|[^`]{1,1000}?(?=`))`?"
_REF = r"(?:[ \t]{1,8}(?:at|@)[ \t]{1,8}`?(?P<ref>[\w./+-]{1,200})`?)?"
_NAME = r"(?P<name>`[^`]{1,500}`|(?:[^\s:]|:(?=[\w:])|[ ](?=[^\s:])){1,500}+)"
_TASK = r"`?(?P<task>[a-z0-9][a-z0-9.-]{0,252})`?"
_STEP = r"`?(?P<step>[a-z0-9][a-z0-9.-]{0,62})`?"
_REQUEST = r"`?(?P<request>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`?"


def _compile(place: str, *at: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a place: ` line 12` before `:12`, which may be part of a path."""
    return tuple(
        re.compile(f"{_LEAD}{place}{each}{_TEXT}", re.IGNORECASE)
        for each in at or (_IN_WORDS, _IN_SIGNS)
    )


_FORMS = (
    *_compile(rf"job{_BLANK}{_JOB}(?:{_ANY}\([^()]{{1,200}}\))?"),
    *_compile(rf"artifact{_BLANK}(?:job{_BLANK})?{_JOB}[ \t,:/]{{1,3}}{_PATH}"),
    *_compile(rf"artifact{_BLANK}{_PATH}{_BLANK}(?:of|from|in){_BLANK}job{_BLANK}{_JOB}"),
    *_compile(rf"(?:konflux|tekton){_BLANK}{_TASK}[ \t,:/]{{1,3}}(?:step{_BLANK})?{_STEP}"),
    *_compile(rf"testing[ _-]farm{_BLANK}(?:request{_BLANK})?{_REQUEST}[ \t,:/]{{1,3}}{_PATH}"),
    *_compile(rf"file{_BLANK}{_PATH}{_REF}"),
    *_compile(rf"test{_BLANK}{_NAME}", ""),
)
_BARE_FILES = _compile(rf"(?!\w{{1,20}}://)(?=[^\s]{{0,1000}}[./]){_PATH}{_REF}")
_JOINED = re.compile(r"\w(?:[./\[]|::)\w")


def scan_quotes(text: str, *, replying: bool = False) -> Iterator[Evidence | Prose]:
    """Yield the quotes of a text and all its other lines, in order.

    In a reply (`replying`) only an unambiguous quote counts, and none inside code.
    """
    lines = text.split("\n")
    inside = find_fenced_lines(lines)
    at, below = 0, False
    while at < len(lines):
        line = lines[at]
        below = below and bool(_NESTED.match(line))
        coded = replying and at in inside
        quote = None if coded else _read_head(line, replying, bare=not below)
        if quote is None:
            yield Prose(line, item=at in inside or bool(_ITEM.match(line)))
            at += 1
        else:
            below = bool(_ITEM.match(line))
            quote, at = _read_quote(quote, lines, at, inside, replying)
            yield quote


def _read_head(line: str, replying: bool, *, bare: bool = True) -> Evidence | None:
    """Return the quote that begins on a line; only with `bare` may a file lack the word "file"."""
    if ":" not in line:
        return None
    for form in (*_FORMS, *_BARE_FILES) if bare and not replying else _FORMS:
        found = form.match(line)
        if found and (place := _read_place(found.groupdict(), replying)):
            fields = found.groupdict()
            first, last = int(fields.get("first") or 0), int(fields.get("last") or 0)
            mark = _MARK.match(line)
            lead = f"{mark[0]} " if mark else f"{line[: len(line) - len(line.lstrip())]}- "
            return Evidence(
                place, first, _strip_marks(found["text"]), last=max(first, last), lead=lead
            )
    return None


def _read_place(fields: dict[str, str | None], replying: bool) -> Place | None:
    job, path, name = fields.get("job"), fields.get("path"), fields.get("name")
    if (task := fields.get("task")) and (step := fields.get("step")):
        return TaskStep(task, step)
    if path:
        path = path.strip().rstrip(",")
        if request := fields.get("request"):
            return RequestFile(request.lower(), path)
        return JobArtifact(int(job), path) if job else RepoFile(path, fields.get("ref") or "")
    if job:
        return JobLog(int(job))
    # In a reply "test coverage: 80 %" is prose: a test's name cannot be ordinary words there.
    is_telling = name and (name.startswith("`") or (" " not in name and _JOINED.search(name)))
    return ReportedTest(name.strip("`* \t")) if name and (is_telling or not replying) else None


def _read_quote(
    quote: Evidence, lines: list[str], head: int, inside: set[int], replying: bool
) -> tuple[Evidence, int]:
    """Return the quote that begins on line `head`, with the text below it, and the number of the
    line after it."""
    declared = max(quote.last - quote.line + 1, 1)
    lazy = not replying and bool(_ITEM.match(lines[head]))
    column = _count_indent(lines[head])
    texts = [quote.text] if quote.text else []
    at = head + 1
    skip = at if texts else _find_text(lines, at)
    fence = FENCE.match(lines[skip]) if len(texts) < declared and skip in inside else None
    if fence:
        end = skip + 1
        while end in inside and not lines[end].strip().startswith(fence[1]):
            end += 1
        return _set_text(quote, [*texts, *lines[skip + 1 : end]]), end + 1
    if not texts and skip < len(lines) and _may_begin_text(lines[skip], replying, lazy, column):
        texts, at = [lines[skip]], skip + 1
    if not texts:
        return _set_text(quote, texts), at
    below, at = _read_below(lines, at, declared - len(texts), column, lazy)
    return _set_text(quote, texts + below), at


def _read_below(
    lines: list[str], start: int, most: int, column: int, lazy: bool
) -> tuple[list[str], int]:
    """Return at most `most` further lines of a quote whose item begins in `column`, and the number
    of the line after them.

    Lines outside the item (allowed if `lazy`) count only if the quote then has all the lines that
    it declares.
    """
    at = sure_end = start
    while (following := _find_text(lines, at)) < len(lines) and following < start + most:
        line, near = lines[following], lazy and following == at
        is_item = bool(_ITEM.match(line))
        # Lines of a compiler or a traceback begin with a file's name, those of a diff like an item.
        named, told = _read_head(line, False), _read_head(line, False, bare=False)
        names_file = named and not told and not is_item
        may_belong = not FENCE.match(line) and not (named if is_item else told)
        if _is_in_item(line, column) or (near and names_file):
            sure_end = following + 1 if sure_end == at else sure_end
        elif not near or at - start >= MAX_SPAN - 1 or not may_belong:
            break
        at = following + 1
    end = at if at - start >= min(most, MAX_SPAN - 1) else sure_end
    return lines[start:end], end


def _find_text(lines: list[str], at: int) -> int:
    """Return the number of the first line from `at` on that is not empty."""
    return next((number for number in range(at, len(lines)) if lines[number].strip()), len(lines))


def _may_begin_text(line: str, replying: bool, lazy: bool, column: int) -> bool:
    """Whether the text of a quote that has none yet begins on this line."""
    if _is_in_item(line, column):
        return True
    if replying or _ITEM.match(line) or FENCE.match(line):
        return False
    return not _read_head(line, False, bare=not lazy)


def _is_in_item(line: str, column: int) -> bool:
    """Whether the line is inside the list item that begins in `column`.

    An indented line without a bullet always is, whatever it looks like. Any other line is if it is
    indented further than the item and is no quote; "1. Test Case ID: x" is none.
    """
    if _NESTED.match(line):
        return True
    return _count_indent(line) > column and not _read_head(line, True, bare=False)


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t>"))


def _set_text(quote: Evidence, texts: list[str]) -> Evidence:
    if len(texts) < 2:
        return replace(quote, text=_strip_marks(texts[0]) if texts else "")
    return replace(quote, text="\n".join(each.strip() for each in texts[:MAX_SPAN]))


def _strip_marks(text: str) -> str:
    """Return a quote without the blanks and backticks around it."""
    text = text.strip()
    ticks = len(text) - len(text.lstrip("`"))
    if ticks and text.endswith("`" * ticks) and len(text) > 2 * ticks:
        text = text[ticks:-ticks]
    elif text.endswith("`") and text.count("`") % 2:
        text = text[:-1]
    return text.strip()


# ----------------------------------------------------------------------- numbers of lines in prose


@dataclass(frozen=True, slots=True)
class _Move:
    """The lines `first` to `last`, as a quote named them, are really `shift` lines further down."""

    place: Place
    first: int
    last: int
    shift: int


_BEFORE_NUMBER = r"[`*_)\]]{0,4},?[ \t]{1,4}(?:(?:at|on|in)[ \t]{1,4})?[(\[*_`]{0,4}"
_NUMBERED = re.compile(
    rf"(?P<name>(?<![\w./@+-])[\w./@+-]{{1,300}})?"
    rf"(?P<sign>(?:{_BEFORE_NUMBER}|^)(?:lines?[ \t]{{1,4}}|L[ \t]{{0,4}})|:L?|#L)"
    r"(?P<first>\d{1,9})(?:(?P<to>[ \t]?(?:-|–|to)[ \t]?)(?P<last>\d{1,9}))?(?!\w)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w./@+-]+")
_FILE = re.compile(
    r"/|\.[A-Za-z]|^(?:(?:[A-Z]\w*|make|docker|just)file|README|LICEN[CS]E|CODEOWNERS|CHANGELOG"
    r"|BUILD|WORKSPACE)$"
)
_NAMED_JOB = re.compile(
    r"\bjobs?[ \t]{1,4}[#`*]{0,3}(?P<id>\d{1,20})\b|\bjobs?[ \t]{1,4}[`\"'“]|[`\"'”][ \t]jobs?\b",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(
    r"(?:(?P<log>log|trace)|(?P<file>file|script|source|config|configuration|manifest|template)"
    r"|(?P<artifact>artifact|report)|diff)s?",
    re.IGNORECASE,
)
_KINDS: dict[str | None, tuple[type, ...]] = {
    "log": (JobLog, JobArtifact),
    "file": (RepoFile, JobArtifact),
    "artifact": (JobArtifact,),
}
"""The kinds of place that a word for a document may mean."""


def correct_line_numbers(finding: Finding, claimed: Iterable[Evidence]) -> Finding:
    """Return `finding`, whose quotes are proven, with the line numbers that its prose took from the
    `claimed` quotes corrected as those quotes were: a model that has miscounted names the same
    wrong line in its evidence and in its cause.

    A number that a proven quote has as well stays as it is.
    """
    moves = []
    for quote in claimed:
        texts = [each.strip() for each in quote.text.split("\n")]
        found = [
            each
            for each in finding.evidence
            if each.place == quote.place and [*map(str.strip, each.text.split("\n"))] == texts
        ]
        if len(found) == 1 and quote.line and found[0].line != quote.line:
            moves.append(_Move(quote.place, quote.line, quote.last, found[0].line - quote.line))
    if not moves:
        return finding
    kept = {each for quote in finding.evidence for each in range(quote.line, quote.last + 1)}
    return replace(
        finding,
        what_failed=_correct_text(finding.what_failed, moves, kept),
        cause=_correct_text(finding.cause, moves, kept),
        to_do=_correct_text(finding.to_do, moves, kept),
        details=_correct_text(finding.details, moves, kept),
    )


def _correct_text(text: str, moves: Sequence[_Move], kept: set[int]) -> str:
    """Return the text with its numbers corrected, except in blocks of code and where the line, or
    the one before or after it, names another place: the number may belong to that one."""
    lines = text.split("\n")
    coded = find_fenced_lines(lines)
    prose = ["" if at in coded else line for at, line in enumerate(lines)]
    for at, line in enumerate(prose):
        near = "\n".join(prose[max(0, at - 1) : at + 2])
        if sure := [move for move in moves if line and not _names_other(near, move.place)]:
            lines[at] = _correct_line(line, sure, kept)
    return "\n".join(lines)


def _correct_line(line: str, moves: Sequence[_Move], kept: set[int]) -> str:
    def correct(found: re.Match[str]) -> str:
        first, last = int(found["first"]), int(found["last"] or found["first"])
        shifts = {
            move.shift
            for move in moves
            if move.first <= first <= last <= move.last
            and _may_name(found["name"], found["sign"], move.place)
        }
        if len(shifts) != 1 or kept.intersection((first, last)):
            return found[0]
        (shift,) = shifts
        end = f"{found['to']}{last + shift}" if found["last"] else ""
        return f"{found['name'] or ''}{found['sign']}{first + shift}{end}"

    return _NUMBERED.sub(correct, line)


def _names_other(text: str, place: Place) -> bool:
    """Whether the text names a file, a job or a kind of document that is not the place."""
    words = [word.rstrip(".") for word in _WORD.findall(text)]
    if any(_FILE.search(word) and not _is_path(word, place) for word in words):
        return True
    job = str(getattr(place, "job_id", ""))
    if any(found["id"] != job for found in _NAMED_JOB.finditer(text)):
        return True
    kinds = [found.lastgroup for word in words if (found := _DOCUMENT.fullmatch(word))]
    return any(not isinstance(place, _KINDS.get(kind, ())) for kind in kinds)


def _is_path(word: str, place: Place) -> bool:
    """Whether the word is the place's path, or the end of it."""
    return f"/{getattr(place, 'path', '')}".endswith(f"/{word}")


def _may_name(name: str | None, sign: str, place: Place) -> bool:
    """Whether the word before a line's number names the place, or, before "line", no place at
    all."""
    word = (name or "").rstrip(".")
    if isinstance(place, JobLog) and word == str(place.job_id):
        return True
    if word and _is_path(word, place):
        return True
    return sign[0] not in ":#" and not re.search(r"[./\d]", word)
