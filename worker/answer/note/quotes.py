"""Chooses which quotes a note shows first, and the most telling line of a quote. Pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from worker.logs.bystanders import find_bystander
from worker.logs.line_kinds import PLAIN, TEST
from worker.logs.line_marks import find_marks
from worker.verdict.finding import Evidence, JobArtifact, JobLog, RepoFile

_LEAST_LETTERS = 2
"""The fewest letters and digits of a line that is shown alone."""

_CLEAR = frozenset({"judged", "named", "colon_error", "loud", "crossed"})
_TELLING = frozenset({"fault", "trouble", "diff", "expected", "opens"})
"""Marks of a line that names an error (`_CLEAR`), and of a line that may (`_TELLING`)."""

_FRAME = frozenset({"frame", "python_frame", "caret"})
_PLACE = re.compile(
    r"\s*(?:at |from |# )?(?:[^\s:]{1,300}[:(]\d{1,7}[):\d]{0,20}(?:in .{1,200})?"
    r"|#\d{1,4} {1,3}(?:0x|/|\S{1,200} ?\().{1,400})"
    r"(?:[\s:]{1,3}[\w.]{0,80})?(?: \+0x[0-9a-f]{1,16})?\s*$"
    r"|\s*[\w./(*)$<>:-]{3,300}\([^()\s]{0,100}\)$|E {2,8}\+ "
)
"""A frame of a stack, a place with at most the kind of error, or where pytest got a value."""

_ONLY_NUMBERED = re.compile(r"\s*\d{1,5}\) ")
_SAYS_HOW = re.compile(r" - \S|: [Ee]rror: ")

_ANNOUNCES = re.compile(r"(?::|<<< (?:FAILURE|ERROR)!)\s*$|^\s*Failure/Error: ")
_LONGEST_ANNOUNCEMENT = 120
_CONCRETE = re.compile(r"[\d\"'`_/]|\w[.:]\w|\w\(")
"""What names a value, a place or a thing. "Error: Unsupported argument" is only the kind of error;
which argument that is, another line says."""

_LEAST_ERROR = 20
"""The fewest characters that a line has from where it names the error."""

_LOGGED = re.compile(
    r"\S{0,40}\d\d:\d\d:\d\d\S{0,20} {1,8}(?:ERROR|FATAL|WARN|INFO)\b"
    r"(?=[^:]{0,200}(?:\[|\w\.\w))[^:]{0,200}:(?: |.{1,100} : )"
)
"""What a logger writes before a message: the time, the level, the thread and the class."""

_BEFORE = re.compile(
    r"(?:[\[(]?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S{0,20} {1,8}"
    r"|(?:\d{1,9} )?\[(?:ERROR|FATAL)\] (?:\[[\w-]{1,40}\] ){0,3}"
    r"|[^\s:()]{0,300}/[^\s:()]{1,300}\.\w{1,12}:\d{1,7}(?::\d{1,7})?: ?"
    r"|[^\s:()]{1,300}\.[A-Za-z]\w{0,4}:\d{1,7}:\d{1,7}: ?"
    r"|[^\s:()]{1,300}\.[A-Za-z]\w{0,8}\(\d{1,7},\d{1,7}\): ?"
    r"|(?:[ew]: )?file://[^\s:()]{1,300}:\d{1,7}:\d{1,7}:? "
    r"|FAIL - \S{1,200} - \S{1,100} - "
    r"|(?:error: )?-\[[\w.]{1,200} \w{1,200}\] : )+"
)
"""Times, a level, a place in a file and the name of a test: what stands before what is wrong, and
what a note names elsewhere."""

_LINK = re.compile(r"\S: ")

_LEAST_LINKS = 3
"""The fewest colons of a chain of errors, such as "Get X: tls: failed to verify: expired: …": the
reason of all others comes last. Two are enough if that one has several words of the cause."""

MAX_READ = 2_000
"""The most characters of a line that are searched."""

_CLEARLY_MORE = 2
"""How many more words of the cause another part of a line has to have to be shown instead."""

_MOST_STARTS = 200
_MOST_WORD = 20
"""The most characters of a word that are left out rather than a part of it shown."""

_REMEMBERED = 1024

_NAMES_ERROR = re.compile(
    r"(?<![\w./])(?:E|[Ee]rror|ERROR|[Ee]xpected|EXPECTED|[Ff]atal|FATAL|FAIL(?:ED)?|panic)"
    r"(?::|\[|(?<!: FAILED) -)"
    r"|(?<!\w)\w{0,80}(?:Error|Exception):"
)

_RESULT = re.compile(
    r"\s{0,40}\W{0,8}(?:got|actual|received|but was)\b|\s{0,40}\{value,", re.IGNORECASE
)
"""The value that a test found, which tells more than the one it expected."""

_WORD = re.compile(r"[a-z_]\w{3,}|\d[\w.]*\w|(?<=[\"'`])[a-z_]\w{1,2}(?=[\"'`])")
_CHECKSUM = re.compile(r"^([0-9a-f]{8})[0-9a-f]{4,120}$")
_ANCHOR = re.compile(r"#L(\d{1,9})$")


def sort_quotes(evidence: Sequence[Evidence], failed: Collection[int] = ()) -> list[Evidence]:
    """Return each quote once; the first quote of each of the `failed` jobs comes before further
    ones. Without `failed`, every job counts.

    A repeated text comes last, unless it is from a file of the repository: the same line in two
    files may be what proves the cause.
    """
    quotes = list(dict.fromkeys(evidence))
    ids = map(get_job_id, quotes)
    jobs = [job if job in failed or not failed else 0 for job in ids]
    several = len({*jobs} - {0}) > 1

    def rank(at: int) -> int:
        before = {each.text for each in quotes[:at]}
        if quotes[at].text in before and not isinstance(quotes[at].place, RepoFile):
            return 2
        return int(several and jobs[at] > 0 and jobs[at] in jobs[:at])

    return [quotes[at] for at in sorted(range(len(quotes)), key=rank)]


def get_job_id(evidence: Evidence) -> int:
    """Return the id of the job that the quote is from, or 0."""
    match evidence.place:
        case JobLog(job_id) | JobArtifact(job_id, _):
            return job_id
        case _:
            return 0


def find_words(text: str) -> frozenset[str]:
    """Return the names and numbers of a text, of a checksum its beginning; lines about the same
    thing share some of them."""
    return frozenset(_CHECKSUM.sub(r"\1", text) for text in _WORD.findall(text.lower()))


def choose_line(quote: Evidence, about: Collection[str]) -> Evidence | None:
    """Return the most telling line of a quote of several lines: one with an error, a changed one,
    or one with words of `about`. None if no line is legible."""
    lines = quote.text.split("\n")
    legible = [at for at, line in enumerate(lines) if sum(map(str.isalnum, line)) >= _LEAST_LETTERS]
    if not legible:
        return None
    best = max(legible, key=lambda at: (_weigh(lines[at], about, tuple(lines)), -at))
    url = _ANCHOR.sub(lambda found: f"#L{int(found[1]) + best}", quote.url)
    number = quote.line + best if quote.line else 0
    return replace(quote, text=lines[best], line=number, last=number, url=url)


@lru_cache(_REMEMBERED)
def cut_line(text: str, size: int, about: frozenset[str] = frozenset()) -> str:
    """Return at most `size` characters of a line.

    A line that is too long even after `_squeeze_line` is shown from where it names the error, as a
    long path or a time may stand before that; of a chain of errors, the last ones are shown. A part
    with clearly more of the words and numbers of `about` is shown instead.
    """
    for squeeze in (str, _squeeze_blanks, _squeeze_line):
        if len(squeeze(text)) <= size:
            return squeeze(text)
    text = _squeeze_line(text)
    begins = (found.start() for found in _NAMES_ERROR.finditer(text, 0, MAX_READ))
    logged = _LOGGED.match(text[:MAX_READ])
    start = max(
        (at for at in begins if len(text) - at >= _LEAST_ERROR),
        default=logged.end() if logged else 0,
    )
    links = [*_list_links(text, start)]
    reason = text[links[-1] :] if links[1:] else ""
    is_about = reason[:1].isalpha() and len(about.intersection(find_words(reason))) > 1
    if len(links) >= _LEAST_LINKS or is_about:
        rests = (at for at in links if _LEAST_ERROR <= len(text) - at <= size)
        start = next(rests, start)
    before = _BEFORE.match(text, start, MAX_READ)
    if before and len(text) - before.end() >= _LEAST_ERROR:
        start = before.end()
    if _VALUE.match(text, start) and len(text) - start <= size:
        begins = (found.start() for found in _PART.finditer(text, 0, start + 1))
        start = next((at for at in begins if len(text) - at <= size), start)
    if whole := _leave_out_labels(text[start:], size):
        return whole
    start = _find_reason(text, size, start, about)
    start = _find_part(text, size, start, about) if about else start
    rest = text[start:]
    if _find_end_outside(rest, size):
        rest = _squeeze_paths(rest)
    return _end_at_word(rest, size)


_VALUE = re.compile(r"(?i:expected|given|got|actual|received)\b")
"""What only says of a value what it should have been; of which value, stands before that."""

_PART = re.compile(r"(?<=\s)(?=\w)|(?<=\w/)(?=\w)")


def _list_links(text: str, start: int) -> Iterator[int]:
    """Yield where the errors of a chain begin after the first; a colon inside brackets or quotation
    marks joins none."""
    at = start
    inside = {mark: 0 for mark in '{["'}
    for found in _LINK.finditer(text, start, MAX_READ):
        for mark, end in ("{}", "[]", '""'):
            inside[mark] += text.count(mark, at, found.end())
            inside[mark] -= text.count(end, at, found.end()) * (mark != end)
        at = found.end()
        if inside["{"] <= 0 and inside["["] <= 0 and inside['"'] % 2 == 0:
            yield found.end()


_LABEL = re.compile(
    r"(?:FATAL ERROR|E|[Ee]rror|ERROR|[Ff]atal|FATAL|FAIL(?:ED)?)(?:\[\w-]{1,40}\])?(?: -|:) {1,8}"
)
_RULE = re.compile(r" {1,8}[\[(][\w/.…-]{2,200}[\])]$")
"""The name of a linter's rule, or of a project's file, at the end of what is wrong."""


def _leave_out_labels(text: str, size: int) -> str:
    """Return a text without a tool's word for an error at its beginning, the name of a rule at its
    end, or both, whichever is enough for `size` characters; "" if neither is, or if
    cutting the end instead loses fewer characters than that word has."""
    label, rule = _LABEL.match(text), _RULE.search(text)
    begin, end = label.end() if label else 0, rule.start() if rule else len(text)
    parts = text, text[:end], text[begin:], text[begin:end]
    fitting = next((part for part in parts if _LEAST_ERROR <= len(part) <= size), "")
    is_cut = end - len(_end_at_word(text[:end], size)) >= begin
    return fitting if is_cut or text.startswith(fitting) else ""


_REASON = re.compile(r" (?:[-–—]|because|due to) ")


def _find_reason(text: str, size: int, start: int, about: frozenset[str]) -> int:
    """Return where the part begins that ends in the reason ("… failed - out of memory"), if the
    reason shares a word with `about`, else `start`."""
    dashes = [found.end() for found in _REASON.finditer(text, start, MAX_READ)]
    rest = text[dashes[-1] :] if dashes else ""
    if not _LEAST_ERROR <= len(rest) <= size or about.isdisjoint(find_words(rest)):
        return start
    return text.find(" ", len(text) - size - 1) + 1


_BLANKS = re.compile(r"(?<=\S) {2,}(?=\S)")


_FOLDERS = re.compile(
    r"(?<![\w.~:/-])/(?:[^\s/:'\"(),;<>|]{1,100}/){2,24}"
    r"(?=(?:[^\s/:'\"(),;<>|]{1,100}/){2}[^\s/:'\"(),;<>|])"
)
"""The first folders of a long path: where the runner keeps the project."""


def _squeeze_line(text: str) -> str:
    """Return a text as `_squeeze_blanks` does, and of long paths only the last two folders."""
    return _FOLDERS.sub("…/", _squeeze_blanks(text))


_PARENTS = re.compile(
    r"(?<![\w.~:/-])(?:…/)?(?:[^\s/:'\"(),;<>|]{1,100}/){1,24}"
    r"(?=[^\s/:'\"(),;<>|]{1,100}/[^\s/:'\"(),;<>|])"
)


def _squeeze_paths(text: str) -> str:
    """Return a text as `_squeeze_line` does, and of every path only the last folder."""
    return _PARENTS.sub("…/", _squeeze_line(text))


def _squeeze_blanks(text: str) -> str:
    """Return a text without the blanks that pad its columns, of which a browser shows one."""
    return _BLANKS.sub(" ", text)


def find_cuts(line: str, part: str) -> tuple[bool, bool]:
    """Return whether a part that `cut_line` has made leaves out something of the line's beginning,
    and of its end, besides blanks and folders."""
    part, whole = _squeeze_blanks(part).rstrip(), _squeeze_blanks(line).rstrip()
    for squeeze in (_squeeze_line, _squeeze_paths):
        whole = whole if part in whole else squeeze(whole)
    is_cut = len(part) < len(whole)
    begins_later = is_cut and not whole.startswith(part)
    return begins_later, is_cut and (not begins_later or not whole.endswith(part))


def _end_at_word(text: str, size: int) -> str:
    """Return at most `size` characters: whole words, unless the last one is very long, and whole
    sentences if only the first few characters of another one would fit."""
    shown = text[:size].rstrip()
    sentence = shown.rfind(". ") + 1
    if 0 < size - sentence <= _MOST_WORD and len(text) > size:
        return shown[:sentence]
    if end := _find_end_outside(text, len(shown)):
        return text[:end].rstrip(" ([{<:,")
    inside = shown[-1:].isalnum() and text[len(shown) : len(shown) + 1].isalnum()
    blank = shown.rfind(" ")
    return shown[:blank].rstrip() if inside and 0 < size - blank <= _MOST_WORD else shown


_UNBROKEN = re.compile(
    r"(?<![\w\\])(?P<mark>[\"'`])(?:(?!(?P=mark)).){1,300}(?P=mark)(?!\w)|`[^`']{1,300}'"
    r"|‘[^’]{1,300}’|“[^”]{1,300}”|[^\s\"'`‘“(<\[]{0,300}[/\\][^\s\"'`’”]{1,300}"
)
"""A quotation or a path: a part of one misleads."""


def _find_end_outside(text: str, end: int) -> int:
    """Return where the quotation or the path begins that a cut at `end` would break; 0 if it breaks
    none, or if hardly anything stands before it."""
    broken = (
        found.start()
        for found in _UNBROKEN.finditer(text, 0, min(MAX_READ, end + 300))
        if found.start() < end < found.end()
    )
    start = next(broken, 0)
    return start if start >= _LEAST_BEFORE else 0


_LEAST_BEFORE = 12
"""The fewest characters that are shown rather than a part of a quotation or a path."""


def _find_part(text: str, size: int, start: int, about: frozenset[str]) -> int:
    """Return where the part with the most of the words begins, or `start` if it has not at least
    `_CLEARLY_MORE` than the one there. A number counts for two words, all other words for one."""

    def count(at: int) -> int:
        shared = find_words(text[at : at + size]).intersection(about)
        numbers = sum(each.replace(".", "").isdigit() for each in shared)
        return 2 * numbers + (len(shared) > numbers)

    last = min(len(text) - size, MAX_READ)
    starts = [found.end() for found in islice(re.finditer(r"\s", text[:last]), _MOST_STARTS)]
    if end := re.search(r"\s", text[last : last + size // 2]):
        starts.append(last + end.end())
    best = max(starts, key=count, default=start)
    return best if count(best) >= count(start) + _CLEARLY_MORE else start


def announces_next(text: str) -> bool:
    """Whether a line only says which failure the next lines are about."""
    return len(text) <= _LONGEST_ANNOUNCEMENT and bool(_ANNOUNCES.search(text))


_BYSTANDER, _HEADING, _NAME = -4, -2, -1
"""Weights of lines without a reason, whatever words they have: what any log has, what only says
what the next lines are about, and a frame of a stack or the name of a test."""


def _weigh(line: str, about: Collection[str], near: tuple[str, ...]) -> int:
    if find_bystander(line, near):
        return _BYSTANDER
    is_long = len(line) > _LONGEST_ANNOUNCEMENT
    if announces_next(line) or (is_long and line.rstrip().endswith(":")):
        return _HEADING
    found = find_marks(line)
    is_numbered = _ONLY_NUMBERED.match(line) and not _CLEAR & found
    names_test = is_numbered or (TEST.match(line.strip()) and not _SAYS_HOW.search(line))
    if found & _FRAME or _PLACE.match(line) or names_test:
        return _NAME
    marks = 3 * bool(found & _CLEAR) + bool(found & _TELLING)
    if not _CONCRETE.search(line):
        marks = min(marks, 0)
    elif PLAIN.match(line.strip()):
        marks += 2
    marks += bool(_RESULT.match(line))
    return marks + min(len(find_words(line).intersection(about)), 3)
