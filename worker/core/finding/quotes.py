"""The grammar of quotes. The workflow asks for one of these on each line of Evidence:

    - job 4711 line 1843: text of that line
    - job 4711 lines 1843-1845: text of the first line
      the second line
      the third line
    - file src/app.py line 12: text                (as of the pipeline's commit)
    - file src/app.py at main line 12: text
    - artifact 4711 reports/junit.xml line 9: text
    - test tests.test_app.test_sum: text of its message

Models take liberties with marks, brackets and links around it; those pass. What is read here is
only a claim: `proof` decides. Every pattern is bounded, for the text is hostile.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from worker.core.finding.sections import FENCE, fenced
from worker.core.finding.shape import Evidence
from worker.core.places import JobArtifact, JobLog, Place, RepoFile, ReportedTest

MAX_SPAN = 5
"""Lines of one quote."""


@dataclass(frozen=True, slots=True)
class Prose:
    """A line that is no quote. `item` says that it stands where a quote should: a bullet, code."""

    text: str
    item: bool = False


_BLANK = r"[ \t]{1,8}"
_ANY = r"[ \t]{0,8}"
_BULLET = r"(?:[-*+]|\d{1,3}[.)])"
_ITEM = re.compile(rf"[ \t>]*{_BULLET}[ \t]")
_NESTED = re.compile(rf"[ \t>]+(?!{_BULLET}[ \t])\S")
_LEAD = rf"[ \t>]{{0,40}}(?:{_BULLET}{_BLANK})?[*_`\[]{{0,3}}"
_AT = (
    r"(?:[*_`]{0,2}[ \t,]{1,8}(?:lines?|L)[ \t]{0,8}|:L?|\#L)(?P<first>\d{1,9})"
    r"(?:[ \t]{0,8}(?:-L?|–|to)[ \t]{0,8}(?P<last>\d{1,9}))?"
)
_TEXT = (
    r"[*_`\]]{0,3}(?:\([^()\s]{0,500}\))?[*_]{0,2}[ \t]{0,8}"
    r":(?:\*\*(?=[ \t]|$))?[ \t]{0,8}(?P<text>.*)"
)
_JOB = r"\#?(?P<job>\d{1,15})"
_PATH = r"`?(?P<path>[^\s`:]{1,1000}|[^`:]{1,1000}(?=`))`?"
_REF = r"(?:[ \t]{1,8}(?:at|@)[ \t]{1,8}`?(?P<ref>[\w./+-]{1,200})`?)?"
_NAME = r"(?P<name>`[^`]{1,500}`|(?:[^\s:]|:(?=[\w:])|[ ](?=[^\s:])){1,500}+)"


def _form(place: str, at: str = _AT) -> re.Pattern[str]:
    return re.compile(f"{_LEAD}{place}{at}{_TEXT}", re.IGNORECASE)


_FORMS = (
    _form(rf"job{_BLANK}{_JOB}(?:{_ANY}\([^()]{{1,200}}\))?"),
    _form(rf"artifact{_BLANK}(?:job{_BLANK})?{_JOB}[ \t,:/]{{1,3}}{_PATH}"),
    _form(rf"artifact{_BLANK}{_PATH}{_BLANK}(?:of|from|in){_BLANK}job{_BLANK}{_JOB}"),
    _form(rf"(?P<word>file{_BLANK}){_PATH}{_REF}"),
    _form(rf"test{_BLANK}{_NAME}", at=""),
)
_BARE_FILE = _form(rf"(?=[^\s]{{0,1000}}[./]){_PATH}{_REF}")
_JOINED = re.compile(r"\w(?:[./\[]|::)\w")


def scan(text: str, *, replying: bool = False) -> Iterator[Evidence | Prose]:
    """The quotes of a text and all its other lines, in order.

    In a reply (`replying`) only what cannot be meant otherwise is a quote, and nothing in code is.
    """
    lines = text.split("\n")
    inside = fenced(lines)
    at = 0
    while at < len(lines):
        line = lines[at]
        quote = None if replying and at in inside else _head(line, replying)
        if quote is None:
            yield Prose(line, item=at in inside or bool(_ITEM.match(line)))
            at += 1
        else:
            quote, at = _whole(quote, lines, at + 1, inside, replying)
            yield quote


def _head(line: str, replying: bool) -> Evidence | None:
    for form in _FORMS if replying else (*_FORMS, _BARE_FILE):
        found = form.match(line)
        if found and (place := _place(found.groupdict(), replying)):
            fields = found.groupdict()
            first, last = int(fields.get("first") or 0), int(fields.get("last") or 0)
            return Evidence(place, first, _bare(found["text"]), last=max(first, last))
    return None


def _place(fields: dict[str, str | None], replying: bool) -> Place | None:
    job, path, name = fields.get("job"), fields.get("path"), fields.get("name")
    if path:
        path = path.strip().rstrip(",")
        return JobArtifact(int(job), path) if job else RepoFile(path, fields.get("ref") or "")
    if job:
        return JobLog(int(job))
    if not name or (replying and not _telling(name)):
        return None
    return ReportedTest(name.strip("`* \t"))


def _telling(name: str) -> bool:
    """Whether a test's name cannot be ordinary words: in a reply "test coverage: 80 %" is prose."""
    return name.startswith("`") or (" " not in name and bool(_JOINED.search(name)))


def _whole(
    quote: Evidence, lines: list[str], at: int, inside: set[int], replying: bool
) -> tuple[Evidence, int]:
    """The quote with the lines of text below it, and the number of the line after."""
    wanted = min(MAX_SPAN, max(quote.last - quote.line + 1, 1))
    texts = [quote.text] if quote.text else []
    skip = at
    while not texts and skip < len(lines) and not lines[skip].strip():
        skip += 1
    if len(texts) < wanted and skip < len(lines) and skip in inside and FENCE.match(lines[skip]):
        return _with_block(quote, texts, lines, skip, inside)
    if not texts and skip < len(lines) and _begins(lines[skip], replying):
        texts, at = [lines[skip]], skip + 1
    while len(texts) < wanted and at < len(lines) and _continues(lines[at], replying):
        texts.append(lines[at])
        at += 1
    return _made(quote, texts), at


def _with_block(
    quote: Evidence, texts: list[str], lines: list[str], at: int, inside: set[int]
) -> tuple[Evidence, int]:
    mark = FENCE.match(lines[at])
    assert mark is not None  # the caller has looked
    end = at + 1
    while end in inside and not lines[end].strip().startswith(mark[1]):
        end += 1
    return _made(quote, [*texts, *lines[at + 1 : end]]), end + 1


def _begins(line: str, replying: bool) -> bool:
    """Whether a quote that has no text yet has it on this line."""
    if replying:
        return _continues(line, replying)
    return not _ITEM.match(line) and not FENCE.match(line) and _head(line, replying) is None


def _continues(line: str, replying: bool) -> bool:
    return bool(_NESTED.match(line)) and _head(line, replying) is None


def _made(quote: Evidence, texts: list[str]) -> Evidence:
    if len(texts) < 2:
        return replace(quote, text=_bare(texts[0]) if texts else "")
    return replace(quote, text="\n".join(each.strip() for each in texts[:MAX_SPAN]))


def _bare(text: str) -> str:
    """A quote without the blanks and backticks around it."""
    text = text.strip()
    ticks = len(text) - len(text.lstrip("`"))
    if ticks and text.endswith("`" * ticks) and len(text) > 2 * ticks:
        text = text[ticks:-ticks]
    elif text.endswith("`") and text.count("`") % 2:
        text = text[:-1]
    return text.strip()
