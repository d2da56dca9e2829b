"""`gitlab_list_files`: the files of the repository at a commit."""

from pydantic import Field

from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import Listing
from worker.gitlab.read.base import RawDocument, Ref, SourceDef
from worker.gitlab.read.repository.file import check_path
from worker.gitlab.read.session_reader import Reader
from worker.tools.arguments import Arguments

PAGES = 30
"""Pages of 100 entries."""


class Tree(Arguments):
    """Which folder, and as of when."""

    folder: str = Field(default="", max_length=1000, description="Like src/app; default: the top.")
    ref: Ref = ""
    recursive: bool = Field(default=True, description="Subfolders too.")


def fetch(args: Tree, reader: Reader) -> RawDocument:
    """Return one path per line; the path of a folder ends with a slash."""
    found = _read_tree(args, reader)
    lines = [each.path + ("/" if each.type == "tree" else "") for each in found.items]
    missing = f"everything after the first {len(lines)} entries" if found.more else ""
    text = "".join(f"{line}\n" for line in lines)
    return RawDocument(text, missing)


def _read_tree(args: Tree, reader: Reader) -> Listing[wire.TreeEntry]:
    folder = check_path(args.folder.strip("/")) if args.folder.strip("/") else ""
    ref = args.ref or reader.subject.sha
    query = {"ref": ref, "recursive": str(args.recursive).lower(), "path": folder}
    what = f"the folder {folder or '/'} at {ref}"

    def read(project: str) -> Listing[wire.TreeEntry]:
        return reader.client.many(f"{project}/repository/tree", wire.TreeEntry, what, query, PAGES)

    return reader.read_first(read, ref)


TREE = SourceDef(
    name="gitlab_list_files",
    description="The paths of the repository's files, one a line.",
    args=Tree,
    fetch=fetch,
)
