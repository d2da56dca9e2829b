"""`gitlab_get_file`: one file of the repository at a commit."""

from urllib.parse import quote

from pydantic import Field

from worker.arguments import Arguments
from worker.errors import ArgumentError
from worker.sources.base import RawDocument, SourceDef
from worker.sources.client import Blob, NotFound
from worker.sources.reader import Reader

MAX_BYTES = 4 * 1024 * 1024


class File(Arguments):
    """Which file, and as of when."""

    path: str = Field(
        min_length=1, max_length=1000, description="Path in the repository, like src/app.py."
    )
    ref: str = Field(
        default="",
        max_length=300,
        description="Branch, tag or commit; by default the commit the pipeline ran on.",
    )


def fetch(args: File, reader: Reader) -> RawDocument:
    """The file's bytes; of a large file its two ends."""
    path = checked(args.path)
    ref = args.ref or reader.subject.sha
    blob = _read(reader, path, ref)
    if not blob.dropped:
        return RawDocument(blob.head)
    mark = f"\n[... {blob.dropped} bytes of this file are left out here ...]\n".encode()
    missing = f"{blob.dropped} of the file's {blob.size} bytes, cut from its middle"
    return RawDocument(blob.head + mark + blob.tail, missing)


def _read(reader: Reader, path: str, ref: str) -> Blob:
    """From the project the pipeline ran in, else from the merge request's, where they differ."""
    subject = reader.subject
    try:
        return read_from(subject.pipeline_project_id, reader, path, ref)
    except NotFound:
        if subject.pipeline_project_id == subject.project_id:
            raise
        return read_from(subject.project_id, reader, path, ref)


def read_from(project_id: int, reader: Reader, path: str, ref: str) -> Blob:
    """A file of one project. Raises SourceError."""
    url = f"/projects/{project_id}/repository/files/{quote(path, safe='')}/raw"
    return reader.client.blob(url, f"the file {path} at {ref}", MAX_BYTES, {"ref": ref})


def checked(path: str) -> str:
    """`path`, if it stays where it is put in a URL. Raises ArgumentError."""
    parts = path.split("/")
    if {"", ".", ".."} & set(parts) or not path.isprintable():
        raise ArgumentError(f"path: {path!r} is not the plain path of a file in the repository")
    return path


FILE = SourceDef(
    name="gitlab_get_file",
    description="One file of the repository, by default as of the commit the pipeline ran on.",
    args=File,
    fetch=fetch,
    note="a file of the repository, such as .gitlab-ci.yml or the source a log points at",
)
