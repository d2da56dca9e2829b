"""`gitlab_get_source_archive`: the whole repository as of a commit, for the sandbox."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from pydantic import Field

from worker.errors import SourceError
from worker.gitlab.read.base import RawDocument, Ref, SourceDef
from worker.gitlab.read.files.packing import Budget, ChunkReader, Packed, inflate
from worker.gitlab.read.repository.file import check_path
from worker.gitlab.read.session_reader import Reader
from worker.tools.arguments import Arguments

MAX_ARCHIVE = 256 * 1024 * 1024
SECONDS = 180.0
_PIECE = 1 << 18

_MAX_HEADER = 8 * 1024
"""Most bytes of an extended header, which holds a long name: some releases of Python search it in
quadratic time."""

_EXTENDED = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class SourceArchive(Arguments):
    """As of when, and which part."""

    ref: Ref = ""
    folder: str = Field(default="", max_length=1000, description="Default: all.")


def fetch(args: SourceArchive, reader: Reader) -> RawDocument:
    """Return a tar.gz that is streamed from GitLab into the sandbox."""
    ref = args.ref or reader.subject.sha
    folder = check_path(args.folder.strip("/")) if args.folder.strip("/") else ""
    query = {"sha": ref} | ({"path": folder} if folder else {})
    path = f"{reader.find_projects(ref)[0]}/repository/archive.tar.gz"
    what = f"the source archive at {ref}"

    def files() -> Iterator[Packed]:
        with reader.name_other_refs(ref):
            yield from read_members(reader.client.stream(path, what, MAX_ARCHIVE, query), what)

    text = (
        f"A tar.gz of the repository at {ref}; no .git in it, no LFS content, no links. "
        "Unpack it: mkdir -p src && tar -xzf FILE -C src; its files are at the top, without a "
        "folder around them.\n"
    )
    return RawDocument(text, files=files)


def read_members(packed: Iterator[bytes], what: str) -> Iterator[Packed]:
    """Yield the regular files of a tar.gz without its top folder. Raises SourceError."""
    budget = Budget(what)
    pipe = ChunkReader(inflate(packed, budget, what))
    with (
        _translate_errors(what),
        tarfile.open(fileobj=cast(IO[bytes], pipe), mode="r|", tarinfo=_ShortHeader) as tar,
    ):
        for info in tar:
            if not info.isreg() or info.issparse():
                continue
            budget.count_file()
            content = tar.extractfile(info)
            if content is not None:
                name = info.name.partition("/")[2]
                yield Packed(name, _read_pieces(content, what), bool(info.mode & 0o100))


def _read_pieces(content: IO[bytes], what: str) -> Iterator[bytes]:
    with _translate_errors(what):
        while piece := content.read(_PIECE):
            yield piece


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    """Turn what tarfile raises for a hostile or truncated archive into a SourceError."""
    try:
        yield
    except (tarfile.TarError, OSError, EOFError, ValueError, ArithmeticError) as error:
        raise SourceError(f"{what}: not a tar file: {error}") from error


class _ShortHeader(tarfile.TarInfo):
    """A member; raises ReadError for an extended header over `_MAX_HEADER` bytes."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_ShortHeader":
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MAX_HEADER:
            raise tarfile.ReadError(f"a header over {_MAX_HEADER} bytes")
        return found


SOURCE_ARCHIVE = SourceDef(
    name="gitlab_get_source_archive",
    description=(
        "The repository (or a folder of it) as a tar.gz in the sandbox, without a top folder. "
        "Fetch it once: GitLab allows about 5 a minute."
    ),
    args=SourceArchive,
    fetch=fetch,
    timeout=SECONDS,
)
