"""The bodies of Sandpiper's notes. Pure: all text that others wrote is made harmless here.

Every body begins with the session's marker on a line of its own (`core.session_id.find_marker`). At
most eight lines are visible at once; the rest is folded. Callers have redacted the process's own
secrets; well-known shapes of tokens are removed here once more, and the whole body is redacted
again when it is posted (`finish_body`).
"""

import re
from collections.abc import Mapping, Sequence

from worker.core.conversation.context import Outcome, Status, Subject
from worker.core.finding import Evidence, Finding, ReplyPart, Unproven, Verdict
from worker.core.finding.further_failures import count_named_failures
from worker.core.finding.retries import advises_against_retry
from worker.core.finding.suggestions import Offers
from worker.core.ports import FailedJob
from worker.core.session_id import Marker
from worker.core.text.untrusted import visible
from worker.forge.defence.lint import MAX_LINES, count_visible_lines
from worker.forge.defence.spans import is_plain_url
from worker.forge.text import changes, record
from worker.forge.text.code import write_code_block, write_code_line
from worker.forge.text.failed_jobs import count_tests
from worker.forge.text.fit import (
    PartLimits,
    QuoteShape,
    WholeParts,
    choose_room,
    count_sentences,
    is_brief,
    tell_further_failure,
)
from worker.forge.text.footer import Footer, list_folded_lines, write_small_print
from worker.forge.text.older_note import make_pipeline_url
from worker.forge.text.parts import (
    MAX_BRIEF,
    MAX_REASON,
    MAX_SECTION,
    Hosts,
    Parts,
    clean_line,
    remove_tokens,
    write_answer_parts,
    write_job_line,
    write_sentence,
)
from worker.forge.text.quotes import (
    announces_next,
    choose_line,
    find_words,
    get_job_id,
    is_of_failure,
    sort_quotes,
)
from worker.forge.text.templates_page import MAX_BODY, fit_body, render_template

__all__ = [
    "MAX_BODY",
    "Footer",
    "write_answer",
    "write_failure",
    "write_finding",
    "write_placeholder",
]

_NO_OFFERS = Offers()
_PATH = re.compile(r"[^\s/]{1,200}/\S{1,300}")
_TO_DO = "What to do"
HEADLINES = {
    Verdict.CHANGE: "Caused by this change",
    Verdict.TARGET: "Already failing on the target branch",
    Verdict.FLAKY: "Flaky: not caused by this change",
    Verdict.INFRASTRUCTURE: "Infrastructure: not caused by this change",
    Verdict.UNKNOWN: "Not clear whether this change is the cause",
    Verdict.ABSTAIN: "Not enough evidence to say",
}


def write_placeholder(marker: Marker, subject: Subject, resumed: bool, progress: str = "") -> str:
    """Returns the note's body while the turn runs; `progress` is harmless already."""
    return render_template(
        "placeholder",
        marker=marker.text(),
        resumed=resumed,
        progress=progress,
        pipeline=subject.pipeline_id,
        commit=write_code_line(subject.sha[:8]) or "the newest commit",
    )


def write_finding(
    marker: Marker,
    subject: Subject,
    finding: Finding,
    outcome: Outcome,
    footer: Footer,
    hosts: Hosts,
    offers: Offers = _NO_OFFERS,
) -> str:
    """Returns the note of an analysis. The evidence of `finding` is proven: it is quoted verbatim.

    `hosts` are the places that links may lead to (see `neutralise`), `offers` the suggestions.
    """
    small = write_small_print(footer, finding.unproven)
    around = {"marker": marker.text(), "small": small}
    lines = _choose_lines(finding)

    def fits(room: PartLimits) -> bool:
        values, _ = _fill_template(finding, lines, offers, subject, outcome, hosts, room)
        return (
            count_visible_lines(render_template("finding", details="", **around, **values))
            <= MAX_LINES
        )

    room = choose_room(_measure_whole(finding, lines), fits)
    values, parts = _fill_template(finding, lines, offers, subject, outcome, hosts, room)
    for title, folded in list_folded_lines(footer, small):
        parts.fold_lines(title, folded)
    return fit_body(
        lambda size: render_template(
            "finding", details=parts.render_folded(size), **around, **values
        )
    )


