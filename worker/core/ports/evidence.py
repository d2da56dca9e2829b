"""The places of captured evidence: the documents that a quote may name."""

from dataclasses import dataclass


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
