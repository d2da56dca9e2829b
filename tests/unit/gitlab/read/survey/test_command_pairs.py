"""Pairs of logs as the runner writes them, on the whole way from the trace to the group and to the
errors that are compared: the same failure has one key, another one has another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from worker.gitlab.read.job_log import Log, Spool
from worker.gitlab.read.survey.compared_runs import find_errors
from worker.gitlab.read.survey.failing_jobs import describe_log
from worker.gitlab.read.wire import Job
from worker.logs.trace import clean_trace
from worker.safety.redacted_values import redact_bytes
from worker.verdict.facts import Facts, JobRun
from worker.verdict.grouping import group_jobs
from worker.verdict.jobs import FailingJob, Group, RuleMatch

_SERVICES = """\
Starting service docker:27-dind...
Waiting for services to be up and running (timeout 30 seconds)...
*** WARNING: Service runner-{run}m37jme-project-104-concurrent-0-docker-0 probably didn't start properly.
Health check error:
service "runner-{run}m37jme-project-104-concurrent-0-docker-0-wait-for-service" timeout
Service container logs:
2026-11-20T09:00:0{run}.113Z mount: permission denied (are you root?)
2026-11-20T09:00:0{run}.114Z Could not mount /sys/kernel/security.
*********
"""  # noqa: E501
_LEAST_PAIRS, _LEAST_SHARE = 120, 0.9


@dataclass(frozen=True, slots=True)
class Pair:
    """Two failures: job, raw trace; `signed` says that they are to be recognised at all. What only
    differs in the job or the command is the same to GitLab's record of the job: not `recorded`.
    `more` says that the second has every error of the first, and more."""

    name: str
    one: tuple[str, bytes]
    other: tuple[str, bytes]
    same: bool
    signed: bool
    recorded: bool = True
    more: bool = False


def _write_trace(text: str, run: int) -> bytes:
    """The trace of a job with this script, in the runner's words."""
    script, _, code = text.partition("\n=> ")
    script, _, after = script.partition("\n(after)\n")
    services = "(services)\n" in script
    lines = [
        "\x1b[0KRunning with gitlab-runner 18.9.1 (1d9e4a72)\x1b[0;m",
        f"\x1b[0K  on build-docker-0{run} t3Kq8ZsVx, system ID: s_4c1f9a0d7be{run}\x1b[0;m",
        *_section(run, "prepare_executor", 'Preparing the "docker" executor', [
            "\x1b[0KUsing Docker executor with image node:20 ...\x1b[0;m",
            *(_SERVICES.format(run=run).splitlines() if services else ()),
        ]),
        *_section(run, "prepare_script", "Preparing environment", []),
        *_section(run, "get_sources", "Getting source from Git repository", [
            "\x1b[32;1mFetching changes with git depth set to 20...\x1b[0;m",
            f"\x1b[32;1mChecking out {run}d0c41be as detached HEAD (ref is main)...\x1b[0;m",
        ]),
        *_section(run, "step_script", 'Executing "step_script" stage of the job script', [
            f"\x1b[32;1m{line}\x1b[0;m" if line.startswith("$ ") else line
            for line in script.replace("(services)\n", "").splitlines()
        ]),
        *(_section(run, "after_script", "Running after_script", [
            "Running after script...", *after.splitlines()]) if after else ()),
        *_section(run, "cleanup_file_variables",
                  "Cleaning up project directory and file based variables", []),
        f"\x1b[31;1mERROR: Job failed: exit code {code.strip() or 1}\x1b[0;m",
    ]  # fmt: skip
    stamp = f"2026-11-2{run}T09:0{run}:00.037000Z 00O "
    return "".join(f"{stamp}{line}\n" for line in lines).encode()


def _section(run: int, name: str, header: str, lines: list[str]) -> list[str]:
    at = 1795165200 + 86_400 * run
    head = f"section_start:{at}:{name}\r\x1b[0K\x1b[0K\x1b[36;1m{header}\x1b[0;m\x1b[0;m"
    return [head, *lines, f"section_end:{at + 2}:{name}\r\x1b[0K"]


def _read_log(fields: dict[str, Any], text: str, run: int) -> tuple[str, bytes]:
    job = fields.get("job", "test")
    if text.startswith("job: "):
        head, _, text = text.partition("\n")
        job = yaml.safe_load(head)["job"]
    elif "\njob: " in text:
        services, _, rest = text.partition("job: ")
        job, _, text = rest.partition("\n")
        text = services + text
    return job, _write_trace(text, run)