def _measure_whole(finding: Finding, lines: Mapping[int, Evidence]) -> WholeParts:
    abstains = finding.verdict is Verdict.ABSTAIN
    said = finding.missing_evidence if abstains else finding.cause or finding.details
    to_do = finding.next_time if abstains else finding.to_do
    return WholeParts(
        cause=count_sentences(said),
        to_do=count_sentences(to_do),
        quotes=[
            _describe_shape(each, lines.get(at), _list_failed(finding))
            for at, each in enumerate(_sort_quotes(finding))
        ],
        has_origin=bool(record.write_origin(finding, frozenset())),
        named_failures=0 if abstains else count_named_failures(finding.cause),
        jobs_level=_find_free_level(finding.what_failed),
        tests=count_tests(visible(finding.what_failed)),
        is_advice_brief=is_brief(to_do),
        now=abstains and count_sentences(finding.to_do) > 0,
    )


def _list_failed(finding: Finding) -> frozenset[int]:
    return frozenset(job for ruling in finding.rulings for job in ruling.jobs)


def _sort_quotes(finding: Finding) -> list[Evidence]:
    return sort_quotes(finding.evidence, _list_failed(finding))


def _describe_shape(quote: Evidence, line: Evidence | None, failed: frozenset[int]) -> QuoteShape:
    return QuoteShape(
        several="\n" in quote.text,
        legible="\n" not in quote.text or line is not None,
        announces=announces_next((line or quote).text),
        fails=is_of_failure(quote, failed),
        job=get_job_id(quote) if get_job_id(quote) in failed else 0,
    )


def _find_free_level(what_failed: str) -> int:
    """Returns the most detailed level of `shorten_jobs` that takes no more lines than level 2."""
    least, *more = (
        count_visible_lines(
            f"**Failed:** {Parts(frozenset(), 0).write_jobs('', what_failed, level)}"
        )
        for level in (2, 0, 1)
    )
    return next((level for level, lines in zip((0, 1), more, strict=True) if lines <= least), 2)


def _find_cause_words(finding: Finding) -> frozenset[str]:
    # What failed is named beside the quotes anyway, and of a path any line may have a part.
    return find_words(_PATH.sub(" ", finding.cause))


def _choose_lines(finding: Finding) -> dict[int, Evidence]:
    """Returns the most telling line of each quote of several lines, by the quote's number."""
    about = _find_cause_words(finding)
    lines = {
        at: choose_line(each, about)
        for at, each in enumerate(_sort_quotes(finding))
        if "\n" in each.text
    }
    return {at: line for at, line in lines.items() if line}


def _fill_template(
    finding: Finding,
    lines: Mapping[int, Evidence],
    offers: Offers,
    subject: Subject,
    outcome: Outcome,
    hosts: Hosts,
    room: PartLimits,
) -> tuple[dict[str, object], Parts]:
    """Returns the values of the template, and the parts to fold. `lines`: see `_choose_lines`."""
    parts = Parts(hosts, room.longest)
    failed = parts.write_jobs("Failed", finding.what_failed, room.jobs_level, room.tests)
    fill = _fill_abstention if finding.verdict is Verdict.ABSTAIN else _fill_sections
    said = _NOTHING_SAID | fill(finding, parts, hosts, room)
    parts.fold_section("Changes", offers.text)
    if not (failed or any(said.values())):
        said["cause"] = parts.write_brief("Answer", finding.details, room.cause)
    else:
        parts.fold_section("Further details", finding.details)
    shortened = {at: line for at, line in lines.items() if at in room.one_line}
    quotes = parts.write_quotes(
        _sort_quotes(finding), room.quotes, shortened, room.quote_size, _find_cause_words(finding)
    )
    parts.fold_lines(record.TITLE, record.write_record(finding, hosts))
    stopped = _say_why_stopped(outcome, subject, MAX_REASON)
    advice = parts.get_folded(_TO_DO)
    fixes = changes.say_where(offers, advice)
    return said | {
        "verdict": _choose_headline(finding, outcome),
        "origin": record.write_origin(finding, hosts) if room.origin else "",
        "stopped": " ".join(
            filter(None, (stopped, finding.doubt, record.write_doubt(finding, hosts)))
        ),
        "failed": failed,
        "whose": " in the model's view" if _is_overruled(finding) else "",
        "evidence": quotes,
        "to_do": _end_sentence(said["to_do"]) if fixes else said["to_do"],
        "fixes": fixes,
        "more": changes.say_what_is_folded(
            said["to_do"],
            advice,
            finding.details,
            bool(parts.get_folded("Cause")),
            bool(offers.text),
        ),
        "advised": " in the model's view" if _is_overruled(finding) and finding.evidence else "",
    }, parts


_NOTHING_SAID = dict.fromkeys(("cause", "missing", "next_time", "to_do"), "")


