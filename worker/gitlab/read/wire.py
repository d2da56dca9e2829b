"""Types of GitLab's answers, with the fields that are used: https://docs.gitlab.com/api/."""

import re
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from worker.verdict.audience import Access

OF_MR = re.compile(r"refs/merge-requests/(\d{1,18})/(\w+)")
"""The ref of a merge request's own pipeline: the merge request's iid, and the kind of ref."""


class Answer(BaseModel):
    """An answer of GitLab or another system; fields that are not used are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class User(Answer):
    """A user, as other objects name them."""

    id: int = 0
    username: str = ""


class Account(Answer):
    """What GitLab says of a single user."""

    bot: bool = False


class _Parent(Answer):
    """The project that another one is a fork of."""

    id: int


class Project(Answer):
    """A project. `public_jobs` is GitLab's "project-based pipeline visibility"."""

    id: int
    path_with_namespace: str
    web_url: str = ""
    forked_from_project: _Parent | None = None
    visibility: str = ""
    public_jobs: bool = True
    builds_access_level: str = ""
    merge_requests_access_level: str = ""
    repository_access_level: str = ""
    ci_config_path: str | None = None
    default_branch: str | None = None
    is_archived: bool = Field(default=False, alias="archived")

    @property
    def access(self) -> Access:
        """The project's visibility and the access levels of its features."""
        return Access(
            self.id,
            self.visibility,
            self.public_jobs,
            self.builds_access_level,
            self.merge_requests_access_level,
            self.repository_access_level,
        )


class Pipeline(Answer):
    """A pipeline; `ref` is `refs/merge-requests/IID/…` for a merge request's own."""

    id: int
    project_id: int = 0
    sha: str = ""
    ref: str = ""
    status: str = ""
    source: str = ""
    web_url: str = ""
    created_at: str | None = None
    updated_at: str | None = None
    finished_at: str | None = None
    duration: float | None = None
    yaml_errors: str | None = None
    tag: bool = False

    @property
    def is_merge_result(self) -> bool:
        """Whether it runs on a commit that GitLab made of the merge request and the target branch,
        for merged results or in a merge train."""
        kind = OF_MR.fullmatch(self.ref)
        return kind is not None and kind[2] in ("merge", "train")


class _DiffRefs(Answer):
    """The commits that a merge request's newest diff lies between."""

    base_sha: str
    start_sha: str
    head_sha: str


class MergeRequest(Answer):
    """A merge request; `sha` is its head, `head_pipeline` is given for a single one only."""

    iid: int
    title: str = ""
    description: str | None = None
    state: str
    draft: bool = False
    author: User | None = None
    created_at: str | None = None
    source_branch: str = ""
    target_branch: str = ""
    source_project_id: int | None = None
    target_project_id: int
    labels: tuple[str, ...] = ()
    detailed_merge_status: str = ""
    changes_count: str | None = None
    sha: str | None = None
    web_url: str
    head_pipeline: Pipeline | None = None
    diff_refs: _DiffRefs | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None

    @property
    def is_from_fork(self) -> bool:
        """Whether its source branch is in another project, or in a deleted one."""
        return self.source_project_id != self.target_project_id


class Branch(Answer):
    """A branch."""

    name: str


class Commit(Answer):
    """A commit of a merge request or a branch."""

    id: str = ""
    short_id: str = ""
    title: str = ""
    message: str | None = None
    author_name: str = ""
    created_at: str | None = None
    committed_date: str | None = None
    parent_ids: tuple[str, ...] = ()


class DiffFile(Answer):
    """One file of a diff; `diff` holds hunks, and nothing if `collapsed` or `too_large`."""

    old_path: str
    new_path: str
    a_mode: str | None = None
    b_mode: str | None = None
    new_file: bool = False
    renamed_file: bool = False
    deleted_file: bool = False
    generated_file: bool | None = None
    collapsed: bool | None = None
    too_large: bool | None = None
    diff: str = ""


class Bridge(Answer):
    """A job that starts another pipeline: a child's, or one of another project."""

    id: int = 0
    name: str = ""
    stage: str = ""
    status: str = ""
    allow_failure: bool = False
    failure_reason: str | None = None
    downstream_pipeline: Pipeline | None = None


class _ArtifactFile(Answer):
    """One of the files a job has left: the archive, the log, a report."""

    file_type: str = ""
    size: int | None = None


class Runner(Answer):
    """What a job ran on, or may run on: then with its state."""

    id: int = 0
    description: str | None = None
    active: bool | None = None
    status: str = ""


