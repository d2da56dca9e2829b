"""The values that a finding is made of: the places of evidence, its quotes, its verdict. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from worker.verdict.jobs import FailingJob
from worker.verdict.verdict import FinalVerdict, Ruling, Verdict


@dataclass(frozen=True, slots=True)
class JobLog:
    """The cleaned log of a job; its lines are those of the job's page."""

    job_id: int


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file of the repository. `ref` is a branch, tag or commit; "" is the pipeline's commit."""

    path: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class JobArtifact:
    """A file in a job's artifacts."""

    job_id: int
    path: str


@dataclass(frozen=True, slots=True)
class ReportedTest:
    """The entry of a failed test in the pipeline's test report; it has no line numbers."""

    name: str


@dataclass(frozen=True, slots=True)
class TaskStep:
    """The log of a step of a Tekton TaskRun, as it was fetched."""

    task_run: str
    step: str


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A file that a Testing Farm request left, as it was fetched."""

    request_id: str
    path: str


Place = JobLog | RepoFile | JobArtifact | ReportedTest | TaskStep | RequestFile


def name_place(place: Place) -> str:
    """Name the place in the words of the workflow's Evidence section, without a line."""
    match place:
        case JobLog(job_id):
            return f"job {job_id}"
        case RepoFile(path, ref):
            return f"file {path} at {ref}" if ref else f"file {path}"
        case JobArtifact(job_id, path):
            return f"artifact {job_id} {path}"
        case ReportedTest(name):
            return f"test {name}"
        case TaskStep(task_run, step):
            return f"konflux {task_run} {step}"
        case RequestFile(request_id, path):
            return f"testing farm {request_id} {path}"


def name_lines(first: int, last: int) -> str:
    """ "line 12", "lines 12-14", or "" where there are no numbers."""
    if not first:
        return ""
    return f"lines {first}-{last}" if last > first else f"line {first}"


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
    """Failing jobs that a note names together: one, several of one matrix with the same error, or
    all that have one cause. The first one represents them.

    `tests` are the tests or steps that failed in them, by the model's account. `reason` says why
    they failed, where there is no finding.
    """

    jobs: tuple[FailingJob, ...]
    tests: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer, taken apart."""

    verdict: Verdict = Verdict.UNKNOWN
    what_failed: str = ""
    cause: str = ""
    evidence: tuple[Evidence, ...] = ()
    to_do: str = ""
    details: str = ""
    unproven: int = 0
    """How many quotes were left out."""
    unread: tuple[str, ...] = ()
    """Those of them that could not be read at all."""
    missing_evidence: str = ""
    """What evidence was missing."""
    next_time: str = ""
    """How to keep it."""
    doubt: str = ""
    """Why the verdict is not the model's, or the cause may belong to another one."""
    is_view: bool = False
    """Whether the verdict is the model's view, and nothing that is known speaks for it."""
    rulings: tuple[Ruling, ...] = ()
    """What GitLab's record says of each error."""
    final_verdict: FinalVerdict | None = None
    """The model's verdict as corrected by them."""
    failed_jobs: tuple[FailedJobs, ...] = ()
    """The jobs that failed, () if they are not known; then `what_failed` tells of them."""


class Captures(Protocol):
    """The documents of the session's sources as the model was given them, to prove quotes."""

    def read_lines(self, place: Place) -> Sequence[str]:
        """Read the lines of a document of the session's project; line N is item N - 1.

        Raises SourceError or ArgumentError with the reason why there are none.
        """
        ...

    def link_lines(self, place: Place, first: int, last: int) -> str:
        """Make a link to these lines of a place that `read_lines` has read, "" if there is none."""
        ...
