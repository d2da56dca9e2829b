"""The bodies of Sandpiper's notes. Pure: everything in them that others wrote is neutralised here.

Every body begins with the session's marker on a line of its own (`core.identity.find_marker`). What
a reader sees first is at most eight lines; the rest is folded away (field 4.21). Callers redact the
process's own secrets before; well-known token shapes are taken out here once more (law 12), and the
whole body is redacted when it is posted (`finish`).
"""

import re
from collections.abc import Sequence

from worker.core.conversation.context import Outcome, Status, Subject
from worker.core.finding import Finding, Said, Unproven, Verdict
from worker.core.finding.suggestions import Offers
from worker.core.ports import FailedJob
from worker.core.session_id import Marker
from worker.forge.defence.lint import MAX_LINES, visible_lines
from worker.forge.defence.spans import plain_url
from worker.forge.text import changes, record
from worker.forge.text.code import code_block, code_line
from worker.forge.text.fit import MAX_QUOTES, Room, choose_room, count_sentences
from worker.forge.text.footer import Footer, tell_rest, write_small_print
from worker.forge.text.older_note import pipeline_url
from worker.forge.text.parts import (
    MAX_BRIEF,
    MAX_REASON,
    MAX_SECTION,
    Hosts,
    Parts,
    clean,
    job_line,
    job_of,
    said,
    sentence,
    sort_quotes,
    without_tokens,
)
from worker.forge.text.templates_page import MAX_BODY, fitting, render

__all__ = ["MAX_BODY", "Footer", "answer", "failure", "finding", "placeholder"]

_NO_OFFERS = Offers()
_TO_DO = "What to do"
HEADLINES = {
    Verdict.CHANGE: "Caused by this change",
    Verdict.TARGET: "Already failing on the target branch",
    Verdict.FLAKY: "Flaky: not caused by this change",
    Verdict.INFRASTRUCTURE: "Infrastructure: not caused by this change",
    Verdict.UNKNOWN: "Not clear whether this change is the cause",
    Verdict.ABSTAIN: "Not enough evidence to say",
}


def placeholder(marker: Marker, subject: Subject, resumed: bool, progress: str = "") -> str:
    """What stands in the note while the turn runs; `progress` is harmless already."""
    return render(
        "placeholder",
        marker=marker.text(),
        resumed=resumed,
        progress=progress,
        pipeline=subject.pipeline_id,
        commit=code_line(subject.sha[:8]) or "the newest commit",
    )


def finding(
    marker: Marker,
    subject: Subject,
    finding: Finding,
    outcome: Outcome,
    footer: Footer,
    hosts: Hosts,
    offers: Offers = _NO_OFFERS,
) -> str:
    """The analysis. `finding` is proven: its evidence is quoted as it is.

    `hosts` are the places that links may lead to (see `neutralise`), `offers` the changes that its
    advice held.
    """
    small = write_small_print(footer, finding.unproven)
    around = {"marker": marker.text(), "small": small}

    def fits(room: Room) -> bool:
        values, _ = _shown(finding, offers, subject, outcome, hosts, room)
        return visible_lines(render("finding", details="", **around, **values)) <= MAX_LINES

    room = choose_room(_room_for_all(finding), fits)
    values, parts = _shown(finding, offers, subject, outcome, hosts, room)
    for title, lines in tell_rest(footer, small):
        parts.add_lines(title, lines)
    return fitting(lambda size: render("finding", details=parts.folded(size), **around, **values))


def _room_for_all(finding: Finding) -> Room:
    abstains = finding.verdict is Verdict.ABSTAIN
    said = finding.missing if abstains else finding.cause or finding.details
    to_do = finding.next_time if abstains else finding.to_do
    return Room(
        cause=count_sentences(said),
        to_do=count_sentences(to_do),
        quotes=min(MAX_QUOTES, len(finding.evidence)),
        least_quotes=_count_least_quotes(finding),
    )


def _count_least_quotes(finding: Finding) -> int:
    """How many quotes it takes to show one of each failed job, as far as they may be shown."""
    failed = {job for ruling in finding.rulings for job in ruling.jobs}
    jobs = [job_of(each) for each in sort_quotes(finding.evidence)[:MAX_QUOTES]]
    firsts = [at for at, job in enumerate(jobs, 1) if job in failed and job not in jobs[: at - 1]]
    return max([1, *firsts])


