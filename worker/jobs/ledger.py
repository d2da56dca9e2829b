"""Keeps the ledger of tests: what the pipeline of a turn or of a watched branch has reported.

What no event has led to, because it was lost, late, or came when nobody could ask GitLab, the sweep
finds (`missed_tests.py`).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from worker.conversation.context import OF_OTHERS, Subject
from worker.errors import SandpiperError, SourceError, StoreError
from worker.incidents.owners import map_owners
from worker.ledger.names import find_file
from worker.ledger.record import DayRecord, PipelineTests
from worker.ledger.record_json import RecordError
from worker.sessions.layout import name_day
from worker.turns.parts import Deps, Finished
from worker.turns.stored_turns import read_turn
from worker.verdict.facts import parse_time

log = logging.getLogger("sandpiper.ledger")

DAY = 86_400.0

EARLY = 600.0
"""Seconds after its last change in which a pipeline that has reported nothing is not believed:
GitLab reads the reports after the pipeline has ended."""

_MOST_OWNERS = 5


def record_tests(project_id: int, pipeline_id: int, deps: Deps, project: str = "") -> None:
    """Record what a pipeline that has ended has reported of its tests. `project` is the project's
    path. Raises nothing: what is not recorded now, the sweep finds."""
    if not deps.options.ledger_settings.days or deps.options.dry_run:
        return
    try:
        found = deps.gitlab.pipelines.read_tests(project_id, pipeline_id)
        if isinstance(found, str):
            log.info("pipeline %d: its tests are not recorded: %s", pipeline_id, found)
        elif not is_early(found, deps):
            store_tests(project_id, project, name_day(found.created_at), [found], deps)
    except (SandpiperError, RecordError) as error:
        log.info("pipeline %d: its tests are not recorded: %s", pipeline_id, error)


def record_turn(ended: Finished, subject: Subject, deps: Deps) -> None:
    """Do the same for the pipeline that a turn has looked into.

    Left to the sweep is what failed because of others (a red branch, a merge train), as many do at
    once. What ran in a fork is not the project's.
    """
    if subject.pipeline_project_id != subject.project_id:
        return
    try:
        stored = read_turn(deps.storage.sessions, ended.key, ended.turn)
    except StoreError as error:
        log.info("session %s: its pipeline's tests: %s", ended.key.session_id, error)
        return
    if stored and stored.found_by not in OF_OTHERS:
        deps.gitlab.pipelines.forget_answers()
        record_tests(subject.project_id, subject.pipeline_id, deps, subject.project)


def remove_old_days(deps: Deps, *, act: bool = True) -> Iterator[str]:
    """Remove the days that are older than `tests.days`, and yield a line for each; without `act`
    only yield. Raises StoreError."""
    first, verb = name_day(find_oldest(deps)), "removed" if act else "would be removed"
    for project_id, day in deps.storage.ledger.list_days():
        if day < first or not deps.options.ledger_settings.days:
            if act:
                deps.storage.ledger.remove_day(project_id, day)
            yield f"tests of project {project_id} on {day}: {verb}"


def store_tests(
    project_id: int, project: str, day: str, found: Sequence[PipelineTests], deps: Deps
) -> None:
    """Join what was found of a day's pipelines with what is stored of it; what is too old is left
    out. Raises StoreError."""

    def put(record: DayRecord | None) -> DayRecord:
        before = record or DayRecord(project_id, project, day)
        return replace(before, project=project or before.project).put(found).own(owners)

    kept = [each for each in found if is_kept(each.created_at, deps)]
    if kept:
        owners = find_owners(project_id, day, kept, deps)
        deps.storage.ledger.change_day(project_id, day, put)


def find_owners(
    project_id: int, day: str, found: Sequence[PipelineTests], deps: Deps
) -> dict[str, str]:
    """Find who owns the files of tests that failed, as far as the day's record does not say it: by
    the CODEOWNERS file of the default branch, which no merge request has changed. Nobody if GitLab
    does not say; raises StoreError alone."""
    failures = (failed for each in found for failed in each.failures)
    paths = {path for each in failures if (path := find_file(each.test, each.file))}
    if not paths:
        return {}
    record = deps.storage.ledger.read_day(project_id, day)
    unknown = sorted(paths.difference(path for path, _ in record.owners) if record else paths)
    try:
        text = deps.gitlab.pipelines.read_owners_file(project_id, "HEAD") if unknown else ""
    except SourceError as error:
        log.info("project %d: the owners of tests are not known: %s", project_id, error)
        return {}
    return {path: ", ".join(who[:_MOST_OWNERS]) for path, who in map_owners(text, unknown).items()}


def is_early(found: PipelineTests, deps: Deps) -> bool:
    """Whether a pipeline that has reported nothing may still do so."""
    changed_at = parse_time(found.updated_at) or found.created_at
    return not found.suites and deps.runtime.clock.now() - changed_at < EARLY


def is_kept(created_at: float, deps: Deps) -> bool:
    """Whether a pipeline of that time is recorded: it is neither too old nor of the future."""
    return find_oldest(deps) <= created_at < deps.runtime.clock.now() + DAY


def find_oldest(deps: Deps) -> float:
    """Return from when on tests are kept: the beginning of a UTC day, in epoch seconds."""
    at = deps.runtime.clock.now() - deps.options.ledger_settings.days * DAY
    return max(at - at % DAY, 0.0)