def _fill_sections(
    finding: Finding, parts: Parts, hosts: Hosts, room: PartLimits
) -> dict[str, str]:
    cause = parts.write_brief("Cause", finding.cause, room.cause)
    if further := tell_further_failure(finding.cause, room.cause, room.further_size):
        cause += f" {clean_line(further, hosts)}"
    to_do = _choose_advice(finding, parts, room.to_do)
    parts.fold_section("Missing", finding.missing_evidence)
    parts.fold_section("Next time", finding.next_time)
    return {"cause": cause, "to_do": to_do}


def _fill_abstention(
    finding: Finding, parts: Parts, hosts: Hosts, room: PartLimits
) -> dict[str, str]:
    missing = parts.write_brief("Missing", finding.missing_evidence, room.cause)
    next_time = parts.write_brief("Next time", finding.next_time, room.to_do)
    parts.fold_section("What is known", finding.cause)
    to_do = parts.write_brief(_TO_DO, finding.to_do, int(room.now))
    return {"missing": missing, "next_time": next_time, "to_do": to_do}


def _end_sentence(text: str) -> str:
    """Returns harmless `text` with a full stop, if it is no whole sentence yet."""
    return text if not text or text.rstrip("*_`\"')")[-1:] in _ENDS else f"{text}."


_ENDS = (*".!?…。！？", "")
_INSTEAD = {
    Verdict.FLAKY: "Retry the job.",
    Verdict.INFRASTRUCTURE: "Retry the job; if it goes on, tell whoever keeps the runners.",
    Verdict.TARGET: "Have it mended on the target branch, then rebase.",
    Verdict.UNKNOWN: "Decide by GitLab's record in the details; the model's advice is there too.",
}
"""The advice where GitLab's record overrules the model, whose own advice may be the opposite."""


def _choose_advice(finding: Finding, parts: Parts, sentences: int) -> str:
    """Returns the model's advice; if the record overrules the model, only if there are quotes."""
    instead = _INSTEAD.get(finding.verdict, "") if _is_overruled(finding) else ""
    if not instead or finding.evidence:
        return parts.write_brief(_TO_DO, finding.to_do, sentences)
    parts.fold_section("What the model would do", finding.to_do)
    return instead


def _is_overruled(finding: Finding) -> bool:
    return finding.final_verdict is not None and bool(finding.final_verdict.because)


def write_answer(
    marker: Marker,
    subject: Subject,
    parts: tuple[ReplyPart, ...],
    outcome: Outcome,
    footer: Footer | None,
    hosts: Hosts,
) -> str:
    """Returns a reply: text, proven quotes, and the places of those that could not be proven."""
    unproven = sum(isinstance(part, Unproven) for part in parts)
    small = write_small_print(footer, unproven) if footer else ""
    return fit_body(
        lambda room: render_template(
            "answer",
            marker=marker.text(),
            stopped=_say_why_stopped(outcome, subject),
            text=write_answer_parts(parts, hosts, room) or "(The model gave no answer.)",
            rest=_fold_rest(footer, small) if footer else "",
            small=small,
        )
    )


def _fold_rest(footer: Footer, small_print: str) -> str:
    """Returns what the small print has no room for, to be folded under a note without details."""
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
    """Returns the note that says why there is no finding or answer, and what to do.

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
            reason=write_sentence(_write_reason(reason, subject, limit)),
            rest=_fold_rest(footer, small) if footer else "",
            small=small,
        )
        if count_visible_lines(body) <= MAX_LINES:
            break
    return body


def _choose_headline(finding: Finding, outcome: Outcome) -> str:
    headline = HEADLINES[finding.verdict]
    if finding.verdict is Verdict.FLAKY and not _is_overruled(finding):
        headline += ", and a retry does not help" * advises_against_retry(finding.to_do)
    return headline if outcome.status is Status.DONE else f"Unfinished: {headline.lower()}"


def _say_why_stopped(outcome: Outcome, subject: Subject, limit: int = MAX_BRIEF) -> str:
    if outcome.status is Status.DONE:
        return ""
    reason = _write_reason(outcome.reason, subject, limit).rstrip(".") or "the run ended early"
    return f"This is what was found before it stopped: {reason}."


_OVERTAKEN = re.compile(r"superseded by pipeline (\d{1,18})(, which passed)?")


def _write_reason(text: str, subject: Subject, limit: int = MAX_BRIEF) -> str:
    """Returns why a run ended, made harmless, with a link to a pipeline that superseded it."""
    if not (found := _OVERTAKEN.fullmatch(text)):
        return clean_line(text, frozenset(), limit)
    url = make_pipeline_url(subject, int(found[1]))
    pipeline = f"pipeline {found[1]}"
    linked = f"[{pipeline}]({url})" if is_plain_url(url) else pipeline
    return f"superseded by {linked}{found[2] or ''}"
