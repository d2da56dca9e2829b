"""Lists from a transcript what a turn has and has not looked at. Pure.

This is for a turn that did not finish, so that its reader need not start from scratch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.conversation.context import Context, Status
from worker.conversation.messages import Assistant, ToolCall, User, find_results
from worker.conversation.phrases import ENGLISH, find_language, read_phrases
from worker.conversation.prompts import read_question
from worker.safety.untrusted import one_line, parse_objects
from worker.verdict.jobs import FailingJob

MOST_LINES = 7
_MOST_NAMED, _LINE, _COMMAND = 8, 280, 120


@dataclass(frozen=True, slots=True)
class Digest:
    """A title, and lines below it."""

    title: str
    lines: tuple[str, ...]


_LOG, _DIFF, _FILE, _COMMAND_TOOL = (
    "gitlab_get_job_log",
    "gitlab_get_mr_diff",
    "gitlab_get_file",
    "sandbox_exec",
)


def write_digest(context: Context) -> Digest | None:
    """Return what the turn has and has not looked at, None if it finished by itself.

    For a reply it is in the language of the question.
    """
    if context.outcome is None or context.outcome.status is Status.DONE:
        return None
    first = context.messages[context.turn_start]
    language = ENGLISH
    if isinstance(first, User) and not context.is_look:
        language = find_language(read_question(first.text))
    words = read_phrases()["digest"][language]
    lines = [one_line(line, _LINE) for line in _write_lines(words, context)]
    return Digest(words["title"], tuple(lines[:MOST_LINES]))


def _write_lines(words: Mapping[str, str], context: Context) -> Iterator[str]:
    documents = [*_list_documents(context)]
    jobs = {job.job_id: job for job in (context.survey.jobs if context.survey else ())}
    commands = [str(args.get("command", "")) for name, args in documents if name == _COMMAND_TOOL]
    read_jobs = _list_read_jobs(documents, commands, jobs)
    if read_jobs:
        yield words["jobs"].format(_join([_name_job(jobs.get(each), each) for each in read_jobs]))
    if any(name == _DIFF for name, _ in documents):
        yield words["diff"]
    if files := [str(args.get("path", "")) for name, args in documents if name == _FILE]:
        yield words["files"].format(_join(files))
    others = [name for name, _ in documents if name not in (_LOG, _DIFF, _FILE, _COMMAND_TOOL)]
    if others:
        yield words["others"].format(_join(others))
    if commands:
        yield words["commands"].format(len(commands), f"`{one_line(commands[-1], _COMMAND)}`")
    if not documents:
        yield words["nothing"]
    groups = context.survey.groups if context.survey and context.is_look else ()
    firsts = [group.jobs[0] for group in groups if group.jobs]
    if missed := [_name_job(job, job.job_id) for job in firsts if job.job_id not in read_jobs]:
        yield words["missed"].format(_join(missed))


def _list_read_jobs(
    documents: Sequence[tuple[str, dict[str, Any]]],
    commands: Sequence[str],
    jobs: dict[int, FailingJob],
) -> list[int]:
    fetched = [args["job_id"] for name, args in documents if name == _LOG and "job_id" in args]
    opened = [each for each in jobs if any(f"job-{each}.log" in command for command in commands)]
    return list(dict.fromkeys([*(each for each in fetched if isinstance(each, int)), *opened]))


def _name_job(job: FailingJob | None, job_id: int) -> str:
    return f"{job.name} ({job_id})" if job else str(job_id)


def _join(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(filter(None, names)))
    more = f" +{len(unique) - _MOST_NAMED}" if len(unique) > _MOST_NAMED else ""
    return ", ".join(unique[:_MOST_NAMED]) + more


def _list_documents(context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tools and sources whose calls succeeded in this turn, each with its arguments."""
    messages = context.messages[context.turn_start :]
    succeeded = {result.call_id for result in find_results(messages) if not result.is_error}
    for message in messages:
        for call in message.calls if isinstance(message, Assistant) else ():
            if call.id in succeeded:
                yield from _list_requests(call)


def _list_requests(call: ToolCall) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in parse_objects(call.arguments, "requests"):
        arguments = each.get("arguments")
        yield (
            (str(each["source"]), arguments if isinstance(arguments, dict) else {})
            if "source" in each
            else (call.name, each)
        )
