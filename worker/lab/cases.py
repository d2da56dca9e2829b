"""A case: a folder with GitLab's data on a failure, and what a note about it is expected to say.

case.yaml     the project, the merge request, its pipelines, runs on the target branch
expect.yaml   the verdict, patterns for the cause, lines that prove it
base/         files of the target branch, possibly not all
head/         the files that the merge request changes, after the change
logs/         the jobs' logs

A case may be somebody else's: what is read of it goes to a model. So no link leads out of its
folder, and nothing but plain files is read.
"""

import gzip
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from worker.errors import ConfigError
from worker.verdict.verdict import Verdict

CASE, EXPECT = "case.yaml", "expect.yaml"
_MOST_FILE = 64 << 20


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _check_path(path: str) -> str:
    if path.startswith("/") or ".." in Path(path).parts:
        raise ValueError(f"{path!r} leads out of the case's folder")
    return path


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return pattern


_Inside = Annotated[str, AfterValidator(_check_path)]
_Pattern = Annotated[str, AfterValidator(_check_pattern)]


class JobEntry(_Entry):
    """A job. If several have one name, all but the last are earlier attempts. `log` is a file of
    the case, gzipped if its name ends in .gz, or "". Statuses and reasons are GitLab's."""

    name: str
    stage: str = "test"
    status: str = "success"
    failure_reason: str | None = None
    allow_failure: bool = False
    log: _Inside = ""
    is_erased: bool = Field(default=False, alias="erased")


class _TestEntry(_Entry):
    """A test of an uploaded report."""

    name: str
    classname: str = ""
    status: str = "failed"
    system_output: str = ""


class PipelineEntry(_Entry):
    """A pipeline with its jobs in the order of their creation.

    `source` says what a merge request's pipeline runs on: the head, the merged result, the branch
    or a merge train. `commit` is any word for the pipeline's commit; "" is the merge request's
    newest commit or, for a run of the target branch, the commit that the merge request is based on.
    """

    status: str = "failed"
    commit: str = ""
    source: Literal["head", "merge", "branch", "train"] = "head"
    jobs: tuple[JobEntry, ...] = ()
    children: "tuple[_ChildEntry, ...]" = ()
    tests: tuple[_TestEntry, ...] = ()
    yaml_errors: str | None = None


class _ChildEntry(_Entry):
    """A child pipeline. `name` and `status` are those of the job that started it."""

    name: str
    status: str = "failed"
    jobs: tuple[JobEntry, ...] = ()


class _ProjectEntry(_Entry):
    """The project."""

    path: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)+$")
    default_branch: str = "main"


class _MergeRequestEntry(_Entry):
    """The merge request. If `author_name` is "", the name is made from `author`. `commits` are the
    whole messages of its commits, the oldest first."""

    title: str
    description: str = ""
    author: str = "author"
    author_name: str = ""
    source_branch: str = "change"
    deleted_files: tuple[_Inside, ...] = ()
    commits: tuple[str, ...] = ()


class _CaseFile(_Entry):
    """`case.yaml`. `target_runs` are pipelines of the target branch, `earlier_runs` earlier ones of
    the merge request; both the oldest first."""

    summary: str = ""
    project: _ProjectEntry
    merge_request: _MergeRequestEntry
    pipeline: PipelineEntry
    target_runs: tuple[PipelineEntry, ...] = ()
    earlier_runs: tuple[PipelineEntry, ...] = ()


class Expectation(_Entry):
    """`expect.yaml`. Any of the verdicts is right. All patterns of `cause` must match the answer's
    cause, ignoring case. If there are `lines`, a proven quote must match one of them. `meaning` is
    the cause in words, for a judge."""

    verdict: Annotated[
        tuple[Verdict, ...],
        BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    ] = Field(min_length=1)
    cause: tuple[_Pattern, ...] = ()
    files: tuple[str, ...] = ()
    lines: tuple[_Pattern, ...] = ()
    meaning: str = ""

    @property
    def is_untouched(self) -> bool:
        """Whether it is as `eval record` leaves it: all fields are there, and none but the verdict,
        which no person has looked at, says anything."""
        says = self.cause or self.files or self.lines or self.meaning
        return self.model_fields_set == set(type(self).model_fields) and not says


