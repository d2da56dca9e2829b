"""The repository: a file, the names of all files, a search, and what lies between two commits."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from pydantic import Field

from worker.errors import ArgumentError
from worker.gitlab.read import wire
from worker.gitlab.read.api import Listing, NoSuchFile
from worker.gitlab.read.base import RawDocument, Ref, SourceDef, redact_document
from worker.gitlab.read.blobs import Blob
from worker.gitlab.read.merge_request import make_diff_document
from worker.gitlab.read.session_reader import Reader
from worker.safety.redacted_values import assume_redacted
from worker.safety.untrusted import one_line, visible
from worker.tools.arguments import Arguments
from worker.tools.source import Document, DocumentKind
from worker.verdict.previews import find_lines, preview_file

MAX_BYTES = 4 * 1024 * 1024

SHOWN_WHOLE = 1024
"""Most bytes of a file that is shown whole even where the window is small."""

BRIEF = 10
"""Lines that are shown of a file that is only saved to the sandbox."""

_SAMPLE = 8192  # bytes that are searched for a NUL, the mark of a binary file
_CUT = re.compile(r"\[\.\.\. \d+ bytes of this file are left out here \.\.\.\]")


class _File(Arguments):
    path: str = Field(min_length=1, max_length=1000, description="Like src/app.py.")
    ref: Ref = ""
    first_line: int = Field(default=0, ge=0, description="Default: 1.")
    last_line: int = Field(default=0, ge=0, description="Default: the last.")


def _read_file(args: _File, reader: Reader) -> Document:
    """Read the file, or only the start and end of a large one; of a range, the numbered lines."""
    path, ref = check_path(args.path), args.ref or reader.subject.sha
    try:
        blob = reader.read_first(lambda project: read_from_project(project, reader, path, ref), ref)
    except NoSuchFile as error:  # the model's guess was wrong, no evidence is missing
        raise ArgumentError(
            f"path: there is no {path} at {ref}; gitlab_list_files names the files"
        ) from error
    document = redact_document(join_ends(blob), reader.redact)
    lines = list_known_lines(document)
    if args.first_line or args.last_line:
        return _cut_range(args, document, lines)

    def preview(limit: int, most: int | None = None) -> str:
        numbered = "".join(_number_lines(lines)) if len(document.data) <= limit else ""
        # Thousands of empty lines would cost many times what the file has.
        if most is None and 0 < len(numbered) <= 2 * limit:
            return numbered
        named = find_lines(path, lines, reader.logs.get_error_text())
        return preview_file(lines, named, limit, most)

    if b"\0" in document.data[:_SAMPLE]:  # a binary file
        return document
    brief = partial(preview, most=BRIEF)
    return replace(document, preview=preview, brief=brief, shown_whole=SHOWN_WHOLE)


def join_ends(blob: Blob) -> RawDocument:
    """Return a file as a document; where its middle was left out, a line says so."""
    if not blob.omitted_bytes:
        return RawDocument(blob.head)
    mark = f"\n[... {blob.omitted_bytes} bytes of this file are left out here ...]\n".encode()
    missing = f"{blob.omitted_bytes} of the file's {blob.size} bytes, cut from its middle"
    return RawDocument(blob.head + mark + blob.tail, missing)


def list_known_lines(document: Document) -> list[str]:
    """List the lines of a file whose numbers are known: all, or those before a cut."""
    lines = [line.rstrip("\r") for line in document.data.decode(errors="replace").split("\n")]
    if document.gaps:
        cut = next((at for at, line in enumerate(lines) if _CUT.fullmatch(line)), len(lines))
        return lines[:cut]
    return lines if lines[-1] else lines[:-1]


def _cut_range(args: _File, whole: Document, lines: Sequence[str]) -> Document:
    """Cut lines from the redacted file: a multi-line secret is found only in the whole file."""
    first, last = max(args.first_line, 1), args.last_line or len(lines)
    if first > min(last, len(lines)):
        raise ArgumentError(
            f"first_line, last_line: there are no lines {first} to {last}: {args.path} has "
            f"{len(lines)} lines" + (f" that are known ({whole.gaps})" if whole.gaps else "")
        )
    heading = f"[{args.path}, {len(lines)} lines]\n"
    shown = "".join(_number_lines(lines[first - 1 : last], first))
    return Document(assume_redacted((heading + shown).encode()), DocumentKind.TEXT)


def _number_lines(lines: Iterable[str], first: int = 1) -> Iterator[str]:
    for number, line in enumerate(lines, first):
        yield f"{number}: {line}\n"


def read_from_project(project: str, reader: Reader, path: str, ref: str) -> Blob:
    """Return a file of one project, which is given by its API path. Raises SourceError."""
    url = f"{project}/repository/files/{quote(path, safe='')}/raw"
    return reader.client.blob(url, f"the file {path} at {ref}", MAX_BYTES, {"ref": ref})


def check_path(path: str) -> str:
    """Return `path`. Raises ArgumentError unless it is a plain path that is safe in a URL."""
    parts = path.split("/")
    if {"", ".", ".."} & set(parts) or not path.isprintable():
        raise ArgumentError(f"path: {path!r} is not the plain path of a file in the repository")
    return path


def check_folder(folder: str) -> str:
    """Return a folder's path without slashes around it, "" for the top. Raises ArgumentError."""
    return check_path(folder.strip("/")) if folder.strip("/") else ""


