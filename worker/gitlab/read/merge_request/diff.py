"""`gitlab_get_mr_diff`: the merge request's diff as one unified diff."""

from dataclasses import replace

from worker.gitlab.read.api import wire
from worker.gitlab.read.api.client import Listing
from worker.gitlab.read.base import NoArguments, RawDocument, SourceDef, redact_document
from worker.gitlab.read.session_reader import Reader
from worker.tools.source import Document
from worker.verdict.previews import preview_diff

PAGES = 100
PER_PAGE = 20
"""At most 2,000 files, in small pages: GitLab gives up to half a megabyte for one file."""

MAX_SIZE = 8 * 1024 * 1024
"""Characters of all diffs together; of files beyond that, only the names are given."""


SHOWN_WHOLE = 8192
"""Most bytes of a diff that the model is shown whole."""


def fetch(args: NoArguments, reader: Reader) -> Document:
    """Return a summary, a line for each file, then the diffs."""
    return _make_document(read_changed_files(reader), reader)


def show_diff(found: Listing[wire.DiffFile], reader: Reader, limit: int) -> tuple[str, bool]:
    """Return the text of a diff that was read, and whether that is all of it.

    A diff is shown whole up to twice `limit` bytes, at most `SHOWN_WHOLE`; of a longer one there is
    a preview of at most `limit` bytes.
    """
    document = _make_document(found, reader)
    if not document.preview or not found.items:
        return "", False
    fits = len(document.data) <= min(SHOWN_WHOLE, 2 * limit)
    return document.preview(SHOWN_WHOLE if fits else limit), fits and not document.gaps


def _make_document(found: Listing[wire.DiffFile], reader: Reader) -> Document:
    shown, cut = split_by_size(found.items)
    missing = list_left_out(cut)
    if found.more:
        missing.append(f"all files after the first {len(found.items)}")
    return make_diff_document(render_diff(found.items, shown), "; ".join(missing), reader)


def make_diff_document(diff: str, missing: str, reader: Reader) -> Document:
    """Make a document whose preview begins with the hunks that the failing jobs' logs name."""
    document = redact_document(RawDocument(diff, missing), reader.redact)
    text, project = document.data.decode(errors="replace"), reader.subject.project

    def preview(limit: int) -> str:
        return preview_diff(text, reader.logs.get_error_text(), project, limit)

    return replace(document, preview=preview, shown_whole=SHOWN_WHOLE)


def read_changed_files(reader: Reader, pages: int = PAGES) -> Listing[wire.DiffFile]:
    """Return the files, read until there are no more or enough. Raises SourceError."""
    path = f"{reader.merge_request}/diffs"
    items: list[wire.DiffFile] = []
    for number in range(1, pages + 1):
        page = reader.client.page(path, wire.DiffFile, "the diff", number, PER_PAGE)
        items += page.items
        if not page.more:
            return Listing(tuple(items))
        if sum(len(each.diff) for each in items) > MAX_SIZE:
            break
    return Listing(tuple(items), more=True)


def split_by_size(
    files: tuple[wire.DiffFile, ...],
) -> tuple[list[wire.DiffFile], list[wire.DiffFile]]:
    """Return the files whose diffs are there and fit in `MAX_SIZE`, and the others."""
    shown: list[wire.DiffFile] = []
    others: list[wire.DiffFile] = []
    room = MAX_SIZE
    for each in files:
        room -= len(each.diff)
        fits = room >= 0 and not (each.too_large or (each.collapsed and not each.diff))
        (shown if fits else others).append(each)
    return shown, others


def list_left_out(files: list[wire.DiffFile]) -> list[str]:
    """Return the files whose diffs are not shown, and why."""
    return [f"the diff of {each.new_path} ({_explain_left_out(each)})" for each in files]


def _explain_left_out(file: wire.DiffFile) -> str:
    if file.too_large:
        return "too large for GitLab to show"
    return "collapsed by GitLab" if file.collapsed else "over the size cap"


def render_diff(files: tuple[wire.DiffFile, ...], shown: list[wire.DiffFile]) -> str:
    """Return a summary of all `files`, then the diffs of the `shown` ones."""
    plural = "" if len(files) == 1 else "s"
    summary = [f"{len(files)} file{plural} changed", *map(_summarise_file, files), ""]
    return "\n".join([*summary, *map(write_unified_diff, shown)])


def _summarise_file(file: wire.DiffFile) -> str:
    kind = "A" if file.new_file else "D" if file.deleted_file else "R" if file.renamed_file else "M"
    lines = file.diff.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    name = f"{file.old_path} -> {file.new_path}" if file.renamed_file else file.new_path
    return f"{kind} {name} +{added} -{removed}" + (" (generated)" if file.generated_file else "")


def write_unified_diff(file: wire.DiffFile) -> str:
    """Write one file's diff with the headers for `git apply`; GitLab gives the hunks alone."""
    lines = [f"diff --git a/{file.old_path} b/{file.new_path}"]
    if file.new_file:
        lines.append(f"new file mode {file.b_mode or '100644'}")
    elif file.deleted_file:
        lines.append(f"deleted file mode {file.a_mode or '100644'}")
    elif file.a_mode != file.b_mode:
        lines += [f"old mode {file.a_mode}", f"new mode {file.b_mode}"]
    if file.renamed_file:
        lines += [f"rename from {file.old_path}", f"rename to {file.new_path}"]
    if file.diff:
        old = "/dev/null" if file.new_file else f"a/{file.old_path}"
        new = "/dev/null" if file.deleted_file else f"b/{file.new_path}"
        lines += [f"--- {old}", f"+++ {new}", file.diff.removesuffix("\n")]
    return "\n".join(lines) + "\n"


MR_DIFF = SourceDef(
    name="gitlab_get_mr_diff",
    description=(
        "The merge request's unified diff, after a line for each file. Shown with the new files' "
        "line numbers, over 8 KB the hunks that the failing jobs' logs name first; saved plain."
    ),
    args=NoArguments,
    fetch=fetch,
)
