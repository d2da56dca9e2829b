"""What GitLab says of the runners for which a failed job has waited in vain."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from worker.errors import SourceError
from worker.gitlab.read.api import wire
from worker.gitlab.read.session_reader import Reader
from worker.safety.untrusted import one_line
from worker.verdict.gitlab_reasons import NO_RUNNER, WAITED
from worker.verdict.jobs import FailingJob

MOST_ASKED = 3
"""Sets of tags that are asked about."""

MOST_NAMED = 6


def add_runners(jobs: Iterable[FailingJob], reader: Reader) -> Iterator[FailingJob]:
    """Yield the jobs; those that no runner took with what GitLab says of the runners that have
    their tags, if it does: it tells only maintainers of the project. Raises nothing."""
    found: dict[tuple[str, ...], str] = {}
    for job in jobs:
        if job.reason not in NO_RUNNER | WAITED or job.has_started:
            yield job
            continue
        if job.tags not in found and len(found) < MOST_ASKED:
            found[job.tags] = _describe_runners(job.tags, reader)
        yield replace(job, runners=found.get(job.tags, ""))


def _describe_runners(tags: Sequence[str], reader: Reader) -> str:
    path = f"{reader.pipeline_project}/runners"
    query = {"tag_list": ",".join(tags)} if tags else None
    with suppress(SourceError):
        runners = reader.client.many(path, wire.Runner, "the runners", query, pages=1).items
        if not runners:
            return "GitLab knows no such runner for the project."
        named = ", ".join(map(_name_runner, runners[:MOST_NAMED]))
        more = f" and {len(runners) - MOST_NAMED} more" if len(runners) > MOST_NAMED else ""
        return f"GitLab knows these for the project: {named}{more}."
    return ""


def _name_runner(runner: wire.Runner) -> str:
    state = (
        "paused" if runner.active is False else runner.status.replace("_", " ") or "state not known"
    )
    return f"{one_line(runner.description or '', 60) or f'runner {runner.id}'} ({state})"
