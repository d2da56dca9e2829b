"""The note on a known failure: two lines for each error, and how to ask for an analysis. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from worker.answer.note.failed_jobs import cut_names
from worker.answer.note.footer import Footer, write_small_print
from worker.answer.note.layout import HEADLINES
from worker.answer.note.note_parts import Hosts, clean_line
from worker.answer.note.render import render_template
from worker.safety.lint import MAX_LINES, count_visible_lines
from worker.safety.marker import Marker
from worker.safety.neutralise import is_link_allowed
from worker.verdict.finding import Finding
from worker.verdict.jobs import Group, Hit

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