@dataclass(frozen=True, slots=True)
class Case:
    """A loaded case. `digest` covers every file in its folder except expect.yaml."""

    name: str
    folder: Path
    content: _CaseFile
    expectation: Expectation
    digest: str

    def read_log(self, job: JobEntry) -> bytes | None:
        """Return a job's unpacked log, None if it has none. Raises ConfigError."""
        if not job.log:
            return None
        path = self.folder / job.log
        data = _read_inside(self.folder, path)
        if not job.log.endswith(".gz"):
            return data
        try:
            with gzip.open(BytesIO(data)) as unpacked:
                return _keep_under_cap(unpacked.read(_MOST_FILE + 1), path)
        except (OSError, EOFError, zlib.error) as error:
            raise ConfigError(f"{path}: no gzip file: {error}") from error

    def read_tree(self, name: str) -> dict[str, bytes]:
        """Return the files of a subfolder by their paths in it, without compiled Python. Raises
        ConfigError."""
        top = self.folder / name
        paths = (
            path
            for path in sorted(top.rglob("*"))
            if _is_file(path) and "__pycache__" not in path.parts
        )
        return {path.relative_to(top).as_posix(): _read_inside(self.folder, path) for path in paths}


def find_cases(paths: tuple[Path, ...]) -> list[Path]:
    """List the case folders at or directly below these paths. Raises ConfigError without any."""
    files = (file for path in paths for file in sorted({*path.glob(CASE), *path.glob(f"*/{CASE}")}))
    folders = dict.fromkeys(file.parent for file in files)
    if not folders:
        raise ConfigError(f"{', '.join(map(str, paths))}: no {CASE} here or one folder below")
    return list(folders)


def load_case(folder: Path) -> Case:
    """Read a case. Raises ConfigError, which names the file and the field."""
    content = _load(folder, CASE, _CaseFile)
    expectation = _load(folder, EXPECT, Expectation)
    return Case(folder.name, folder, content, expectation, _compute_digest(folder))


def require_expectations(cases: Iterable[Case]) -> None:
    """Raise ConfigError, which names the files, if nobody has said what is right in some cases."""
    files = [str(each.folder / EXPECT) for each in cases if each.expectation.is_untouched]
    if files:
        raise ConfigError(
            f"{', '.join(files)}: nothing is filled in yet: say which verdict is right, and what "
            "its cause, files, lines or meaning have to be; remove the fields that you leave empty"
        )


_File = TypeVar("_File", bound=BaseModel)


def _load(folder: Path, name: str, form: type[_File]) -> _File:
    path = folder / name
    try:
        return form.model_validate(yaml.safe_load(_read_inside(folder, path)) or {})
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {where}: {first['msg']}") from error


def _read_inside(folder: Path, path: Path) -> bytes:
    """Read a plain file that lies in `folder`, wherever links lead. Raises ConfigError."""
    try:
        handle = os.open(find_inside(folder, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ConfigError(f"{path}: not a plain file")
            return _keep_under_cap(file.read(_MOST_FILE + 1), path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def find_inside(folder: Path, path: Path) -> Path:
    """Return the place of a path without links. Raises ConfigError if it is not in `folder`."""
    try:
        top, place = folder.resolve(), path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{path}: this path cannot be followed") from error
    if not place.is_relative_to(top):
        raise ConfigError(f"{path}: it leads out of the case's folder")
    return place


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _keep_under_cap(data: bytes, path: Path) -> bytes:
    if len(data) > _MOST_FILE:
        raise ConfigError(f"{path}: larger than {_MOST_FILE} bytes")
    return data


def _compute_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if _is_file(path) and path.name != EXPECT:
            name = path.relative_to(folder).as_posix().encode()
            digest.update(
                b"%d %s %s" % (len(name), name, hashlib.sha256(_read_inside(folder, path)).digest())
            )
    return digest.hexdigest()[:16]
