"""The bodies of Sandpiper's notes. Pure: everything in them that others wrote is neutralised here.

Every body begins with the session's marker on a line of its own (`core.identity.find_marker`). What
a reader sees first is at most eight lines; the rest is folded away (field 4.21). Callers redact the
process's own secrets before; well-known token shapes are taken out here once more (law 12).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import jinja2

from worker.core.context import Outcome, Status, Subject
from worker.core.finding import Evidence, Finding, Verdict
from worker.core.hostile import visible
from worker.core.identity import Marker
from worker.core.messages import Usage
from worker.core.ports import FailedJob
from worker.core.redact import Redactor
from worker.forge.code import code_block, code_line
from worker.forge.neutralise import inline, neutralise
from worker.forge.spans import plain_url

MAX_BODY = 60_000
"""Characters of a body; GitLab takes a million (wire-gitlab 5)."""

MAX_QUOTES = 3
MAX_QUOTE = 300
MAX_BRIEF = 480

Hosts = frozenset[str]

_HEADLINES = {
    Verdict.CHANGE: "Caused by this change",
    Verdict.TARGET: "Already failing on the target branch",
    Verdict.FLAKY: "Flaky: not caused by this change",
    Verdict.INFRASTRUCTURE: "Infrastructure: not caused by this change",
    Verdict.UNKNOWN: "Not clear whether this change is the cause",
}
_SHAPES = Redactor()


@dataclass(frozen=True, slots=True)
class Footer:
    """What a turn took. `cost_usd` is None where a price is unknown.

    `missing` names sources that had nothing to give, each with its reason. `gave_way` is the model
    that did not answer, if another took the turn over.
    """

    model: str
    iterations: int
    usage: Usage
    cost_usd: float | None
    seconds: float
    missing: tuple[str, ...] = ()
    gave_way: str = ""


def placeholder(marker: Marker, subject: Subject, resumed: bool) -> str:
    """What stands in the note while the turn runs."""
    return _render(
        "placeholder",
        marker=marker.text(),
        resumed=resumed,
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
) -> str:
    """The analysis. `finding` is proven: its evidence is quoted as it is.

    `hosts` are the places that links may lead to (see `neutralise`).
    """
    parts = _Parts(hosts)
    failed = parts.brief("Failed", finding.failed)
    cause = parts.brief("Cause", finding.cause)
    to_do = parts.brief("What to do", finding.to_do)
    if not (failed or cause or to_do):
        cause = parts.brief("Answer", finding.details)
    else:
        parts.add("", finding.details)
    quotes = [_quote(evidence) for evidence in finding.evidence]
    parts.add_lines("More evidence", quotes[MAX_QUOTES:])
    return _fitting(
        lambda room: _render(
            "finding",
            marker=marker.text(),
            verdict=_headline(finding, outcome),
            stopped=_stopped(outcome, hosts),
            failed=failed,
            cause=cause,
            evidence=quotes[:MAX_QUOTES],
            to_do=to_do,
            details=parts.folded(room),
            asides=_asides(footer, finding.unproven),
            facts=_facts(footer),
        )
    )


def answer(
    marker: Marker, subject: Subject, text: str, outcome: Outcome, footer: Footer, hosts: Hosts
) -> str:
    """A reply in the thread."""
    return _fitting(
        lambda room: _render(
            "answer",
            marker=marker.text(),
            stopped=_stopped(outcome, hosts),
            text=neutralise(_SHAPES.text(text), hosts, room) or "(The model gave no answer.)",
            asides=_asides(footer, 0),
            facts=_facts(footer),
        )
    )


def failure(
    marker: Marker,
    subject: Subject,
    reason: str,
    footer: Footer | None,
    jobs: Sequence[FailedJob] = (),
) -> str:
    """Why there is no finding or answer, in plain words, and what to do.

    `jobs` is what was found without a model: partial over nothing (law 8).
    """
    return _render(
        "failure",
        marker=marker.text(),
        jobs=[(_job(job), code_block(_SHAPES.text(job.excerpt))) for job in jobs],
        headline="No analysis this time." if marker.turn == 0 else "No answer this time.",
        reason=_sentence(_clean(reason, frozenset())),
        asides=_asides(footer, 0) if footer else [],
        facts=_facts(footer) if footer else [],
    )


# ------------------------------------------------------------------------------------- texts


class _Parts:
    """Splits what is shown at once from what is folded away."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._folded: list[tuple[str, str]] = []
        self._lines: list[str] = []

    def brief(self, title: str, text: str) -> str:
        """The beginning of a section on one line; the whole of it is folded if that is more."""
        text = visible(text).strip()
        line, whole = _first(text)
        if not whole or len(line) > MAX_BRIEF:
            self.add(title, text)
        return _clean(line, self._hosts, MAX_BRIEF)

    def add(self, title: str, text: str) -> None:
        """Fold a section away."""
        if text.strip():
            self._folded.append((title, text))

    def add_lines(self, title: str, lines: list[str]) -> None:
        """Fold lines away that are harmless already."""
        if lines:
            self._lines = [f"**{title}**", "", *(f"- {line}" for line in lines)]

    def folded(self, room: int) -> str:
        """All that is folded away; each section cut at `room` characters."""
        sections = ["\n".join(self._lines)[:room]] if self._lines else []
        for title, text in self._folded:
            heading = f"**{title}**\n\n" if title else ""
            sections.append(heading + neutralise(_SHAPES.text(text), self._hosts, room))
        return "\n\n".join(sections)


_MARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})")


def _first(text: str) -> tuple[str, bool]:
    """The first paragraph or list as one line, and whether that is all of `text`."""
    lines = text.split("\n")
    end = next(
        (at for at, line in enumerate(lines) if not line.strip() or _FENCE.match(line)), len(lines)
    )
    items = "".join(
        "\n" + _MARK.sub("", line, 1) if _MARK.match(line) else " " + line.strip()
        for line in lines[:end]
    )
    found = [item.strip().rstrip(".,;") for item in items.split("\n") if item.strip()]
    if not found:
        return "see the details below." if text else "", not text
    joined = "; ".join(found)
    return joined + "." if len(found) > 1 else items.strip(), end == len(lines)


def _clean(text: str, hosts: Hosts, limit: int = MAX_BRIEF) -> str:
    return inline(_SHAPES.text(text), hosts, limit)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _quote(evidence: Evidence) -> str:
    place = f"job {evidence.job_id}, line {evidence.line}"
    linked = f"[{place}]({evidence.url})" if plain_url(evidence.url) else place
    text = _SHAPES.text(evidence.text)
    cut = text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"
    return f"{linked}: {code_line(cut)}"


def _job(job: FailedJob) -> str:
    name = f"job {job.job_id}"
    linked = f"[{name}]({job.url})" if plain_url(job.url) else name
    why = f": {code_line(job.reason)}" if job.reason else ""
    return f"{code_line(job.name)} ({linked}){why}"


def _headline(finding: Finding, outcome: Outcome) -> str:
    headline = _HEADLINES[finding.verdict]
    return headline if outcome.status is Status.DONE else f"Unfinished: {headline.lower()}"


def _stopped(outcome: Outcome, hosts: Hosts) -> str:
    if outcome.status is Status.DONE:
        return ""
    reason = _clean(outcome.reason, hosts).rstrip(".") or "the run ended early"
    return f"This is what was found before it stopped: {reason}."


def _asides(footer: Footer, unproven: int) -> list[str]:
    found = []
    if unproven:
        quotes = "1 quote" if unproven == 1 else f"{unproven} quotes"
        verb = "was" if unproven == 1 else "were"
        found.append(f"{quotes} could not be proven and {verb} left out.")
    if footer.missing:
        names = "; ".join(_clean(name, frozenset(), 160) for name in footer.missing[:8])
        found.append(_sentence(f"Not available: {names}"))
    return found


def _facts(footer: Footer) -> list[str]:
    usage = footer.usage
    cost = "cost unknown" if footer.cost_usd is None else _price(footer.cost_usd)
    calls = "1 iteration" if footer.iterations == 1 else f"{footer.iterations} iterations"
    return [
        _model(footer),
        calls,
        f"{usage.input:,} tokens in, {usage.output:,} out",
        f"{usage.cached_share:.0%} cached",
        cost,
        f"{footer.seconds:.0f} s",
        "Reply in this thread to ask more",
    ]


def _price(dollars: float) -> str:
    """Two digits that say something: 0.0042, 0.31, 12.00. "$12" would link to a snippet."""
    return f"{dollars:.4f} USD" if 0 < dollars < 0.01 else f"{dollars:.2f} USD"


def _model(footer: Footer) -> str:
    name = code_line(footer.model) or "no model"
    if not footer.gave_way:
        return name
    return f"{name} (instead of {code_line(footer.gave_way)}, which did not answer)"


# ----------------------------------------------------------------------------------- templates


def _fitting(render: Callable[[int], str]) -> str:
    """The body with as much of its long texts as fits in `MAX_BODY`."""
    room = MAX_BODY // 2
    while len(body := render(room)) > MAX_BODY and room > 100:
        room //= 2
    return body


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("worker.forge"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # Markdown: `neutralise` escapes what others wrote
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(name: str, **values: object) -> str:
    return _templates().get_template(f"{name}.md.j2").render(**values).rstrip("\n")