def _shown(
    finding: Finding,
    offers: Offers,
    subject: Subject,
    outcome: Outcome,
    hosts: Hosts,
    room: Room,
) -> tuple[dict[str, object], Parts]:
    """What the template shows, and what it folds away."""
    parts = Parts(hosts, room.longest)
    failed = parts.jobs("Failed", finding.failed, room.failed)
    missing = next_time = cause = to_do = ""
    if finding.verdict is Verdict.ABSTAIN:
        missing = parts.brief("Missing", finding.missing, room.cause)
        next_time = parts.brief("Next time", finding.next_time, room.to_do)
        parts.add("What is known", finding.cause)
        parts.add(_TO_DO, finding.to_do)
    else:
        cause = parts.brief("Cause", finding.cause, room.cause)
        to_do = _to_do(finding, parts, room.to_do)
        parts.add("Missing", finding.missing)
        parts.add("Next time", finding.next_time)
    parts.add("Changes", offers.text)
    if not (finding.failed or cause or to_do or missing):
        cause = parts.brief("Answer", finding.details, room.cause)
    else:
        parts.add("Further details", finding.details)
    quotes = parts.quotes(finding.evidence, room.quotes, whole=room.whole_quotes)
    parts.add_lines(record.TITLE, record.lines(finding, hosts))
    stopped = _stopped(outcome, subject, MAX_REASON)
    return {
        "verdict": _headline(finding, outcome),
        "stopped": " ".join(filter(None, (stopped, finding.doubt, record.doubt(finding, hosts)))),
        "failed": failed,
        "missing": missing,
        "next_time": next_time,
        "cause": cause,
        "whose": " in the model's view" if _overruled(finding) else "",
        "evidence": quotes,
        "to_do": to_do,
        "fixes": changes.say_where(offers, limited=parts.folds(_TO_DO)),
        "advised": " in the model's view" if _overruled(finding) and finding.evidence else "",
    }, parts


_INSTEAD = {
    Verdict.FLAKY: "Retry the job.",
    Verdict.INFRASTRUCTURE: "Retry the job; if it goes on, tell whoever keeps the runners.",
    Verdict.TARGET: "Have it mended on the target branch, then rebase.",
    Verdict.UNKNOWN: "Decide by GitLab's record in the details; the model's advice is there too.",
}
"""What follows from the record where it overrules the model, whose advice may be the opposite."""


def _to_do(finding: Finding, parts: Parts, sentences: int) -> str:
    """The model's advice; where the record overrules it, only if proven quotes back it."""
    instead = _INSTEAD.get(finding.verdict, "") if _overruled(finding) else ""
    if not instead or finding.evidence:
        return parts.brief(_TO_DO, finding.to_do, sentences)
    parts.add("What the model would do", finding.to_do)
    return instead


def _overruled(finding: Finding) -> bool:
    return finding.judged is not None and bool(finding.judged.because)


def answer(
    marker: Marker,
    subject: Subject,
    parts: tuple[Said, ...],
    outcome: Outcome,
    footer: Footer | None,
    hosts: Hosts,
) -> str:
    """A reply in the thread: text, quotes that are proven, and the places of those that are not."""
    unproven = sum(isinstance(part, Unproven) for part in parts)
    small = write_small_print(footer, unproven) if footer else ""
    return fitting(
        lambda room: render(
            "answer",
            marker=marker.text(),
            stopped=_stopped(outcome, subject),
            text=said(parts, hosts, room) or "(The model gave no answer.)",
            rest=_rest(footer, small) if footer else "",
            small=small,
        )
    )


def _rest(footer: Footer, small_print: str) -> str:
    """What the small print has no room for, as it is folded under a note without details."""
    parts = Parts(frozenset(), 0)
    for title, lines in tell_rest(footer, small_print):
        parts.add_lines(title, lines)
    return parts.folded(MAX_SECTION)


def failure(
    marker: Marker,
    subject: Subject,
    reason: str,
    footer: Footer | None,
    jobs: Sequence[FailedJob] = (),
    hosts: Hosts = frozenset(),
) -> str:
    """Why there is no finding or answer, in plain words, and what to do.

    `jobs` is what was found without a model: partial over nothing (law 8). `hosts` are the places
    that links to them may lead to.
    """
    small = write_small_print(footer, 0) if footer else ""
    for most, limit in ((5, MAX_BRIEF), (3, 240), (2, 240), (1, 160)):
        body = render(
            "failure",
            marker=marker.text(),
            jobs=[(job_line(job, hosts), code_block(without_tokens(job.excerpt))) for job in jobs],
            most=most,
            headline="No analysis this time." if marker.turn == 0 else "No answer this time.",
            reason=sentence(_reason(reason, subject, limit)),
            rest=_rest(footer, small) if footer else "",
            small=small,
        )
        if visible_lines(body) <= MAX_LINES:
            break
    return body


def _headline(finding: Finding, outcome: Outcome) -> str:
    headline = HEADLINES[finding.verdict]
    return headline if outcome.status is Status.DONE else f"Unfinished: {headline.lower()}"


def _stopped(outcome: Outcome, subject: Subject, limit: int = MAX_BRIEF) -> str:
    if outcome.status is Status.DONE:
        return ""
    reason = _reason(outcome.reason, subject, limit).rstrip(".") or "the run ended early"
    return f"This is what was found before it stopped: {reason}."


_OVERTAKEN = re.compile(r"superseded by pipeline (\d{1,18})(, which passed)?")


def _reason(text: str, subject: Subject, limit: int = MAX_BRIEF) -> str:
    """Why a run has ended, harmless; with a link to the pipeline that has overtaken it."""
    if not (found := _OVERTAKEN.fullmatch(text)):
        return clean(text, frozenset(), limit)
    url = pipeline_url(subject, int(found[1]))
    pipeline = f"pipeline {found[1]}"
    linked = f"[{pipeline}]({url})" if plain_url(url) else pipeline
    return f"superseded by {linked}{found[2] or ''}"
