"""The parts below a note's headline: quotes, what stands in place of one that is not proven, code;
and the templates (`templates/`) that they are filled into. All of it is harmless."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate

import jinja2

from worker.answer.failed_jobs import Detail, FailedLine
from worker.answer.note import fit
from worker.answer.note.older_note import link_pipeline
from worker.answer.note.quotes import cut_line, find_cuts
from worker.answer.proof import ReplyPart
from worker.conversation.answer_text import find_fenced_lines
from worker.conversation.context import Outcome, Status, Subject
from worker.safety.markdown import write_code_block, write_code_line
from worker.safety.neutralise import is_link_allowed, neutralise, neutralise_line
from worker.safety.redact import Redactor
from worker.safety.untrusted import visible
from worker.verdict.finding import (
    Evidence,
    JobArtifact,
    JobLog,
    Place,
    RepoFile,
    ReportedTest,
    RequestFile,
    TaskStep,
    Unproven,
    name_lines,
)

_MAX_QUOTE = 300
MAX_BRIEF = 480
MAX_SECTION = 4_000
MAX_REASON = 160

_REMEMBERED = 64
"""Lines and quotes that are cached: the candidates for a note have most of them in common."""

Hosts = frozenset[str]

SHAPES = Redactor()
"""Removes well-known shapes of tokens, whatever the process's own secrets are."""


def remove_tokens(text: str) -> str:
    """Return `text` without tokens, and without invisible characters, which could split one."""
    return SHAPES.redact_text(visible(text))


class Parts:
    """Splits a note into what is visible at once and what is folded.

    `longest`: see `fit.PartLimits`.
    """

    def __init__(self, hosts: Hosts, longest: int) -> None:
        self._hosts = hosts
        self._longest = longest
        self._folded: list[tuple[str, str]] = []
        self._lines: list[str] = []

    def write_brief(self, title: str, text: str, sentences: int) -> str:
        """Return the first sentences of a section on one line, and fold the rest."""
        text = visible(text).strip()
        line, rest = fit.begin_section(text, sentences, self._longest)
        self.fold_section(title, rest)
        return clean_line(line, self._hosts, MAX_SECTION)

    def write_jobs(self, title: str, failed: FailedLine, detail: Detail, tests: int = 1) -> str:
        """Return what failed on one line, and fold all of it if that is cut, or if the model says
        more of it."""
        line, whole = failed.write(detail, tests), failed.write(Detail.WHOLE)
        if line != whole:
            self.fold_section(title, whole if failed.jobs else failed.text)
        if failed.jobs and not failed.is_told(whole):
            self.fold_section("What the model says failed", failed.text)
        return clean_line(line, self._hosts, MAX_SECTION)

    def write_quotes(
        self,
        quotes: Sequence[Evidence],
        shown: Collection[int],
        lines: Mapping[int, Evidence],
        size: int = _MAX_QUOTE,
        about: frozenset[str] = frozenset(),
    ) -> list[str]:
        """Return the quotes whose numbers are `shown`, in order, and fold the others.

        A quote in `lines` takes one line: all of it if it is short, else its line in `lines`,
        marked and cut at `size` characters (see `cut_line`). Shortened ones are folded in full.
        """
        short = {
            at: _shorten(quotes[at], lines.get(at), size, about, self._hosts)
            for at in sorted(shown)
        }
        whole = {at: write_quote(quote, self._hosts) for at, quote in enumerate(quotes)}
        more = [whole[at] for at in whole if short.get(at) != whole[at]]
        self.fold_lines("More evidence" if short else "Evidence", more)
        return list(short.values())

    def fold_section(self, title: str, text: str) -> None:
        """Fold a section."""
        if text.strip():
            self._folded.append((title, text))

    def get_folded(self, title: str) -> str:
        """Return what is folded under this title; "" if there is no such section."""
        return "\n\n".join(text for name, text in self._folded if name == title)

    def fold_lines(self, title: str, lines: list[str]) -> None:
        """Fold lines, which are harmless already."""
        if lines:
            self._lines += [""] * bool(self._lines)
            self._lines += [f"**{title}**", "", *(f"- {line}" for line in lines)]

    def render_folded(self, room: int) -> str:
        """Return all folded sections, each cut at `room` characters."""
        sizes = accumulate(len(line) + 1 for line in self._lines)
        whole = [line for line, size in zip(self._lines, sizes, strict=True) if size <= room]
        sections = [drop_empty_headings("\n".join(whole))]
        for title, text in self._folded:
            heading = f"**{title}**\n\n" if title else ""
            said = drop_empty_headings(remove_tokens(text))
            harmless = neutralise(said, self._hosts, room)
            sections += [heading + harmless] if harmless.strip() else []
        return "\n\n".join(filter(None, sections))


_HEADING = re.compile(r" {0,3}(?:(#{1,6})(?:[ \t].{0,200})?|\*\*[^*.!?]{1,80}\*\*:?[ \t]*)")
_BOLD, _CONTENT = 7, 99
"""The level of a heading in bold, and of what is none."""


def drop_empty_headings(text: str) -> str:
    """Return a text without headings that nothing follows before the next one of their level."""
    lines, kept, following = text.split("\n"), list[str](), 0
    fenced = find_fenced_lines(lines)
    for number in reversed(range(len(lines))):
        heading = None if number in fenced else _HEADING.fullmatch(lines[number])
        level = len(heading[1] or "*" * _BOLD) if heading else _CONTENT
        if heading is None or following > level:
            kept.append(lines[number])
            following = level if lines[number].strip() else following
    return "\n".join(reversed(kept)).strip("\n")


@lru_cache(_REMEMBERED)
def clean_line(text: str, hosts: Hosts, limit: int = MAX_BRIEF) -> str:
    return neutralise_line(remove_tokens(text), hosts, limit)


