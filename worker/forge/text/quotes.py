"""Chooses which quotes a note shows first, and the most telling line of a quote. Pure."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from worker.core.finding import Evidence
from worker.core.logs.excerpt.marks import find_marks
from worker.core.ports.evidence import JobArtifact, JobLog, RepoFile

LEAST_LETTERS = 2
"""The fewest letters and digits of a line that is shown alone."""

_CLEAR = frozenset({"judged", "named", "colon_error", "loud", "crossed"})
_TELLING = frozenset({"fault", "trouble", "diff", "expected"})
"""Marks of a line that names an error (`_CLEAR`), and of a line that may (`_TELLING`)."""

_WORD = re.compile(r"[a-z_]\w{3,}|\d[\w.]*\w")
_ANCHOR = re.compile(r"#L(\d{1,9})$")


def sort_quotes(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Returns each quote once; the first quote of each job comes before further ones.

    A repeated text comes last, unless it is from a file of the repository: the same line in two
    files may be what proves the cause.
    """
    quotes = list(dict.fromkeys(evidence))
    jobs = list(map(get_job_id, quotes))
    several = len({*jobs} - {0}) > 1

    def rank(at: int) -> int:
        before = {each.text for each in quotes[:at]}
        if quotes[at].text in before and not isinstance(quotes[at].place, RepoFile):
            return 2
        return int(several and jobs[at] > 0 and jobs[at] in jobs[:at])

    return [quotes[at] for at in sorted(range(len(quotes)), key=rank)]


def get_job_id(evidence: Evidence) -> int:
    """Returns the id of the job that the quote is from, or 0."""
    match evidence.place:
        case JobLog(job_id) | JobArtifact(job_id, _):
            return job_id
        case _:
            return 0


def find_words(text: str) -> frozenset[str]:
    """Returns the names and numbers of a text; lines about the same thing share some of them."""
    return frozenset(_WORD.findall(text.lower()))


def choose_line(quote: Evidence, about: Collection[str]) -> Evidence | None:
    """Returns the most telling line of a quote of several lines: one with an error, a changed one,
    or one with words of `about`. None if no line is legible."""
    lines = quote.text.split("\n")
    legible = [at for at, line in enumerate(lines) if _count_letters(line) >= LEAST_LETTERS]
    if not legible:
        return None
    best = max(legible, key=lambda at: (_weigh(lines[at], about), -at))
    url = _ANCHOR.sub(lambda found: f"#L{int(found[1]) + best}", quote.url)
    number = quote.line + best if quote.line else 0
    return replace(quote, text=lines[best], line=number, last=number, url=url)


def _count_letters(line: str) -> int:
    return sum(map(str.isalnum, line))


def _weigh(line: str, about: Collection[str]) -> int:
    found = find_marks(line)
    shared = len(find_words(line).intersection(about))
    return 3 * bool(found & _CLEAR) + bool(found & _TELLING) + min(shared, 3)
