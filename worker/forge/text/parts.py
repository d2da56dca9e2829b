"""What notes are made of: folded sections, brief lines, quotes. All of it comes out harmless."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from worker.core.finding import Evidence, Said, Unproven
from worker.core.ports import FailedJob
from worker.core.ports.evidence import (
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    RequestFile,
    TaskStep,
    lines_of,
)
from worker.core.text.redact import Redactor
from worker.core.text.untrusted import one_line, visible
from worker.forge.defence.neutralise import inline, neutralise
from worker.forge.defence.spans import allowed
from worker.forge.text import fit
from worker.forge.text.code import code_block, code_line

MAX_QUOTE = 300
MAX_BRIEF = 480
MAX_SECTION = 4_000
MAX_NAME = 80
MAX_REASON = 160

Hosts = frozenset[str]

SHAPES = Redactor()
"""Takes out well-known token shapes, whatever the process's own secrets are."""


def without_tokens(text: str) -> str:
    """`text` without unseen characters, which would split a token, and without tokens."""
    return SHAPES.text(visible(text))


class Parts:
    """Splits what is shown at once from what is folded away. See `fit.Room` for `longest`."""

    def __init__(self, hosts: Hosts, longest: int) -> None:
        self._hosts = hosts
        self._longest = longest
        self._folded: list[tuple[str, str]] = []
        self._lines: list[str] = []

    def brief(self, title: str, text: str, sentences: int) -> str:
        """The first sentences of a section on one line; what is not on that line is folded."""
        text = visible(text).strip()
        line, rest = fit.begin_section(text, sentences, self._longest)
        self.add(title, rest)
        return clean(line, self._hosts, MAX_SECTION)

    def jobs(self, title: str, text: str, level: int) -> str:
        """What failed on one line, as short as `fit.shorten_jobs` makes it."""
        text = visible(text).strip()
        line = fit.shorten_jobs(text, level)
        if line != fit.shorten_jobs(text, 0):
            self.add(title, text)
        return clean(line, self._hosts, MAX_SECTION)

    def quotes(self, evidence: Sequence[Evidence], count: int, *, whole: bool) -> list[str]:
        """The first `count` quotes, each with all its lines or only the first one; the others are
        folded, and so are the rest of those lines. A line that is quoted twice is shown once.
        The order is that of `sort_quotes`."""
        found = sort_quotes(evidence)
        shown = [each if whole else first_line(each) for each in found[:count]]
        more = [
            *found[count:],
            *(old for old, new in zip(found, shown, strict=False) if old != new),
        ]
        lines = [quote(each, self._hosts) for each in more]
        self.add_lines("More evidence" if shown else "Evidence", lines)
        return [quote(each, self._hosts) for each in shown]

    def add(self, title: str, text: str) -> None:
        """Fold a section away."""
        if text.strip():
            self._folded.append((title, text))

    def folds(self, title: str) -> bool:
        """Whether something is folded away under the title."""
        return any(name == title for name, _ in self._folded)

    def add_lines(self, title: str, lines: list[str]) -> None:
        """Fold lines away that are harmless already."""
        if lines:
            self._lines += [""] * bool(self._lines)
            self._lines += [f"**{title}**", "", *(f"- {line}" for line in lines)]

    def folded(self, room: int) -> str:
        """All that is folded away; each section cut at `room` characters."""
        sections = ["\n".join(_whole(self._lines, room))] if self._lines else []
        for title, text in self._folded:
            heading = f"**{title}**\n\n" if title else ""
            sections.append(heading + neutralise(without_tokens(text), self._hosts, room))
        return "\n\n".join(sections)


def _whole(lines: list[str], room: int) -> list[str]:
    """As many of the lines as fit into `room` characters, none of them cut."""
    sizes = accumulate(len(line) + 1 for line in lines)
    return [line for line, size in zip(lines, sizes, strict=True) if size <= room]


def clean(text: str, hosts: Hosts, limit: int = MAX_BRIEF) -> str:
    return inline(without_tokens(text), hosts, limit)


