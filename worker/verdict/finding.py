"""The values that a finding is made of."""

from dataclasses import dataclass, field

from worker.verdict.evidence import Place, name_lines, name_place
from worker.verdict.verdict import FinalVerdict, Ruling, Verdict

CLAIMS = frozenset({Verdict.CHANGE, Verdict.TARGET, Verdict.FLAKY, Verdict.INFRASTRUCTURE})
"""The verdicts that say something, and so need evidence."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quote: one line, or up to `quotes.MAX_SPAN` lines separated by "\\n".

    `line` counts from 1 and is 0 if the place has no line numbers; `last` is the quote's last line.
    `url` links to the lines; it is "" until the quote is proven. `lead` is the indentation and the
    mark of the list item that it is. `lacks` says why the quote proves no cause and is only
    context, "" if it does prove one.
    """

    place: Place
    line: int
    text: str
    url: str = ""
    last: int = 0
    lead: str = field(default="- ", compare=False)
    lacks: str = field(default="", compare=False)

    @property
    def where(self) -> str:
        """The place and the lines, as the model was told to write them."""
        return f"{name_place(self.place)} {name_lines(self.line, self.last)}".rstrip()


@dataclass(frozen=True, slots=True)
class Unproven:
    """A quote that could not be proven, and why.

    `where` is the place as it was written, "" if that could not be read. `nearby_lines` are the
    lines that are really there. `lead` is that of the quote.
    """

    where: str
    text: str
    reason: str
    nearby_lines: tuple[str, ...] = ()
    lead: str = field(default="- ", compare=False)


@dataclass(frozen=True, slots=True)
class WithheldPart:
    """A part of an answer, as plain text, that must not appear in a note, and why."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """The `sentences` of a section that a note has no room for among its visible lines, and how
    many characters of the section are visible, or may be. `fits`: all of it will be visible once
    the other parts are no longer than they may be."""

    section: str
    sentences: tuple[str, ...]
    visible_size: int
    fits: bool = False


@dataclass(frozen=True, slots=True)
class FailedJobs:
    """A job that failed, or several of one matrix with the same error.

    `count` says how many of the matrix they are, "" for one job; `job_id` and `url` are those of
    the first one. `step` is the command that failed, "" if it is not known. `tests` are the tests
    or steps that failed in it, by the model's account.
    """

    name: str
    job_id: int = 0
    url: str = ""
    count: str = ""
    step: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer, taken apart.

    `unproven` counts the quotes that were left out; `unread` holds those of them that could not be
    read at all. `missing_evidence` says what evidence was missing, `next_time` how to keep it.
    `doubt` says why the verdict is not the model's, or why the cause may belong to another one.
    `is_view`: the verdict is the model's view, and nothing that is known speaks for it.
    `rulings` are what GitLab's record says of each error, `final_verdict` is the model's verdict as
    corrected by them. `failed_jobs` are the jobs that failed, () if they are not known; then
    `what_failed` tells of them.
    """

    verdict: Verdict = Verdict.UNKNOWN
    what_failed: str = ""
    cause: str = ""
    evidence: tuple[Evidence, ...] = ()
    to_do: str = ""
    details: str = ""
    unproven: int = 0
    unread: tuple[str, ...] = ()
    missing_evidence: str = ""
    next_time: str = ""
    doubt: str = ""
    is_view: bool = False
    rulings: tuple[Ruling, ...] = ()
    final_verdict: FinalVerdict | None = None
    failed_jobs: tuple[FailedJobs, ...] = ()