@lru_cache(_REMEMBERED)
def write_quote(evidence: Evidence, hosts: Hosts, column: int = 2) -> str:
    """Return a proven quote as the text of a list item that begins in `column`; a place outside
    `hosts` is named without a link."""
    linked = _link_place(evidence, hosts)
    lines = [_cut_text(line) for line in remove_tokens(evidence.text).split("\n")]
    if len(lines) == 1:
        return f"{linked}: {write_code_line(lines[0])}"
    return f"{linked}:\n{write_code_block(chr(10).join(lines), indent=column)}"


def _link_place(evidence: Evidence, hosts: Hosts) -> str:
    place = ", ".join(
        filter(None, (_write_place(evidence.place), name_lines(evidence.line, evidence.last)))
    )
    return f"[{place}]({evidence.url})" if is_link_allowed(evidence.url, hosts) else place


_MOST_BESIDE = 3
"""The most lines of a quote that stand beside one another."""


def _shorten(
    quote: Evidence, line: Evidence | None, size: int, about: frozenset[str], hosts: Hosts
) -> str:
    """Return one `line` of a quote, all lines if that is None, each cut at `size` characters. Marks
    say what is left out. A short quote of a few lines is shown whole, beside one another."""
    beside = [text.strip() for text in remove_tokens(quote.text).split("\n") if text.strip()]
    is_short = len(" / ".join(beside)) <= min(size, fit.SHORT_QUOTE)
    if line and is_short and len(beside) <= _MOST_BESIDE:
        return f"{_link_place(quote, hosts)}: {' / '.join(map(write_code_line, beside))}"
    shown = line or quote
    lines = remove_tokens(shown.text).split("\n")
    parts = [cut_line(text, size, about) for text in lines]
    place = _link_place(shown, hosts)
    if len(lines) > 1:
        mark = " (cut)" if parts != lines else ""
        return f"{place}{mark}:\n{write_code_block(chr(10).join(parts), indent=2)}"
    begins_later, ends_earlier = find_cuts(lines[0], parts[0])
    before, after = "… " * begins_later, " …" * ends_earlier
    mark = f" (1 of {quote.text.count(chr(10)) + 1} lines)" if line else ""
    return f"{place}: {before}{write_code_line(parts[0])}{after}{mark}"


def write_unproven(unproven: Unproven) -> str:
    """Return what replaces a quote that could not be proven; it never holds its text."""
    where = write_code_line(_cut_text(remove_tokens(unproven.where)))
    return f"*(a quote from {where} was left out: it could not be proven)*"


def write_answer_parts(parts: Sequence[ReplyPart], hosts: Hosts, room: int) -> str:
    """Return the parts of an answer as Markdown; each text is cut at `room` characters."""
    texts = ""
    listed = False
    for part in parts:
        if isinstance(part, str):
            piece = neutralise(remove_tokens(part), hosts, room)
        else:
            # The list item that it was in the model's text.
            mark = part.lead.lstrip()
            indent = _find_outer_column(texts, len(part.lead.expandtabs(4)) - len(mark))
            column = indent + len(mark)
            piece = " " * indent + mark
            if isinstance(part, Evidence):
                piece += write_quote(part, hosts, column)
            else:
                piece += write_unproven(part)
        both = listed and not isinstance(part, str)
        texts += ("\n" if both else "\n\n" if texts else "") + piece
        listed = not isinstance(part, str)
    return texts


_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)]) +")


def _find_outer_column(before: str, indent: int) -> int:
    """Return the column where the text of the enclosing list item begins, for a line with this
    indentation; 0 if it belongs to none."""
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


def _write_place(place: Place) -> str:
    match place:
        case JobLog(job_id):
            return f"job {job_id}"
        case RepoFile(path, ref):
            name = write_code_line(_cut_text(remove_tokens(path)))
            return f"{name} at {write_code_line(ref)}" if ref else name
        case JobArtifact(job_id, path):
            return f"{write_code_line(_cut_text(remove_tokens(path)))} of job {job_id}"
        case ReportedTest(name):
            return f"test {write_code_line(_cut_text(remove_tokens(name)))}"
        case TaskStep(task_run, step):
            task = write_code_line(_cut_text(remove_tokens(task_run)))
            return f"step {write_code_line(step)} of {task}"
        case RequestFile(_, path):
            return f"{write_code_line(_cut_text(remove_tokens(path)))} of Testing Farm"


def _cut_text(text: str) -> str:
    return text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 1] + "…"


# --------------------------------------------------------------------------------------- templates


@cache
def _get_environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("worker.answer.note"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # Markdown: `neutralise` escapes what others wrote
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_template(name: str, **values: object) -> str:
    return _get_environment().get_template(f"{name}.md.j2").render(**values).rstrip("\n")


# --------------------------------------------------------------------------------- why a run ended


def say_why_stopped(outcome: Outcome, subject: Subject, limit: int = MAX_BRIEF) -> str:
    """Return a sentence on a run that ended early; "" for any other."""
    if outcome.status is Status.DONE:
        return ""
    reason = write_reason(outcome.reason, subject, limit).rstrip(".") or "the run ended early"
    return f"This is what was found before it stopped: {reason}."


_OVERTAKEN = re.compile(r"superseded by pipeline (\d{1,18})(, which passed)?")


def write_reason(text: str, subject: Subject, limit: int = MAX_BRIEF) -> str:
    """Return why a run ended, made harmless, with a link to a pipeline that superseded it."""
    if not (found := _OVERTAKEN.fullmatch(text)):
        return clean_line(text, frozenset(), limit)
    return f"superseded by {link_pipeline(subject, int(found[1]))}{found[2] or ''}"
