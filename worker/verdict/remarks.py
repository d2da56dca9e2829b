"""Our own sentences for the model and the note, which may contain strangers' names. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from worker.safety.untrusted import one_line
from worker.verdict.facts import JobRun, parse_time

MAX_NAME = 120
"""The most characters of a name."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name given by a stranger: of a job, a branch, a file."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """Our own words that link to `url`; plain text if that is ""."""

    text: str
    url: str


Remark = tuple[str | Name | Link, ...]
"""A sentence without its full stop; () if there is none."""


def remark(*parts: str | Name | Link) -> Remark:
    """Make a sentence of these parts."""
    return tuple(part for part in parts if part)


def name(text: str) -> Name:
    """Make a stranger's name, on one line."""
    return Name(one_line(text, MAX_NAME) or "(no name)")


def job(run: JobRun) -> Link:
    """Link to a run of a job, by its id."""
    return Link(f"job {run.job_id}", run.url)


def pipeline(run: JobRun) -> Link:
    """Link to the pipeline of a run; the URL is derived from the job's."""
    base, found, _ = run.url.rpartition("/-/jobs/")
    return Link(
        f"pipeline {run.pipeline_id}", f"{base}/-/pipelines/{run.pipeline_id}" if found else ""
    )


def plain(sentence: Remark) -> str:
    """Return the sentence as plain text."""
    return "".join(part if isinstance(part, str) else part.text for part in sentence)


def join_parts(parts: Iterable[str | Name | Link]) -> Remark:
    """Join the parts with commas."""
    found: list[str | Name | Link] = []
    for part in parts:
        found += [", ", part] if found else [part]
    return tuple(found)


def describe_distance(one: str, other: str) -> str:
    """Say how long before or after `other` the time `one` is (both ISO 8601), such as "2 h before";
    "" if one of them cannot be parsed."""
    then, now = parse_time(one), parse_time(other)
    if then is None or now is None:
        return ""
    seconds = then - now
    side = "before" if seconds < 0 else "after"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{abs(seconds) / size:.0f} {unit} {side}"
    return f"{abs(seconds):.0f} s {side}"


_SHORTER, _LEAST_SECONDS = 5.0, 60.0
"""A pass is short beside a failed run that took so many times as long, and at least so long."""


def tell_short_pass(passed: JobRun, failed: JobRun) -> str:
    """Say how long both runs took if the pass was short: it may have run nothing, or a cache had
    its results."""
    if failed.seconds < _LEAST_SECONDS or not 0 < passed.seconds * _SHORTER <= failed.seconds:
        return ""
    return f" (in {passed.seconds:,.0f} s, where this run took {failed.seconds:,.0f} s)"
