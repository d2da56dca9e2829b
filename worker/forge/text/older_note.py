"""What a note becomes when its pipeline does not matter any more: a headline, the rest folded."""

from worker.core.conversation.context import Subject
from worker.core.session_id import find_marker
from worker.forge.defence.spans import plain_url

_SUPERSEDED, _FIXED, _AGAIN = "**Superseded by ", "**Fixed by ", "**Passed when run again: "


def is_settled(body: str) -> bool:
    """Whether the note says already what became of its pipeline."""
    _, _, rest = body.partition("\n")
    return rest.lstrip().startswith((_SUPERSEDED, _FIXED, _AGAIN))


def superseded(body: str, note_url: str, pipeline_id: int) -> str:
    """`body` folded under a link to the note that took its place."""
    return _folded(
        body, f"{_SUPERSEDED}{_link('a newer note', note_url)}** (pipeline {pipeline_id})."
    )


def passed(body: str, subject: Subject, *, same_commit: bool) -> str:
    """`body` folded under the pipeline that passed; of the same commit it proves no fix."""
    pipeline = _link(f"pipeline {subject.pipeline_id}", pipeline_url(subject, subject.pipeline_id))
    if same_commit:
        return _folded(
            body, f"{_AGAIN}{pipeline}.** The same commit passed without a change to it."
        )
    return _folded(body, f"{_FIXED}{pipeline}.**")


def pipeline_url(subject: Subject, pipeline_id: int) -> str:
    """A page that shows the pipeline: its own, or of a fork's the merge request's list."""
    if subject.pipeline_project_id != subject.project_id:
        return f"{subject.web_url}/pipelines"
    project, _, _ = subject.web_url.partition("/-/merge_requests/")
    return f"{project}/-/pipelines/{pipeline_id}"


def _folded(body: str, headline: str) -> str:
    """The marker stays at the top, so that a reply under the note still finds its session."""
    if is_settled(body) or find_marker(body) is None:
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


def _link(text: str, url: str) -> str:
    return f"[{text}]({url})" if plain_url(url) else text
