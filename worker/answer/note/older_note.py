"""Changes a note that was posted before: marks it as outdated or failed again, and folds older text
below newer text. Pure; all text is harmless.

There is one note for a commit: what was found on the newest failure stands in it, and what was
found before lies folded below.
"""

from collections.abc import Mapping

from worker.conversation.context import Subject
from worker.safety.lint import MAX_SIZE
from worker.safety.markdown import Marker, find_marker, write_code_line
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
    pipeline = link_pipeline(subject, subject.pipeline_id)
    if same_commit:
        return _fold_body(
            body, f"{_AGAIN}{pipeline}.** The same commit passed without a change to it."
        )
    return _fold_body(body, f"{_FIXED}{pipeline}.**")


def link_pipeline(subject: Subject, pipeline_id: int) -> str:
    """Return a link to the pipeline; for a fork's one, to the merge request's pipelines."""
    project, _, _ = subject.web_url.partition("/-/")
    is_fork = subject.pipeline_project_id != subject.project_id
    url = f"{subject.web_url}/pipelines" if is_fork else f"{project}/-/pipelines/{pipeline_id}"
    return _write_link(f"pipeline {pipeline_id}", url)


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


# ----------------------------------------------------------------- a note and what was said before

_SAID_FIRST = "<summary>What was said first, before a later answer changed it</summary>"
_ROOM = MAX_SIZE - 1_000
"""The most characters of a note that can still be marked as outdated later."""


def take_text(note: str) -> str:
    """Return the text of a note without its marker."""
    return note.partition("\n")[2].strip("\n")


def put_above(note: str, text: str) -> str:
    """Return `note` with `text` above its headline."""
    marker, _, rest = note.partition("\n")
    return f"{marker}\n\n{text}\n{rest}" if text else note


def _fold_below(note: str, summary: str, text: str) -> str:
    """Return `note` with `text` folded below it, under a `summary`.

    If both are too long for one note, the text's details are left out, and the note says so.
    """

    def fold(text: str) -> str:
        return "\n".join([note.rstrip("\n"), "", "<details>", summary, "", text, "", "</details>"])

    whole = fold(text)
    if len(whole) <= _ROOM:
        return whole
    return fold(f"{text.partition('<details>')[0].rstrip()}\n\n(Its details are left out here.)")


def replace_first(finding: str, marker: Marker, first: str, answer_url: str) -> str:
    """Return the note `finding` in place of a session's `first` note, whose text is folded below.

    `marker` is the first note's.
    """
    answer = _write_link("A later answer", answer_url)
    said = f"{answer} has changed the verdict.\n\n{take_text(first)}"
    return _fold_below(f"{marker.text()}\n\n{take_text(finding)}", _SAID_FIRST, said)


# ------------------------------------------------------------------------ jobs that were run again

_SAME = "**Failed again in the same way in "
_RETRIED = "**Run again once by Sandpiper:** "
_FOUND_BEFORE = "<summary>What was found before</summary>"
_FOLD = "<details>"


def write_run_again(subject: Subject) -> str:
    """Return the line above what is found on the pipeline of `subject`."""
    return f"**Run again:** failed in another way in {link_pipeline(subject, subject.pipeline_id)}."


def fold_earlier(body: str, earlier: str) -> str:
    """Return `body` with the note `earlier` folded below it; `body` itself if there was none."""
    text = take_text(earlier)
    return _fold_below(body, _FOUND_BEFORE, text) if text else body


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
    line = f"{_SAME}{link_pipeline(subject, subject.pipeline_id)}.**"
    if passed_between:
        line += " It had passed on this commit in between: it comes and goes."
    elif ended:
        line += (
            f" So it does not pass by itself: “{ended}” is not the verdict any more. Reply here, "
            "or write `/sandpiper analyze`, to have it looked into."
        )
    told = "\n".join([marker, "", line])
    if ended and not passed_between and not rest.startswith(_FOLD):
        return _fold_below(told, "<summary>What was found</summary>", rest)
    return f"{told}\n\n{rest}"


def put_retries(body: str, subject: Subject, jobs: Mapping[str, int]) -> str:
    """Return `body` with a line above its headline on the jobs that the bot has run again, by
    name: the id of the new job. Doing it twice changes nothing."""
    marker, _, rest = body.partition("\n")
    if not jobs or find_marker(body) is None or is_marked(body) or rest.lstrip().startswith(_SAME):
        return body
    project, _, _ = subject.web_url.partition("/-/")
    new = [
        f"{write_code_line(name)} as {_write_link(f'job {number}', f'{project}/-/jobs/{number}')}"
        for name, number in jobs.items()
    ]
    line = f"{_RETRIED}{', '.join(new)}. Nothing to do until that has ended; it will be said here."
    rest = rest.strip("\n")
    if rest.startswith(_RETRIED):
        rest = rest.partition("\n")[2].strip("\n")
    return f"{marker}\n\n{line}\n\n{rest}"
