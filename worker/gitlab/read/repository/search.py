"""`gitlab_search_code`: text in the repository's files."""

from pydantic import Field

from worker.gitlab.read.api import wire
from worker.gitlab.read.base import RawDocument, SourceDef
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import visible
from worker.tools.arguments import Arguments

PER_PAGE = 50


class Search(Arguments):
    """What, and as of when."""

    text: str = Field(min_length=3, max_length=200, description="Words of the code; no regex.")
    ref: str = Field(
        default="",
        max_length=300,
        description="Branch or tag; default: the default branch.",
    )


def fetch(args: Search, reader: Reader) -> RawDocument:
    """Return each hit with its lines, in the format of grep."""
    query = {"scope": "blobs", "search": args.text} | ({"ref": args.ref} if args.ref else {})
    path = f"{reader.target_project}/search"
    what = f"the search for {args.text!r}"
    found = reader.client.page(path, wire.SearchHit, what, 1, PER_PAGE, query)
    text = "\n".join(map(_write_hit, found.items)) or "nothing found\n"
    missing = f"all after the first {PER_PAGE} places" if found.more else ""
    return RawDocument(text, missing)


def _write_hit(hit: wire.SearchHit) -> str:
    lines = visible(hit.data).rstrip("\n").split("\n")
    return "".join(
        f"{hit.path}:{number}: {line}\n" for number, line in enumerate(lines, hit.startline)
    )


SEARCH = SourceDef(
    name="gitlab_search_code",
    description=(
        "Search the files of one branch for words. For many or exact searches use `rg` in the "
        "sandbox, over gitlab_get_source_archive."
    ),
    args=Search,
    fetch=fetch,
)
