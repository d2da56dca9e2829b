"""A job's artifacts (what is in them, one file, all of them), and the repository as an archive."""

from collections.abc import Iterator
from urllib.parse import quote

from pydantic import Field

from worker.errors import SourceError
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound
from worker.gitlab.read.base import OfJob, RawDocument, Ref, SourceDef, present
from worker.gitlab.read.redactions import Packed
from worker.gitlab.read.repository import check_folder, check_path, join_ends
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.unpacking import read_tar, read_zip
from worker.tools.arguments import Arguments

_MAX_ZIP = 256 * 1024 * 1024
_MAX_ARTIFACT = 16 * 1024 * 1024
MAX_LISTED = 5000
_ARTIFACT_SECONDS = 120.0


class _Artifacts(OfJob):
    folder: str = Field(default="", max_length=1000, description="Default: all.")


class _Artifact(OfJob):
    path: str = Field(min_length=1, max_length=1000, description="Like build/test.log.")


def _list_artifacts(args: OfJob, reader: Reader) -> RawDocument:
    """Return the job's reports and the files of its archive as JSON."""
    path, job = _read_job(args.job_id, reader)
    missing: list[str] = []
    files: list[dict[str, object]] = []
    try:
        for file in _read_members(path, job, reader):
            if len(files) == MAX_LISTED:
                missing.append(f"files after the first {MAX_LISTED}")
                break
            files.append({"path": file.name, "bytes": sum(map(len, file.chunks))})
    except SourceError as error:
        missing.append(str(error))
    kept = [present(type=each.file_type, bytes=each.size) for each in job.artifacts]
    content = present(job=job.name, expires_at=job.artifacts_expire_at, kept=kept)
    return RawDocument(content | {"files": files}, "; ".join(missing))


def _read_artifact(args: _Artifact, reader: Reader) -> RawDocument:
    """Return one file; of a large one, only its start and end."""
    name = check_path(args.path)
    path, job = _read_job(args.job_id, reader)
    url = f"{path}/artifacts/{quote(name)}"
    what = f"{name} in the artifacts of job {job.id}"
    try:
        blob = reader.client.blob(url, what, _MAX_ARTIFACT)
    except NotFound as error:
        raise SourceError(f"{error}{_explain_gone(job)}") from error
    if not blob.omitted_bytes and b"\0" in blob.head[:8192]:
        text = f"{name}: a binary file of {blob.size} bytes\n"
        return RawDocument(text, chunks=lambda: [blob.head])
    return join_ends(blob)


def _read_artifacts(args: _Artifacts, reader: Reader) -> RawDocument:
    """Return the files as one tar.gz that is streamed from GitLab into the sandbox."""
    path, job = _read_job(args.job_id, reader)
    if not _has_archive(job):
        raise SourceError(f"job {job.id} ({job.name}) has no artifacts{_explain_gone(job)}")
    folder = check_folder(args.folder)
    start = f"{folder}/" if folder else ""

    def files() -> Iterator[Packed]:
        found = _read_members(path, job, reader)
        return (each for each in found if each.name.startswith(start))

    text = f"A tar.gz of the artifacts of job {job.id} ({job.name}). Unpack it: tar -xzf FILE\n"
    return RawDocument(text, files=files)


def _read_job(job_id: int, reader: Reader) -> tuple[str, wire.Job]:
    project, job = reader.logs.find_job(job_id)
    return f"/projects/{project}/jobs/{job_id}", job


def _has_archive(job: wire.Job) -> bool:
    return any(each.file_type == "archive" for each in job.artifacts)


def _read_members(path: str, job: wire.Job, reader: Reader) -> Iterator[Packed]:
    what = f"the artifacts of job {job.id}"
    try:
        yield from read_zip(reader.client.stream(f"{path}/artifacts", what, _MAX_ZIP), what)
    except NotFound as error:
        raise SourceError(f"{error}{_explain_gone(job)}") from error


def _explain_gone(job: wire.Job) -> str:
    """Return why a job has no artifacts, "" if it has some: GitLab answers 404 in each case."""
    if _has_archive(job):
        return ""
    if job.artifacts_expire_at:
        return f" (they expired at {job.artifacts_expire_at})"
    return " (it has kept none, or they were deleted)"


LIST_ARTIFACTS = SourceDef(
    name="gitlab_list_artifacts",
    description="The reports and artifact files that a job left, with sizes.",
    args=OfJob,
    fetch=_list_artifacts,
    timeout=_ARTIFACT_SECONDS,
)
ARTIFACT = SourceDef(
    name="gitlab_get_artifact",
    description="One file of a job's artifacts.",
    args=_Artifact,
    fetch=_read_artifact,
)
ALL_ARTIFACTS = SourceDef(
    name="gitlab_get_artifacts",
    description=(
        "A job's artifacts (or a folder of them) as a tar.gz in the sandbox. Files over 16 MiB are "
        "left out; SANDPIPER-LEFT-OUT.txt in it names them."
    ),
    args=_Artifacts,
    fetch=_read_artifacts,
    timeout=_ARTIFACT_SECONDS,
)


_MAX_ARCHIVE = 256 * 1024 * 1024
_ARCHIVE_SECONDS = 180.0


class _Part(Arguments):
    ref: Ref = ""
    folder: str = Field(default="", max_length=1000, description="Default: all.")


def _read_source_archive(args: _Part, reader: Reader) -> RawDocument:
    """Return a tar.gz that is streamed from GitLab into the sandbox."""
    ref = args.ref or reader.subject.sha
    folder = check_folder(args.folder)
    query = {"sha": ref} | ({"path": folder} if folder else {})
    path = f"{reader.find_projects(ref)[0]}/repository/archive.tar.gz"
    what = f"the source archive at {ref}"

    def files() -> Iterator[Packed]:
        with reader.name_other_refs(ref):
            yield from read_tar(reader.client.stream(path, what, _MAX_ARCHIVE, query), what)

    text = (
        f"A tar.gz of the repository at {ref}; no .git in it, no LFS content, no links. "
        "Unpack it: mkdir -p src && tar -xzf FILE -C src; its files are at the top, without a "
        "folder around them.\n"
    )
    return RawDocument(text, files=files)


SOURCE_ARCHIVE = SourceDef(
    name="gitlab_get_source_archive",
    description=(
        "The repository (or a folder of it) as a tar.gz in the sandbox, without a top folder. "
        "Fetch it once: GitLab allows about 5 a minute."
    ),
    args=_Part,
    fetch=_read_source_archive,
    timeout=_ARCHIVE_SECONDS,
)
