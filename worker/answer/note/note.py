"""The bodies of Sandpiper's notes, and the small print at their foot. Pure: all text that others
wrote is made harmless here.

Every body begins with the session's marker on a line of its own (`marker.find_marker`). At most
eight lines are visible at once; the rest is folded. Callers have redacted every value; well-known
shapes of tokens are removed here once more, value by value, and a part of the body that reads like
a secret all the same is refused when it is posted (`finish_body`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

from worker.answer.failed_jobs import Form, write_label
from worker.answer.note.layout import Layout
from worker.answer.note.note_parts import (
    MAX_BRIEF,
    MAX_REASON,
    MAX_SECTION,
    Hosts,
    Parts,
    clean_line,
    remove_tokens,
    render_template,
    say_why_stopped,
    write_answer_parts,
    write_reason,
)
from worker.answer.note.older_note import fold_earlier, write_run_again
from worker.answer.proof import ReplyPart
from worker.conversation.context import Outcome, Subject
from worker.conversation.digest import Digest
from worker.conversation.messages import ToolCall
from worker.safety.lint import MAX_LINES, count_visible_lines
from worker.safety.markdown import Marker, write_code_block, write_code_line
from worker.safety.neutralise import is_link_allowed, is_plain_url
from worker.safety.redacted_values import (
    Counts,
    count_all,
    describe_counts,
    group_by_document,
    redact_values,
)
from worker.safety.untrusted import one_line, parse_object
from worker.verdict.finding import FailedJobs, Finding, Unproven
from worker.verdict.jobs import Group, Hit
from worker.verdict.verdict import HEADLINES

MAX_BODY = 60_000
"""The most characters of a body; GitLab accepts a million."""


@dataclass(frozen=True, slots=True)
class Footer:
    """How a turn went."""

    model: str
    cost_usd: float | None
    """None if a price is unknown."""
    missing_sources: tuple[str, ...] = ()
    """The sources that gave nothing, each with the reason."""
    replaced_model: str = ""
    """The model that did not answer, if another one took over the turn."""
    found_by: str = ""
    """Who found it if no model was asked: "rule", "known" or "incident"."""
    redaction_counts: Counts = ()
    page: str = ""
    """The URL of the session's page, if there is one."""
    tier: str = ""
    """The model's tier with its level; "" without tiers."""
    models: tuple[str, ...] = ()
    """For each model how often it was asked, and why the model changed."""
    digest: Digest | None = None
    """What a turn had looked at when a limit ended it."""
    takes_replies: bool = True
    """The note is in GitLab, where it can be answered."""


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
    again = (
        f"{write_run_again(subject)} Sandpiper is finding out why; the finding will replace this "
        "note."
    )
    body = render_template(
        "placeholder",
        marker=marker.text(),
        resumed=resumed,
        again=again if earlier and not on_request else "",
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
    return _fit_body(
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
    foot = _write_foot(footer, unproven)
    return _fit_body(
        lambda room: render_template(
            "answer",
            marker=marker.text(),
            stopped=say_why_stopped(outcome, subject),
            text=write_answer_parts(parts, hosts, room) or "(The model gave no answer.)",
            **foot,
        )
    )


def _write_foot(footer: Footer | None, unproven: int) -> dict[str, str]:
    """Return the small print, and what it has no room for, folded under a note without details."""
    if footer is None:
        return {"small": "", "rest": ""}
    small, parts = write_small_print(footer, unproven), Parts(frozenset(), 0)
    for title, lines in list_folded_lines(footer, small):
        parts.fold_lines(title, lines)
    return {"small": small, "rest": parts.render_folded(MAX_SECTION)}


def write_failure(
    marker: Marker,
    subject: Subject,
    reason: str,
    footer: Footer | None,
    failed: Sequence[FailedJobs] = (),
    hosts: Hosts = frozenset(),
) -> str:
    """Return the note that says why there is no finding or answer, and what to do.

    `failed` are the jobs found without a model: a partial result is better than none. `hosts` are
    the places that links to them may lead to.
    """
    foot = _write_foot(footer, 0)
    excerpts = []
    for each in redact_values(failed, remove_tokens):
        title = write_label(each.jobs, Form.REPORT, hosts)
        if each.reason:
            title += f": {write_code_line(one_line(each.reason, MAX_REASON))}"
        excerpts.append((title, write_code_block(each.jobs[0].excerpt)))
    for most, limit in ((5, MAX_BRIEF), (3, 240), (2, 240), (1, 160)):
        body = render_template(
            "failure",
            marker=marker.text(),
            jobs=excerpts,
            most=most,
            headline="No analysis this time." if marker.turn == 0 else "No answer this time.",
            reason=_write_sentence(write_reason(reason, subject, limit)),
            takes_replies=footer is None or footer.takes_replies,
            **foot,
        )
        if count_visible_lines(body) <= MAX_LINES:
            break
    return body


def _fit_body(render: Callable[[int], str]) -> str:
    """Return the body with as much of its long texts as fits in `MAX_BODY`."""
    room = MAX_BODY // 2
    while len(body := render(room)) > MAX_BODY and room > 100:
        room //= 2
    return body


def _write_sentence(text: str) -> str:
    # Only words are capitalised: "X86-64" would be a reference to an issue.
    if text[1:2].islower() or text[1:2] == " ":
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else text + "."


# ---------------------------------------------------------------------------------- known failures

_CUTS = ((5, 480), (5, 100), (4, 80), (3, 60), (2, 60), (1, 60))
"""How many errors are named, and the characters of each text; the first pair that fits is used."""


def write_known_failure(
    marker: Marker, found: Finding, groups: Sequence[Group], footer: Footer, hosts: Hosts
) -> str:
    """Return the note on the known errors of `groups`, which all have the verdict of `found`."""
    for most, limit in _CUTS:
        known = [
            (
                clean_line(write_label(group.jobs, Form.KNOWN, most=min(limit, 160)), frozenset()),
                _describe_hit(group.hit, hosts),
                clean_line(group.hit.cause, hosts, limit),
                clean_line(group.hit.to_do, hosts, limit),
            )
            for group in groups[:most]
            if group.hit
        ]
        body = render_template(
            "known",
            marker=marker.text(),
            verdict=HEADLINES[found.verdict],
            known=known,
            more=max(0, len(groups) - most),
            small=write_small_print(footer, 0),
        )
        if count_visible_lines(body) <= MAX_LINES:
            break
    return body


def _describe_hit(hit: Hit, hosts: Hosts) -> str:
    """Return where the error was seen."""
    times = "once" if hit.count == 1 else f"{hit.count} times"
    plural = "s" if len(hit.others) > 1 else ""
    where = f" in {len(hit.others)} other merge request{plural}" if hit.others else ""
    resolution = clean_line(hit.resolution, frozenset(), 100)
    ended = f"; the last time {resolution}" if hit.resolution else ""
    # A link to another merge request would leave a mention there; in code it leaves none.
    is_linked = is_link_allowed(hit.job_url, hosts)
    link = f"[the job explained]({hit.job_url})" if is_linked else "explained"
    try:
        day = datetime.fromtimestamp(hit.first, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        day = "an unknown day"
    return f"seen {times} since {day}{where}, {link} on `!{hit.mr_iid}`{ended}"


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
    minutes, rest = divmod(int(seconds), 60)
    doing = _describe_calls(seen.calls, redact) if seen.calls else "the model is thinking"
    duration = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"Iteration {seen.iteration} of at most {seen.most} · {doing} · {duration}"


def _describe_calls(calls: Sequence[ToolCall], redact: Callable[[str], str]) -> str:
    arguments = parse_object(calls[0].arguments)
    named = [arguments[name] for name in _TARGETS if isinstance(arguments.get(name), str | int)]
    shown = [one_line(remove_tokens(redact(str(each))), _MAX_TARGET) for each in named[:1]]
    target = "".join(f": {code}" for code in map(write_code_line, shown) if code)
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"looking at {write_code_line(calls[0].name)}{target}{more}"


# ------------------------------------------------------------------------------------- small print

MAX_VISIBLE = 139
"""Characters of the small print that a reader sees."""

_MAX_MODEL = 32
MOST_TOLD = 8
"""Lines under one title."""

_WITHOUT = {
    "rule": "Found by rule, no model was asked",
    "known": "Known failure, no model was asked",
    "incident": "Explained by the branch, no model was asked",
    "train": "Explained by the merge train, no model was asked",
}
_SIGNATURE = re.compile(r"sig=\d{1,12}\.[0-9a-f]{16,128}", re.ASCII)


def write_small_print(footer: Footer, unproven: int) -> str:
    """Return one line of less than 140 visible characters; shorter forms are used as needed."""
    without = _WITHOUT.get(footer.found_by)
    # "$12" would link to a snippet.
    cost = footer.cost_usd
    price = "cost unknown" if cost is None else f"{cost:.{4 if 0 < cost < 0.01 else 2}f} USD"
    rest = [] if without or (cost is not None and len(price) > 11) else [price]
    if unproven:
        quotes = "1 quote" if unproven == 1 else f"{min(unproven, 99)} quotes"
        rest.append(f"{quotes} could not be proven")
    address, _, query = footer.page.partition("?")
    is_signed = is_plain_url(address) and _SIGNATURE.fullmatch(query)
    last = [f"[Session]({footer.page})"] if is_signed else []
    # Markdown has at least as many characters as are visible; only the link's URL is hidden.
    hidden = sum(len(link) - len("Session") for link in last)
    if footer.takes_replies:
        last.append("Reply `/sandpiper analyze` to ask a model" if without else "Reply to ask more")
    models = [without] if without else _name_models(footer)
    for who, masked in product(models, _write_masked(footer.redaction_counts)):
        line = " · ".join([*filter(None, (who, *rest, masked)), *last])
        if len(line) - hidden <= MAX_VISIBLE:
            break
    return line


def list_folded_lines(footer: Footer, small_print: str) -> Iterator[tuple[str, list[str]]]:
    """Yield titles and the lines to fold under them: what the `small_print` has no room for."""
    if footer.digest:
        title = clean_line(footer.digest.title, frozenset(), 80)
        yield title, _clean_lines(footer.digest.lines)
    if footer.missing_sources:
        shown = _clean_lines(footer.missing_sources[:MOST_TOLD])
        yield "Not available", _cut_lines([*shown, *footer.missing_sources[MOST_TOLD:]])
    masked = [_write_masked_in(*each) for each in group_by_document(footer.redaction_counts)]
    if len(masked) > 1 or any(each not in small_print for each in masked):
        yield "Masked before it was read", _cut_lines(masked)
    models = _clean_lines(footer.models)
    if footer.replaced_model and _name_both_models(footer) not in small_print:
        models.append(_name_both_models(footer))
    if models:
        yield "Models", _cut_lines(models)


def _clean_lines(lines: Sequence[str]) -> list[str]:
    return [clean_line(line, frozenset(), 300) for line in lines]


def _cut_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_TOLD
    return [*lines[:MOST_TOLD], *([f"{more} more"] if more > 0 else [])]


def _name_models(footer: Footer) -> list[str]:
    """Return forms of the model's name, the longest first: with the replaced model or the tier."""
    name = _shorten_name(footer.model) or "no model"
    longer = f"{name} ({footer.tier})" if footer.tier else name
    return [_name_both_models(footer) if footer.replaced_model else longer, name]


def _name_both_models(footer: Footer) -> str:
    model = _shorten_name(footer.model) or "no model"
    return f"{model} ({_shorten_name(footer.replaced_model)} did not answer)"


def _shorten_name(model: str) -> str:
    # Without its provider; a backtick would need more of them around it.
    name = " ".join(model.split()).rpartition("/")[2].replace("`", "'")
    return write_code_line(name if len(name) <= _MAX_MODEL else f"{name[: _MAX_MODEL - 1]}…")


def _write_masked(found: Counts) -> list[str]:
    """Return forms of what was masked in job logs, the longest first; a single log is named.

    What was masked in the sources, such as a password of a test's database, is told in the details.
    """
    found = tuple(each for each in found if each[-1].startswith("the log of job "))
    if not found:
        return [""]
    documents = group_by_document(found)
    named = [_write_masked_in(*documents[0])] if len(documents) == 1 else []
    number = count_all(found)
    return [*named, "1 value masked" if number == 1 else f"{min(number, 9999)} values masked"]


def _write_masked_in(document: str, found: Counts) -> str:
    where = f" in {clean_line(document, frozenset(), 100)}" if document else ""
    return f"{describe_counts(found)} masked{where}"