def sentence(text: str) -> str:
    """`text`, harmless already, as a sentence; what is no word stays as it is, for "x86-64" with a
    capital names an issue."""
    if text[1:2].islower() or text[1:2] == " ":
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def quote(evidence: Evidence, hosts: Hosts, column: int = 2) -> str:
    """A proven quote as an item of a list, without the item's mark, whose text begins in `column`;
    a place that `hosts` do not have is named without a link."""
    place = ", ".join(
        filter(None, (_place(evidence.place), lines_of(evidence.line, evidence.last)))
    )
    linked = f"[{place}]({evidence.url})" if allowed(evidence.url, hosts) else place
    lines = [_cut(line) for line in without_tokens(evidence.text).split("\n")]
    if len(lines) == 1:
        return f"{linked}: {code_line(lines[0])}"
    return f"{linked}:\n{code_block(chr(10).join(lines), indent=column)}"


def sort_quotes(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Each quote once: of several jobs the first quote of each comes before further ones of any.

    One whose text was quoted before comes last, but of files: that two of them have the same line
    may be what proves the cause.
    """
    quotes = list(dict.fromkeys(evidence))
    jobs = list(map(job_of, quotes))
    several = len({*jobs} - {0}) > 1

    def rank(at: int) -> int:
        before = {each.text for each in quotes[:at]}
        if quotes[at].text in before and not isinstance(quotes[at].place, RepoFile):
            return 2
        return int(several and jobs[at] > 0 and jobs[at] in jobs[:at])

    return [quotes[at] for at in sorted(range(len(quotes)), key=rank)]


def job_of(evidence: Evidence) -> int:
    """The id of the job that the quote is from, or 0."""
    match evidence.place:
        case JobLog(job_id) | JobArtifact(job_id, _):
            return job_id
        case _:
            return 0


def first_line(evidence: Evidence) -> Evidence:
    """The quote with its first line only."""
    line, several, _ = evidence.text.partition("\n")
    return replace(evidence, text=line, last=evidence.line) if several else evidence


def struck(unproven: Unproven) -> str:
    """What stands in the place of a quote that could not be proven; never its text."""
    where = code_line(_cut(without_tokens(unproven.where)))
    return f"*(a quote from {where} was left out: it could not be proven)*"


def said(parts: Sequence[Said], hosts: Hosts, room: int) -> str:
    """An answer's parts as Markdown; each text is cut at `room` characters."""
    texts = ""
    listed = False
    for part in parts:
        if isinstance(part, str):
            piece = neutralise(without_tokens(part), hosts, room)
        else:
            piece = _item(part, texts, hosts)
        both = listed and not isinstance(part, str)
        texts += ("\n" if both else "\n\n" if texts else "") + piece
        listed = not isinstance(part, str)
    return texts


_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)]) +")


def _item(part: Evidence | Unproven, before: str, hosts: Hosts) -> str:
    """A quote as the item of the list that it was, in its place in the text `before`."""
    mark = part.lead.lstrip()
    indent = _outer_column(before, len(part.lead.expandtabs(4)) - len(mark))
    column = indent + len(mark)
    text = quote(part, hosts, column) if isinstance(part, Evidence) else struck(part)
    return " " * indent + mark + text


def _outer_column(before: str, indent: int) -> int:
    """The column in which the text of the last item begins that a line with this indentation
    belongs to; 0 where it belongs to none."""
    inside = False
    for line in reversed(before.split("\n")):
        fence = line.lstrip().startswith("```")
        inside ^= fence
        if inside or fence:
            continue
        item = _ITEM.match(line)
        if item and item.end() <= indent:
            return item.end()
        if line and not item and not line.startswith(" "):
            return 0
    return 0


def _place(place: Place) -> str:
    match place:
        case JobLog(job_id):
            return f"job {job_id}"
        case RepoFile(path, ref):
            name = code_line(_cut(without_tokens(path)))
            return f"{name} at {code_line(ref)}" if ref else name
        case JobArtifact(job_id, path):
            return f"{code_line(_cut(without_tokens(path)))} of job {job_id}"
        case ReportedTest(name):
            return f"test {code_line(_cut(without_tokens(name)))}"
        case TaskStep(task_run, step):
            return f"step {code_line(step)} of {code_line(_cut(without_tokens(task_run)))}"
        case RequestFile(_, path):
            return f"{code_line(_cut(without_tokens(path)))} of Testing Farm"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"


def job_line(job: FailedJob, hosts: Hosts) -> str:
    name = f"job {job.job_id}" if job.job_id else "its page"
    linked = f"[{name}]({job.url})" if allowed(job.url, hosts) else name if job.job_id else ""
    why = f": {code_line(one_line(without_tokens(job.reason), MAX_REASON))}" if job.reason else ""
    where = f" ({linked})" if linked else ""
    return f"{code_line(one_line(without_tokens(job.name), MAX_NAME))}{where}{why}"
