"""The bodies of Sandpiper's notes. Pure: all text that others wrote is made harmless here.

Every body begins with the session's marker on a line of its own (`marker.find_marker`). At most
eight lines are visible at once; the rest is folded. Callers have redacted every value; well-known
shapes of tokens are removed here once more, value by value, and a part of the body that reads like
a secret all the same is refused when it is posted (`finish_body`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from worker.answer.failed_jobs import cut_names
from worker.answer.note.footer import Footer, list_folded_lines, write_small_print
from worker.answer.note.layout import HEADLINES, Layout
from worker.answer.note.note_parts import (
    MAX_BRIEF,
    MAX_SECTION,
    Hosts,
    Parts,
    clean_line,
    fit_body,
    remove_tokens,
    render_template,
    say_why_stopped,
    write_answer_parts,
    write_job_line,
    write_reason,
    write_sentence,
)
from worker.answer.note.older_note import fold_earlier, write_waiting
from worker.answer.proof import ReplyPart
from worker.conversation.context import Outcome, Subject
from worker.conversation.messages import ToolCall
from worker.safety.lint import MAX_LINES, count_visible_lines
from worker.safety.markdown import Marker, write_code_block, write_code_line
from worker.safety.neutralise import is_link_allowed
from worker.safety.untrusted import one_line, parse_object
from worker.verdict.finding import FailedJob, Finding, Unproven
from worker.verdict.jobs import Group, Hit


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


# ---------------------------------------------------------------------------------- known failures

_CUTS = ((5, 480), (5, 100), (4, 80), (3, 60), (2, 60), (1, 60))
"""How many errors are named, and the characters of each text; the first pair that fits is used."""


def write_known_failure(
    marker: Marker, found: Finding, groups: Sequence[Group], footer: Footer, hosts: Hosts
) -> str:
    """Return the note on the known errors of `groups`, which all have the verdict of `found`."""
    for most, limit in _CUTS:
        body = render_template(
            "known",
            marker=marker.text(),
            verdict=HEADLINES[found.verdict],
            known=[
                _describe_group(group, group.hit, hosts, limit)
                for group in groups[:most]
                if group.hit
            ],
            more=max(0, len(groups) - most),
            small=write_small_print(footer, 0),
        )
        if count_visible_lines(body) <= MAX_LINES:
            break
    return body


def _describe_group(group: Group, hit: Hit, hosts: Hosts, limit: int) -> tuple[str, str, str, str]:
    """Return the jobs, where their error was seen, its cause, and what to do; texts are cut at
    `limit` characters."""
    failed = clean_line(cut_names(group.job_names, min(limit, 160)), frozenset())
    return (
        failed,
        _describe_hit(hit, hosts),
        clean_line(hit.cause, hosts, limit),
        clean_line(hit.to_do, hosts, limit),
    )


def _describe_hit(hit: Hit, hosts: Hosts) -> str:
    times = "once" if hit.count == 1 else f"{hit.count} times"
    plural = "s" if len(hit.others) > 1 else ""
    where = f" in {len(hit.others)} other merge request{plural}" if hit.others else ""
    ended = (
        f"; the last time {clean_line(hit.resolution, frozenset(), 100)}" if hit.resolution else ""
    )
    # A link to another merge request would leave a mention there; in code it leaves none.
    link = (
        f"[the job explained]({hit.job_url})"
        if is_link_allowed(hit.job_url, hosts)
        else "explained"
    )
    return f"seen {times} since {_write_day(hit.first)}{where}, {link} on `!{hit.mr_iid}`{ended}"


def _write_day(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return "an unknown day"


# ---------------------------------------------------------------------------------------- progress

_MAX_TARGET = 70
"""Characters that are shown of a tool call's argument."""

WAITING = "Waiting: no model answers now. It goes on by itself as soon as one does."

_TARGETS = ("command", "source", "path", "name", "query", "job_id", "pipeline_id", "ref")


@dataclass(frozen=True, slots=True)
class Progress:
    """The current iteration, the highest possible one, and the calls that the run waits for."""

    iteration: int
    most: int
    calls: tuple[ToolCall, ...] = ()


def write_progress(seen: Progress, seconds: float, redact: Callable[[str], str]) -> str:
    """Return the line as Markdown; `seconds` is how long the turn has taken."""
    parts = [f"Iteration {seen.iteration} of at most {seen.most}"]
    parts += [_describe_calls(seen.calls, redact)] if seen.calls else ["the model is thinking"]
    return " · ".join([*parts, _write_duration(seconds)])


def _describe_calls(calls: Sequence[ToolCall], redact: Callable[[str], str]) -> str:
    name, target = write_code_line(calls[0].name), _find_target(calls[0], redact)
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"looking at {name}{': ' + target if target else ''}{more}"


def _find_target(call: ToolCall, redact: Callable[[str], str]) -> str:
    """Return the first argument of `_TARGETS` that the call has, as code."""
    arguments = parse_object(call.arguments)
    named = [arguments[name] for name in _TARGETS if isinstance(arguments.get(name), str | int)]
    return (
        write_code_line(one_line(remove_tokens(redact(str(named[0]))), _MAX_TARGET))
        if named
        else ""
    )


def _write_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
