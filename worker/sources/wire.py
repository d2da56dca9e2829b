"""GitLab's answers as types: only what is used, everything else ignored (wire-gitlab 4)."""

from pydantic import BaseModel, ConfigDict


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class User(_Wire):
    """A user inside another object."""

    id: int = 0
    username: str = ""


class Parent(_Wire):
    """The project that another one is a fork of."""

    id: int


class Project(_Wire):
    """A project."""

    id: int
    path_with_namespace: str
    web_url: str = ""
    forked_from_project: Parent | None = None


class Pipeline(_Wire):
    """A pipeline; `ref` is `refs/merge-requests/IID/…` for a merge request's own."""

    id: int
    project_id: int = 0
    sha: str = ""
    ref: str = ""
    status: str = ""
    source: str = ""
    web_url: str = ""
    created_at: str | None = None
    duration: float | None = None
    yaml_errors: str | None = None


class MergeRequest(_Wire):
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


class Commit(_Wire):
    """A commit of a merge request."""

    short_id: str = ""
    title: str = ""
    author_name: str = ""
    created_at: str | None = None


class DiffFile(_Wire):
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


class Runner(_Wire):
    """What a job ran on."""

    description: str | None = None


class Job(_Wire):
    """A job."""

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


class Note(_Wire):
    """A note of a thread."""

    id: int
    body: str
    author: User
    system: bool = False
    internal: bool = False


class Discussion(_Wire):
    """A thread with its notes, oldest first."""

    notes: tuple[Note, ...]


class Member(_Wire):
    """A member of a project, inherited ones included."""

    access_level: int
    state: str = "active"
