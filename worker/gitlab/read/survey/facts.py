"""The facts that `verdict.verdict` rules by: what GitLab shows besides the jobs' logs.

Bounded in requests, logs and seconds. A fact that cannot be read is Unknown, with the reason;
nothing here raises.
"""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from worker.errors import UNFORESEEN, SourceError
from worker.gitlab.read.merge_request import read_changed_files
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.compared_pipelines import read_or_unknown
from worker.gitlab.read.survey.fact_collection import Diff, FactCollector
from worker.verdict.fact_sentences import describe_facts
from worker.verdict.facts import Facts, Run, Unknown
from worker.verdict.jobs import Group
from worker.verdict.verdict import Ruling, make_ruling

_log = logging.getLogger(__name__)

SECONDS = 20.0
"""Seconds after which no request is begun."""

GRACE = 5.0
"""Further seconds in which requests that are under way may end."""


DIFF_PAGES = 25
"""Pages of twenty changed files that are read."""

WORKERS = 6


def read_diff(reader: Reader) -> Diff:
    """Read which files the merge request changes, or why that is unknown. Raises nothing."""
    return read_or_unknown(lambda: read_changed_files(reader, DIFF_PAGES))


def add_facts(
    groups: Sequence[Group], reader: Reader, diff: Diff, seconds: float = SECONDS
) -> tuple[Group, ...]:
    """Return the groups, each with a ruling based on GitLab's record. Raises nothing."""
    found = iter(collect_facts(groups, reader, diff, seconds))
    return tuple(
        replace(group, ruling=_make_ruling(facts))
        if _is_recorded(group) and (facts := next(found, None))
        else group
        for group in groups
    )


def _make_ruling(facts: Facts) -> Ruling:
    ruling = make_ruling(facts)
    return replace(ruling, record=tuple(describe_facts(facts, ruling.hard)))


def collect_facts(
    groups: Sequence[Group],
    reader: Reader,
    diff: Diff,
    seconds: float = SECONDS,
    grace: float = GRACE,
) -> list[Facts]:
    """Return what is known of each group of GitLab's jobs. Raises nothing."""
    failing = [group for group in groups if _is_recorded(group)]
    if not failing:
        return []
    bounded = reader.with_deadline(time.monotonic() + seconds)
    pool = ThreadPoolExecutor(WORKERS + 1, thread_name_prefix="facts")
    try:
        future = pool.submit(FactCollector(bounded, pool, failing, diff).collect_facts)
        return future.result(max(0.0, seconds) + grace)
    except TimeoutError:
        return [_make_unread(group, "GitLab took too long") for group in failing]
    except SourceError as error:
        return [_make_unread(group, str(error)) for group in failing]
    except UNFORESEEN as error:
        _log.exception("the facts of a survey were lost")
        return [_make_unread(group, f"{type(error).__name__} in the survey") for group in failing]
    finally:
        # A hanging request is not waited for: it has its own time-out.
        pool.shutdown(wait=False, cancel_futures=True)


def _is_recorded(group: Group) -> bool:
    """Whether GitLab has jobs for the group, not just another system's failed status."""
    return bool(group.jobs) and not group.external


def _make_unread(group: Group, reason: str) -> Facts:
    why = Unknown(reason)
    job = group.jobs[0]
    run = Run(job.job_id, 0, "failed", reason=job.reason, url=job.url)
    return Facts(job.name, run, (), why, (), why, why, why, why)
