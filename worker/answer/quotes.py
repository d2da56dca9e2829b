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
from collections.abc import Iterator
from dataclasses import dataclass, replace

from worker.conversation.answer_text import FENCE, find_fenced_lines
from worker.verdict.finding import (
    Evidence,
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
            lead = _read_lead(line)
            return Evidence(
                place, first, _strip_marks(found["text"]), last=max(first, last), lead=lead
            )
    return None


def _read_lead(line: str) -> str:
    mark = _MARK.match(line)
    return f"{mark[0]} " if mark else f"{line[: len(line) - len(line.lstrip())]}- "


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
    if not name or (replying and not _is_telling(name)):
        return None
    return ReportedTest(name.strip("`* \t"))


def _is_telling(name: str) -> bool:
    """Whether a test's name cannot be ordinary words: in a reply "test coverage: 80 %" is prose."""
    return name.startswith("`") or (" " not in name and bool(_JOINED.search(name)))


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
    if len(texts) < declared and skip in inside and FENCE.match(lines[skip]):
        return _add_block(quote, texts, lines, skip, inside)
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
        if _is_in_item(line, column) or (near and _names_file(line)):
            sure_end = following + 1 if sure_end == at else sure_end
        elif not near or at - start >= MAX_SPAN - 1 or not _may_belong(line):
            break
        at = following + 1
    end = at if at - start >= min(most, MAX_SPAN - 1) else sure_end
    return lines[start:end], end


def _find_text(lines: list[str], at: int) -> int:
    """Return the number of the first line from `at` on that is not empty."""
    return next((number for number in range(at, len(lines)) if lines[number].strip()), len(lines))


def _add_block(
    quote: Evidence, texts: list[str], lines: list[str], at: int, inside: set[int]
) -> tuple[Evidence, int]:
    mark = FENCE.match(lines[at])
    assert mark is not None  # the caller has looked
    end = at + 1
    while end in inside and not lines[end].strip().startswith(mark[1]):
        end += 1
    return _set_text(quote, [*texts, *lines[at + 1 : end]]), end + 1


def _may_begin_text(line: str, replying: bool, lazy: bool, column: int) -> bool:
    """Whether the text of a quote that has none yet begins on this line."""
    if _is_in_item(line, column):
        return True
    if replying or _ITEM.match(line) or FENCE.match(line):
        return False
    return not _read_head(line, False, bare=not lazy)


def _names_file(line: str) -> bool:
    """Whether the line begins with a file's name, as lines of a compiler or a traceback do."""
    named = not _ITEM.match(line) and _read_head(line, False)
    return bool(named) and not _read_head(line, False, bare=False)


def _may_belong(line: str) -> bool:
    """Whether a line that is not indented may continue a quote that declares more lines.

    It may begin like a list item, as lines of a diff do.
    """
    return not FENCE.match(line) and not _read_head(line, False, bare=bool(_ITEM.match(line)))


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
