"""Marks a note whose pipeline is outdated: a new headline, and the old text folded below it."""

from worker.conversation.context import Subject
from worker.safety.marker import find_marker
from worker.safety.neutralise import is_plain_url

_SUPERSEDED, _FIXED, _AGAIN = "**Superseded by ", "**Fixed by ", "**Passed when run again: "


def is_marked(body: str) -> bool:
    """Whether the note is marked already."""
    _, _, rest = body.partition("\n")
    return rest.lstrip().startswith((_SUPERSEDED, _FIXED, _AGAIN))


def mark_superseded(body: str, note_url: str, pipeline_id: int) -> str:
    """Return `body` folded under a link to the newer note."""
    return _fold_body(
        body, f"{_SUPERSEDED}{_write_link('a newer note', note_url)}** (pipeline {pipeline_id})."
    )


def mark_passed(body: str, subject: Subject, *, same_commit: bool) -> str:
    """Return `body` folded under a link to the pipeline that passed. If it ran on the same commit,
    the headline does not call the failure fixed."""
    pipeline = _write_link(
        f"pipeline {subject.pipeline_id}", make_pipeline_url(subject, subject.pipeline_id)
    )
    if same_commit:
        return _fold_body(
            body, f"{_AGAIN}{pipeline}.** The same commit passed without a change to it."
        )
    return _fold_body(body, f"{_FIXED}{pipeline}.**")


def make_pipeline_url(subject: Subject, pipeline_id: int) -> str:
    """Return the pipeline's URL; for a fork's pipeline, that of the merge request's pipelines."""
    if subject.pipeline_project_id != subject.project_id:
        return f"{subject.web_url}/pipelines"
    project, _, _ = subject.web_url.partition("/-/merge_requests/")
    return f"{project}/-/pipelines/{pipeline_id}"


def _fold_body(body: str, headline: str) -> str:
    """Fold the body below `headline`. The marker stays first, so that replies find the session."""
    if is_marked(body) or find_marker(body) is None:
        return body
    marker, _, rest = body.partition("\n")
    fold = (
        "<details>",
        "<summary>What was found</summary>",
        "",
        rest.strip("\n"),
        "",
        "</details>",
    )
    return "\n".join([marker, "", headline, "", *fold])


def _write_link(text: str, url: str) -> str:
    return f"[{text}]({url})" if is_plain_url(url) else text
