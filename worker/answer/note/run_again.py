"""What the note of a failure says once its jobs were run again. Pure; all text is harmless.

There is one note for a commit: what was found on the newest failure stands in it, and what was
found before lies folded below.
"""

from worker.answer.note.older_note import is_marked, make_pipeline_url
from worker.answer.note.revision import fold_below, take_text
from worker.conversation.context import Subject
from worker.safety.marker import find_marker
from worker.safety.neutralise import is_plain_url

_SAME = "**Failed again in the same way in "
_SUMMARY = "<summary>What was found before</summary>"
_FOLD = "<details>"


def write_run_again(subject: Subject) -> str:
    """Return the line above what is found on the pipeline of `subject`."""
    return f"**Run again:** failed in another way in {_link_pipeline(subject)}."


def write_waiting(subject: Subject) -> str:
    """Return what stands in the note until that is found."""
    return (
        f"{write_run_again(subject)} Sandpiper is finding out why; the finding will replace this "
        "note."
    )


def fold_earlier(body: str, earlier: str) -> str:
    """Return `body` with the note `earlier` folded below it; `body` itself if there was none."""
    text = take_text(earlier)
    return fold_below(body, _SUMMARY, text) if text else body


def mark_failed_again(body: str, subject: Subject, ended: str, *, passed_between: bool) -> str:
    """Return `body` with a line on the pipeline of `subject`, which failed again in the same way.

    `ended` is the verdict that this ends: what was found is folded then. `passed_between` says that
    the commit has passed since. Where such a line, or one on that pass, stands, it is replaced.
    """
    if find_marker(body) is None:
        return body
    marker, _, rest = body.partition("\n")
    rest = rest.strip("\n")
    if rest.startswith(_SAME) or is_marked(body):
        rest = rest.partition("\n")[2].strip("\n")
    line = f"{_SAME}{_link_pipeline(subject)}.**"
    if passed_between:
        line += " It had passed on this commit in between: it comes and goes."
    elif ended:
        line += (
            f" So it does not pass by itself: “{ended}” is not the verdict any more. Reply here, "
            "or write `/sandpiper analyze`, to have it looked into."
        )
    told = "\n".join([marker, "", line])
    if ended and not passed_between and not rest.startswith(_FOLD):
        return fold_below(told, "<summary>What was found</summary>", rest)
    return f"{told}\n\n{rest}"


def _link_pipeline(subject: Subject) -> str:
    url, text = make_pipeline_url(subject, subject.pipeline_id), f"pipeline {subject.pipeline_id}"
    return f"[{text}]({url})" if is_plain_url(url) else text
