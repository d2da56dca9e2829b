"""The note on a known failure: two lines for each error, and the way to a real look. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from worker.core.failure.jobs import Group, Hit
from worker.core.finding import Finding
from worker.core.session_id import Marker
from worker.forge.defence.lint import MAX_LINES, visible_lines
from worker.forge.defence.spans import allowed
from worker.forge.text.footer import Footer, write_small_print
from worker.forge.text.note import HEADLINES
from worker.forge.text.parts import Hosts, clean
from worker.forge.text.templates_page import render

_CUTS = ((5, 480), (5, 100), (4, 80), (3, 60), (2, 60), (1, 60))
"""Errors that are named, and characters of each text about them. The first that fits is taken."""


def known_failure(
    marker: Marker, found: Finding, groups: Sequence[Group], footer: Footer, hosts: Hosts
) -> str:
    """What is known of the errors of `groups`, all of the verdict of `found`."""
    for most, limit in _CUTS:
        body = render(
            "known",
            marker=marker.text(),
            verdict=HEADLINES[found.verdict],
            known=[_told(group, group.hit, hosts, limit) for group in groups[:most] if group.hit],
            more=max(0, len(groups) - most),
            small=write_small_print(footer, 0),
        )
        if visible_lines(body) <= MAX_LINES:
            break
    return body


def _told(group: Group, hit: Hit, hosts: Hosts, limit: int) -> tuple[str, str, str, str]:
    """The jobs, where their error was seen, its cause, what to do; the last two in so many
    characters."""
    failed = clean(group.failed, frozenset(), min(limit, 160))
    return failed, _seen(hit, hosts), clean(hit.cause, hosts, limit), clean(hit.to_do, hosts, limit)


def _seen(hit: Hit, hosts: Hosts) -> str:
    times = "once" if hit.count == 1 else f"{hit.count} times"
    plural = "s" if len(hit.others) > 1 else ""
    where = f" in {len(hit.others)} other merge request{plural}" if hit.others else ""
    ended = f"; the last time {clean(hit.ended, frozenset(), 100)}" if hit.ended else ""
    # A link to another merge request would leave a mention there; in code it leaves none.
    link = f"[the job explained]({hit.job_url})" if allowed(hit.job_url, hosts) else "explained"
    return f"seen {times} since {_day(hit.first)}{where}, {link} on `!{hit.mr_iid}`{ended}"


def _day(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return "an unknown day"
