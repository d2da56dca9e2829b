"""The places of captured evidence: the documents that a quote may name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A failed job and the lines of its log that most likely explain it."""

    job_id: int
    name: str
    reason: str
    url: str
    excerpt: str
