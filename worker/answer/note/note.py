"""The bodies of Sandpiper's notes. Pure: all text that others wrote is made harmless here.

Every body begins with the session's marker on a line of its own (`conversation.session_id.find_marker`). At
most eight lines are visible at once; the rest is folded. Callers have redacted every value;
well-known shapes of tokens are removed here once more, value by value, and a part of the body that
reads like a secret all the same is refused when it is posted (`finish_body`).
"""

from collections.abc import Sequence

from worker.answer.note.footer import Footer, list_folded_lines, write_small_print
from worker.answer.note.layout import Layout
from worker.answer.note.note_parts import (
    MAX_BRIEF,
    MAX_SECTION,
    Hosts,
    Parts,
    remove_tokens,
    write_answer_parts,
    write_job_line,
    write_sentence,
)
from worker.answer.note.render import fit_body, render_template
from worker.answer.note.run_again import fold_earlier, write_waiting
from worker.answer.note.stopped import say_why_stopped, write_reason
from worker.answer.proof import ReplyPart
from worker.conversation.context import Outcome, Subject
from worker.safety.code import write_code_block, write_code_line
from worker.safety.lint import MAX_LINES, count_visible_lines
from worker.safety.marker import Marker
from worker.verdict.finding import FailedJob, Unproven


def write_placeholder(
    marker: Marker,
    subject: Subject,
    resumed: bool,
    progress: str = "",
    earlier: str = "",
    *,
    on_request: bool = False,
) -> str:
    """Return the note's body while the turn runs; `progress` and the `earlier` note, of a failure
    that has come again or is looked at again `on_request`, are harmless already."""
    body = render_template(
        "placeholder",
        marker=marker.text(),
        resumed=resumed,
        again=write_waiting(subject) if earlier and not on_request else "",
        progress=progress,
        pipeline=subject.pipeline_id,
        commit=write_code_line(subject.sha[:8]) or "the newest commit",
    )
    return fold_earlier(body, earlier)


def is_placeholder(body: str) -> bool:
    """Whether a note of ours says that another text will replace it."""
    return "will replace this note." in body


def write_finding(marker: Marker, layout: Layout, footer: Footer) -> str:
    """Return the note of an analysis."""
    small = write_small_print(footer, layout.finding.unproven)
    values, parts = layout.lay_out(small)
    for title, folded in list_folded_lines(footer, small):
        parts.fold_lines(title, folded)
    return fit_body(
        lambda size: render_template(
            "finding", marker=marker.text(), details=parts.render_folded(size), **values
        )
    )


def write_answer(
    marker: Marker,
    subject: Subject,
    parts: tuple[ReplyPart, ...],
    outcome: Outcome,
    footer: Footer | None,
    hosts: Hosts,
) -> str:
    """Return a reply: text, proven quotes, and the places of those that could not be proven."""
    unproven = sum(isinstance(part, Unproven) for part in parts)
    small = write_small_print(footer, unproven) if footer else ""
    return fit_body(
        lambda room: render_template(
            "answer",
            marker=marker.text(),
            stopped=say_why_stopped(outcome, subject),
            text=write_answer_parts(parts, hosts, room) or "(The model gave no answer.)",
            rest=_fold_rest(footer, small) if footer else "",
            small=small,
        )
    )


def _fold_rest(footer: Footer, small_print: str) -> str:
    """Return what the small print has no room for, to be folded under a note without details."""
    parts = Parts(frozenset(), 0)
    for title, lines in list_folded_lines(footer, small_print):
        parts.fold_lines(title, lines)
    return parts.render_folded(MAX_SECTION)


def write_failure(
    marker: Marker,
    subject: Subject,
    reason: str,
    footer: Footer | None,
    jobs: Sequence[FailedJob] = (),
    hosts: Hosts = frozenset(),
) -> str:
    """Return the note that says why there is no finding or answer, and what to do.

    `jobs` are the failed jobs found without a model: a partial result is better than none. `hosts`
    are the places that links to them may lead to.
    """
    small = write_small_print(footer, 0) if footer else ""
    for most, limit in ((5, MAX_BRIEF), (3, 240), (2, 240), (1, 160)):
        body = render_template(
            "failure",
            marker=marker.text(),
            jobs=[
                (write_job_line(job, hosts), write_code_block(remove_tokens(job.excerpt)))
                for job in jobs
            ],
            most=most,
            headline="No analysis this time." if marker.turn == 0 else "No answer this time.",
            reason=write_sentence(write_reason(reason, subject, limit)),
            takes_replies=footer is None or footer.takes_replies,
            rest=_fold_rest(footer, small) if footer else "",
            small=small,
        )
        if count_visible_lines(body) <= MAX_LINES:
            break
    return body