def _pairs() -> Iterator[Pair]:
    rows = yaml.safe_load((Path(__file__).parent / "command_pairs.yaml").read_text("utf-8"))
    for row in rows:
        signed = not row.get("unsigned")
        log, again = _read_log(row, row["log"], 1), _read_log(row, row["again"], 2)
        yield Pair(f"{row['name']}: again", log, again, same=True, signed=signed)
        for number, text in enumerate(row.get("others", ()), 1):
            other = _read_log(row, text, 3)
            recorded = not row.get("unrecorded")
            name = f"{row['name']}: another {number}"
            more = number in row.get("more", ())
            yield Pair(name, log, other, False, signed, recorded, more)


PAIRS = tuple(_pairs())


def _make_log(trace: bytes) -> Log:
    spool = Spool(1 << 20)
    spool.write(redact_bytes(clean_trace(trace), bytes))
    return Log(spool, "", "", 0, (), True, 0, 0, True, None, None, None)


def _describe(number: int, job: str, trace: bytes) -> FailingJob:
    failing = FailingJob(
        number, job, reason="script_failure", family=Job(id=number, name=job).family
    )
    return describe_log(failing, _make_log(trace))


def _no_rule(job: FailingJob) -> RuleMatch | None:
    return None


def _group(job: str, trace: bytes) -> Group:
    (group,) = group_jobs([_describe(1, job, trace)], _no_rule)
    return group


def _are_same(pair: Pair) -> bool:
    one, other = _group(*pair.one), _group(*pair.other)
    return bool(one.key) and one.key == other.key


def test_the_table_has_pairs_enough_of_each_kind() -> None:
    assert len(PAIRS) >= _LEAST_PAIRS
    assert sum(not pair.same for pair in PAIRS) >= len(PAIRS) / 2


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if not pair.same], ids=lambda pair: pair.name
)
def test_another_failure_is_not_remembered_for_a_line_that_both_logs_have(pair: Pair) -> None:
    assert not _are_same(pair)


def test_nine_of_ten_failures_that_come_again_are_remembered() -> None:
    wanted = [pair for pair in PAIRS if pair.same and pair.signed]
    missed = [pair.name for pair in wanted if not _are_same(pair)]
    assert len(missed) <= (1 - _LEAST_SHARE) * len(wanted), missed


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.signed], ids=lambda p: p.name)
def test_a_failure_without_a_decisive_error_is_not_remembered(pair: Pair) -> None:
    assert _group(*pair.one).key == ""


def _find_run(job: str, trace: bytes) -> JobRun:
    errors = frozenset(find_errors(clean_trace(trace), "script_failure"))
    return JobRun(1, 1, "failed", reason="script_failure", errors=errors)


def _repeats(one: tuple[str, bytes], other: tuple[str, bytes]) -> bool:
    """Whether the record calls the second run the same failure as the first."""
    return Facts("test", _find_run(*one)).has_same_error(_find_run(*other))


@pytest.mark.parametrize(
    "pair",
    [pair for pair in PAIRS if pair.recorded and not pair.same],
    ids=lambda pair: pair.name,
)
def test_the_record_takes_no_other_failure_for_the_same(pair: Pair) -> None:
    assert not (_repeats(pair.one, pair.other) and _repeats(pair.other, pair.one))
    assert pair.more or not _repeats(pair.one, pair.other)


def test_the_record_knows_nine_of_ten_failures_that_come_again() -> None:
    wanted = [pair for pair in PAIRS if pair.same and pair.signed]
    missed = [pair.name for pair in wanted if not _repeats(pair.one, pair.other)]
    assert len(missed) <= (1 - _LEAST_SHARE) * len(wanted), missed


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if not pair.same and pair.signed], ids=lambda pair: pair.name
)
def test_two_failures_of_one_pipeline_are_two_groups(pair: Pair) -> None:
    jobs = [_describe(number, *log) for number, log in enumerate((pair.one, pair.other), 1)]
    by_error = {group.text for group in (_group(*pair.one), _group(*pair.other))}
    groups = group_jobs(jobs, _no_rule)
    assert len(groups) == 2 or len(by_error) == 1
