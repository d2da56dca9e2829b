"""Records the tests of the pipelines that no turn has recorded; part of `sandpiper sweep`.

A pipeline is looked at once for each state that GitLab shows of it (`updated_at`), also one that
has reported no test, or whose tests do not count. The next sweep continues one that was cut short.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby

from worker.errors import SourceError, Unreadable
from worker.gitlab.ports import EndedPipeline
from worker.jobs.ledger import find_oldest, is_early, is_kept, store_tests
from worker.jobs.repair import Swept
from worker.ledger.record import DayRecord, PipelineTests, RanOn
from worker.safety.untrusted import one_line
from worker.sessions.layout import name_day
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.ledger")

MOST = 1000
"""Pipelines that one sweep reads at most."""

MOST_OF_PROJECT = 200
"""How many of one project, so that the others are not left out."""

_LONGEST_NAME = 80


def record_missed(
    deps: Deps, since: float, most: int = MOST, *, act: bool = True
) -> Iterator[Swept]:
    """Record what the pipelines that GitLab has touched `since` (epoch seconds) have reported, as
    far as it is missing, and yield a line for each day of a project; without `act` only yield.

    At most `most` pipelines are read, the oldest of a project first. Each day is written once.
    Raises StoreError.
    """
    oldest = find_oldest(deps)
    if not deps.options.ledger_settings.days:
        return
    for listed in deps.gitlab.pipelines.find_ended_pipelines(max(since, oldest)):
        if isinstance(listed, str):
            yield Swept("GitLab", listed, is_gap=True)
            continue
        left = min(most, MOST_OF_PROJECT)
        kept = (each for each in listed if is_kept(each.created_at, deps))
        by_day = groupby(sorted(kept, key=_get_order), key=lambda each: name_day(each.created_at))
        for day, some in by_day:
            same = list(some)
            try:
                record = _read_day(same[0].project_id, day, deps, act=act)
            except Unreadable as error:
                yield Swept(f"{_describe(same[0])} on {day}", str(error))
                continue
            missing = [each for each in same if not _is_known(each, record)][:left]
            if missing:
                left, most = left - len(missing), most - len(missing)
                yield from _record_day(day, missing, deps, act=act)
        if most <= 0:
            return


def _read_day(project_id: int, day: str, deps: Deps, *, act: bool) -> DayRecord | None:
    """Read a day's record. Raises Unreadable, before anything is asked of GitLab, for one that is
    damaged, until a second look has set it aside."""
    ledger = deps.storage.ledger
    record = ledger.read_day(project_id, day)
    if record is None and act:
        return ledger.change_day(project_id, day, lambda stored: stored)
    return record


def _record_day(
    day: str, missing: Sequence[EndedPipeline], deps: Deps, *, act: bool
) -> Iterator[Swept]:
    """Read and record pipelines of one day and project."""
    project_id, project = missing[0].project_id, missing[0].project
    what = f"{_describe(missing[0])} on {day}"
    if not act:
        yield Swept(f"{what}: {len(missing)} pipelines")
        return
    found = list[PipelineTests]()
    for each in missing:
        try:
            read = deps.gitlab.pipelines.read_tests(project_id, each.pipeline_id, each)
        except SourceError as error:
            yield Swept(f"{what}: pipeline {each.pipeline_id}", str(error))
            if error.transient:
                break  # the next sweep goes on
            continue
        if isinstance(read, str):
            log.info("pipeline %d: its tests do not count: %s", each.pipeline_id, read)
            read = _note_look(each)
        if name_day(read.created_at) == day and not is_early(read, deps):
            found.append(read)
    if found:
        store_tests(project_id, project, day, found, deps)
        yield Swept(f"{what}: {len(found)} pipelines")


def _note_look(listed: EndedPipeline) -> PipelineTests:
    """Return what is stored of a pipeline whose tests do not count: that it was looked at."""
    return PipelineTests(
        pipeline_id=listed.pipeline_id,
        sha=listed.sha,
        source=listed.source,
        ran_on=RanOn.BRANCH,
        created_at=listed.created_at,
        updated_at=listed.updated_at,
    )


def _is_known(listed: EndedPipeline, record: DayRecord | None) -> bool:
    return record is not None and record.knows(listed.pipeline_id, listed.updated_at)


def _describe(listed: EndedPipeline) -> str:
    return f"tests of {one_line(listed.project, _LONGEST_NAME)}"


def _get_order(listed: EndedPipeline) -> tuple[float, int]:
    return listed.created_at, listed.pipeline_id