FILE = SourceDef(
    name="gitlab_get_file",
    description=(
        "A file of the repository, or a range of its lines. Lines are shown numbered, as `12: "
        "text`; a whole file is saved without numbers. Of a long one you see what is near the "
        "places that the failing jobs' logs name."
    ),
    args=_File,
    fetch=_read_file,
)


_TREE_PAGES = 30
"""Pages of 100 entries."""


class _Tree(Arguments):
    folder: str = Field(default="", max_length=1000, description="Like src/app; default: the top.")
    ref: Ref = ""
    recursive: bool = Field(default=True, description="Subfolders too.")


def _list_files(args: _Tree, reader: Reader) -> RawDocument:
    """Return one path per line; the path of a folder ends with a slash."""
    folder = check_folder(args.folder)
    ref = args.ref or reader.subject.sha
    query = {"ref": ref, "recursive": str(args.recursive).lower(), "path": folder}
    what = f"the folder {folder or '/'} at {ref}"

    def read(project: str) -> Listing[wire.TreeEntry]:
        return reader.client.many(
            f"{project}/repository/tree", wire.TreeEntry, what, query, _TREE_PAGES
        )

    found = reader.read_first(read, ref)
    lines = [each.path + ("/\n" if each.type == "tree" else "\n") for each in found.items]
    missing = f"everything after the first {len(lines)} entries" if found.more else ""
    return RawDocument("".join(lines), missing)


TREE = SourceDef(
    name="gitlab_list_files",
    description="The paths of the repository's files, one a line.",
    args=_Tree,
    fetch=_list_files,
)


HITS = 50


class _Search(Arguments):
    text: str = Field(min_length=3, max_length=200, description="Words of the code; no regex.")
    ref: str = Field(
        default="",
        max_length=300,
        description="Branch or tag; default: the default branch.",
    )


class _Hit(wire.Answer):
    """A place in a file that a search has found; `data` holds lines from `startline` on."""

    path: str
    startline: int = 1
    data: str = ""


def _search_code(args: _Search, reader: Reader) -> RawDocument:
    """Return each hit with its lines, in the format of grep."""
    query = {"scope": "blobs", "search": args.text} | ({"ref": args.ref} if args.ref else {})
    path = f"{reader.target_project}/search"
    what = f"the search for {args.text!r}"
    found = reader.client.page(path, _Hit, what, 1, HITS, query)
    places = []
    for hit in found.items:
        lines = enumerate(visible(hit.data).rstrip("\n").split("\n"), hit.startline)
        places.append("".join(f"{hit.path}:{number}: {line}\n" for number, line in lines))
    missing = f"all after the first {HITS} places" if found.more else ""
    return RawDocument("\n".join(places) or "nothing found\n", missing)


SEARCH = SourceDef(
    name="gitlab_search_code",
    description=(
        "Search the files of one branch for words. For many or exact searches use `rg` in the "
        "sandbox, over gitlab_get_source_archive."
    ),
    args=_Search,
    fetch=_search_code,
)


_MAX_COMMITS = 100


class _Compare(Arguments):
    old: str = Field(min_length=1, max_length=300, description="Branch, tag or commit.")
    new: str = Field(default="", max_length=300, description="Default: the pipeline's commit.")
    straight: bool = Field(
        default=False, description="Old itself against new, not their common ancestor."
    )


def _compare_commits(args: _Compare, reader: Reader) -> Document:
    """Return the commits, a line for each file, then one unified diff."""
    new = args.new or reader.subject.sha
    found = _compare(args.old, new, args.straight, reader)
    if found.commits or args.old == new:
        return _make_comparison(_write_commits(found.commits), found, reader)
    turned = _compare(new, args.old, args.straight, reader)
    if not turned.commits:
        same = f"0 commits: GitLab lists none that only one of {args.old} and {new} has\n\n"
        return _make_comparison(same, found, reader)
    older = f"0 commits: {new} is an ancestor of {args.old} and has nothing that it lacks. "
    if found.diffs:
        return _make_comparison(f"{older}The diff goes backwards.\n\n", found, reader)
    other = f"This is the other way round, old={new} new={args.old}:\n"
    return _make_comparison(older + other + _write_commits(turned.commits), turned, reader)


def _compare(old: str, new: str, straight: bool, reader: Reader) -> wire.Comparison:
    query = {"from": old, "to": new, "straight": str(straight).lower()}
    what = f"the comparison of {old} with {new}"

    def read(project: str) -> wire.Comparison:
        return reader.client.one(f"{project}/repository/compare", wire.Comparison, what, query)

    # A fork lacks its parent's commits since its last update.
    return reader.read_first(read, old, new)


def _make_comparison(heading: str, found: wire.Comparison, reader: Reader) -> Document:
    missing = []
    if found.compare_timeout:
        missing.append("part of the diff: GitLab gave up, it is too large")
    if len(found.commits) > _MAX_COMMITS:
        missing.append(f"{len(found.commits) - _MAX_COMMITS} older commits")
    return make_diff_document(heading, found.diffs, missing, reader)


def _write_commits(commits: tuple[wire.Commit, ...]) -> str:
    count = f"{len(commits)} commit{'' if len(commits) == 1 else 's'}"
    newest = commits[-_MAX_COMMITS:][::-1]
    lines = [f"{each.short_id} {one_line(each.title, 200)} ({each.author_name})" for each in newest]
    return "\n".join([f"{count}, newest first", *lines, "", ""])


COMPARE = SourceDef(
    name="gitlab_compare",
    description=(
        "The commits and the unified diff between two commits, such as that of the last green "
        "pipeline and this one."
    ),
    args=_Compare,
    fetch=_compare_commits,
)
