"""`gitlab_list_mr_commits`: the commits of the merge request with their whole messages."""

from typing import Any

from worker.gitlab.read.api import wire
from worker.gitlab.read.base import NoArguments, RawDocument, SourceDef, present
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import visible

PAGES = 5
MAX_MESSAGE = 4000
"""Characters of one message."""


def fetch(args: NoArguments, reader: Reader) -> RawDocument:
    """Return the commits as JSON, newest first."""
    path = f"{reader.merge_request}/commits"
    found = reader.client.many(path, wire.Commit, "the commits", pages=PAGES)
    missing = f"commits before the newest {len(found.items)}" if found.more else ""
    return RawDocument({"commits": list(map(describe_commit, found.items))}, missing)


def describe_commit(commit: wire.Commit) -> dict[str, Any]:
    """Return a commit with its message; the title is the message's first line."""
    message = visible(commit.message or commit.title).strip()
    cut = len(message) - MAX_MESSAGE
    return present(
        sha=commit.id or commit.short_id,
        message=message[:MAX_MESSAGE],
        characters_cut=max(cut, 0) or None,
        author=commit.author_name,
        at=commit.created_at,
    )


MR_COMMITS = SourceDef(
    name="gitlab_list_mr_commits",
    description="The merge request's commits with their whole messages and shas, newest first.",
    args=NoArguments,
    fetch=fetch,
)
