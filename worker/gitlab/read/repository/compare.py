"""`gitlab_compare`: the commits and the diff between two commits."""

from pydantic import Field

from worker.gitlab.read.api import wire
from worker.gitlab.read.base import SourceDef
from worker.gitlab.read.merge_request.diff import (
    list_left_out,
    make_diff_document,
    render_diff,
    split_by_size,
)
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import one_line
from worker.tools.arguments import Arguments
from worker.tools.source import Document

MAX_COMMITS = 100


class Compare(Arguments):
    """Between what."""

    old: str = Field(min_length=1, max_length=300, description="Branch, tag or commit.")
    new: str = Field(default="", max_length=300, description="Default: the pipeline's commit.")
    straight: bool = Field(
        default=False, description="Old itself against new, not their common ancestor."
    )


def fetch(args: Compare, reader: Reader) -> Document:
    """Return the commits, a line for each file, then one unified diff."""
    new = args.new or reader.subject.sha
    found = _compare(args.old, new, args.straight, reader)
    if found.commits or args.old == new:
        return _make_document(_write_commits(found.commits), found, reader)
    turned = _compare(new, args.old, args.straight, reader)
    if not turned.commits:
        same = f"0 commits: GitLab lists none that only one of {args.old} and {new} has\n\n"
        return _make_document(same, found, reader)
    older = f"0 commits: {new} is an ancestor of {args.old} and has nothing that it lacks. "
    if found.diffs:
        return _make_document(f"{older}The diff goes backwards.\n\n", found, reader)
    other = f"This is the other way round, old={new} new={args.old}:\n"
    return _make_document(older + other + _write_commits(turned.commits), turned, reader)


def _compare(old: str, new: str, straight: bool, reader: Reader) -> wire.Comparison:
    query = {"from": old, "to": new, "straight": str(straight).lower()}
    what = f"the comparison of {old} with {new}"

    def read(project: str) -> wire.Comparison:
        return reader.client.one(f"{project}/repository/compare", wire.Comparison, what, query)

    # A fork lacks its parent's commits since its last update.
    return reader.read_first(read, old, new)


def _make_document(heading: str, found: wire.Comparison, reader: Reader) -> Document:
    shown, cut = split_by_size(found.diffs)
    missing = list_left_out(cut)
    if found.compare_timeout:
        missing.append("part of the diff: GitLab gave up, it is too large")
    if len(found.commits) > MAX_COMMITS:
        missing.append(f"{len(found.commits) - MAX_COMMITS} older commits")
    text = heading + render_diff(found.diffs, shown)
    return make_diff_document(text, "; ".join(missing), reader)


def _write_commits(commits: tuple[wire.Commit, ...]) -> str:
    count = f"{len(commits)} commit{'' if len(commits) == 1 else 's'}"
    newest = commits[-MAX_COMMITS:][::-1]
    lines = [f"{each.short_id} {one_line(each.title, 200)} ({each.author_name})" for each in newest]
    return "\n".join([f"{count}, newest first", *lines, "", ""])


COMPARE = SourceDef(
    name="gitlab_compare",
    description=(
        "The commits and the unified diff between two commits, such as that of the last green "
        "pipeline and this one."
    ),
    args=Compare,
    fetch=fetch,
)