class JobRef(NamedTuple):
    """A job's name, after that of the trigger job that has started its pipeline; this is "" for a
    job of the pipeline that is looked at. Children of one pipeline may have jobs of one name."""

    started_by: str
    name: str

    def __str__(self) -> str:
        return f"{self.started_by} > {self.name}" if self.started_by else self.name


class Job(Answer):
    """A job; `pipeline` is there in GitLab's lists and tells the project that it ran in.

    GitLab does not tell `started_by`: it is set where the job was found through a trigger job.
    """

    id: int
    name: str = ""
    stage: str = ""
    status: str = ""
    failure_reason: str | None = None
    allow_failure: bool = False
    started_at: str | None = None
    finished_at: str | None = None
    erased_at: str | None = None
    duration: float | None = None
    web_url: str = ""
    runner: Runner | None = None
    tag_list: tuple[str, ...] = ()
    artifacts: tuple[_ArtifactFile, ...] = ()
    artifacts_expire_at: str | None = None
    pipeline: Pipeline | None = None
    started_by: str = ""

    @property
    def family(self) -> str:
        """The name that all variants of a matrix or parallel job share, or the job's own."""
        return str(parse_dimensions(self.name).get("group", self.name))

    @property
    def ref(self) -> JobRef:
        """What tells the job from others of its pipeline and of those that this has started."""
        return JobRef(self.started_by, self.name)


class _Deployable(Answer):
    """The job that deploys."""

    id: int


class Deployment(Answer):
    """A deployment to an environment."""

    deployable: _Deployable | None = None


class _TestCase(Answer):
    """One test of a report."""

    status: str = ""
    name: str = ""
    classname: str | None = None
    file: str | None = None
    execution_time: float | None = None
    system_output: Any = None
    stack_trace: str | None = None


class _TestCounts(Answer):
    """How many tests a suite or a report has."""

    total_count: int = 0
    success_count: int = 0
    failed_count: int = 0
    skipped_count: int = 0
    error_count: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The counts by the names that the model is told."""
        return {
            "tests": self.total_count,
            "passed": self.success_count,
            "failed": self.failed_count,
            "errors": self.error_count,
            "skipped": self.skipped_count,
        }


class _TestSuite(_TestCounts):
    """The tests of one job, by its name; `suite_error` if its report cannot be read."""

    name: str = ""
    suite_error: str | None = None
    test_cases: tuple[_TestCase, ...] = ()


class TestReport(_TestCounts):
    """What the jobs of a pipeline have reported of their tests."""

    total_time: float | None = None
    test_suites: tuple[_TestSuite, ...] = ()


class TreeEntry(Answer):
    """A file or folder of a tree."""

    path: str
    type: str = "blob"


class Comparison(Answer):
    """What lies between two commits."""

    commits: tuple[Commit, ...] = ()
    diffs: tuple[DiffFile, ...] = ()
    compare_timeout: bool = False


class Include(Answer):
    """A file that was merged into a CI configuration, and the project whose file asked for it."""

    type: str = ""
    location: str = ""
    extra: dict[str, Any] = {}
    context_project: str | None = None


class Lint(Answer):
    """The CI configuration with everything it includes, and what is wrong with it.

    `includes` is None where GitLab does not say what it has merged.
    """

    valid: bool = False
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    merged_yaml: str | None = None
    includes: tuple[Include, ...] | None = None


class CommitStatus(Answer):
    """What a job or an outside system has reported on a commit."""

    id: int = 0
    name: str = ""
    status: str = ""
    description: str | None = None
    target_url: str | None = None
    ref: str | None = None
    allow_failure: bool = False
    created_at: str | None = None
    pipeline_id: int | None = None


class Position(Answer):
    """Where in the diff a note stands."""

    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class Note(Answer):
    """A note of a thread."""

    id: int
    body: str
    author: User
    system: bool = False
    internal: bool = False
    created_at: str | None = None
    resolved: bool = False
    position: Position | None = None


class Discussion(Answer):
    """A thread with its notes, oldest first."""

    id: str = ""
    notes: tuple[Note, ...]


_MATRIX = re.compile(r"(?P<group>.+?): \[(?P<values>.+)\]")
_PARALLEL = re.compile(r"(?P<group>.+?)[ :]+(?P<part>\d+)/(?P<total>\d+)")


def parse_dimensions(name: str) -> dict[str, Any]:
    """Parse `a: [1, x]` as `group` and `matrix`, `a 2/5` as `group` and `part`; others as {}."""
    if found := _MATRIX.fullmatch(name):
        return {"group": found["group"], "matrix": found["values"].split(", ")}
    if found := _PARALLEL.fullmatch(name):
        return {"group": found["group"], "part": f"{found['part']}/{found['total']}"}
    return {}
