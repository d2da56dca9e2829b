"""What GitLab shows about failing jobs: the values from which `verdict` decides. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key
from itertools import chain, takewhile
from typing import Self

from worker.logs.failed_tests import select_failures
from worker.verdict.changed_files import Touch
from worker.verdict.recalled_tests import JobTests
from worker.verdict.unpinned import UnpinnedLine


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be found out, and why, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class JobRun:
    """One attempt of a job."""

    job_id: int
    pipeline_id: int
    status: str
    """GitLab's status of the job."""
    sha: str = ""
    reason: str = ""
    """GitLab's failure_reason."""
    errors: frozenset[str] = frozenset()
    """The errors in its log, in a normal form; none if it did not fail or could not be read."""
    url: str = ""
    started_at: str = ""
    """When it started, or else its pipeline was created: ISO 8601 in any time zone, or ""."""
    place: str = ""
    """Its pipeline's merge request or branch; for another job of this pipeline, that job's name."""
    source: str = ""
    """GitLab's `source` of its pipeline."""
    has_started: bool = True
    """False for a job that never ran."""
    missing_errors: tuple[str, ...] = ()
    """If it has some of the failing job's errors: the first ones that it lacks, in that log's
    words."""
    seconds: float = 0.0
    """How long it ran, 0 if that is not known."""

    @property
    def failures(self) -> frozenset[str]:
        """Those of the errors that a person would count as a failure each; none if that is not
        known."""
        return select_failures(self.errors)

    @property
    def has_passed(self) -> bool:
        """Whether it ended in success."""
        return self.status == "success"

    def is_after(self, other: "JobRun") -> bool:
        """Whether it ran later than `other`: by the clock, else by the order of the ids."""
        ours, theirs = parse_time(self.started_at), parse_time(other.started_at)
        if ours is None or theirs is None or ours == theirs:
            return self.job_id > other.job_id
        return ours > theirs

    def find_later_pass(self, runs: Iterable["JobRun"]) -> "JobRun | None":
        """Return the first of `runs` that passed later than this one, None if there is none."""
        later = (each for each in runs if each.has_passed and each.is_after(self))
        return min(later, key=lambda each: each.job_id, default=None)


def parse_time(at: str) -> float | None:
    """Return an ISO 8601 time in epoch seconds; None if it is not one or has no time zone."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def get_day(at: str) -> str:
    """Return the day of an ISO 8601 time, such as 2026-01-14; "" if it is not one."""
    return "" if parse_time(at) is None else datetime.fromisoformat(at).date().isoformat()


def sort_newest_first(runs: Iterable[JobRun]) -> list[JobRun]:
    """Sort the runs by when they ran, the latest first."""

    def compare(one: JobRun, other: JobRun) -> int:
        return -1 if one.is_after(other) else 1

    return sorted(runs, key=cmp_to_key(compare))


def _group_by_commit(runs: Iterable[JobRun]) -> list[list[JobRun]]:
    """Group the finished runs of one branch by commit, the newest commit and its newest run first.

    Commits are ordered by their first pipeline: a late retry does not make a commit newer.
    """
    by_commit: dict[str, list[JobRun]] = {}
    for each in runs:
        if each.status in ("success", "failed"):
            by_commit.setdefault(each.sha, []).append(each)
    newest = sorted(by_commit.values(), key=lambda runs: -min(run.pipeline_id for run in runs))
    return list(map(sort_newest_first, newest))


@dataclass(frozen=True, slots=True)
class Target:
    """The job on the target branch."""

    branch: str
    runs: tuple[JobRun, ...]
    """Its runs without the change; the newest pipeline comes first, in it the newest attempt."""
    looked_at: int
    """In how many of the newest pipelines."""
    base: str = ""
    """The commit that the failing pipeline is built on, "" if it is not known."""
    has_newer_commits: bool = False
    """Whether the branch has newer commits than that."""
    gap: bool = False
    """Whether the oldest pipelines do not directly follow the others."""
    unread: int = 0
    """How many of the pipelines could not be read."""
    may_hide_newer_runs: bool = False
    """Whether a newer run may be in one of those, or in a pipeline that was not looked at."""
    may_hide_base_runs: bool = False
    """Whether a run of `base` may be in one that could not be read."""
    runs_with_change: tuple[JobRun, ...] = ()
    """The runs at commits that contain the change already, as far as they were looked at."""

    @property
    def all_runs(self) -> tuple[JobRun, ...]:
        """The runs without the change and with it."""
        return (*self.runs_with_change, *self.runs)

    @property
    def finished_runs(self) -> list[JobRun]:
        """The runs that passed or failed, in the order of `runs`."""
        return [each for each in self.runs if each.status in ("success", "failed")]

    @property
    def runs_by_commit(self) -> list[list[JobRun]]:
        """The finished runs of each commit, the newest commit and its newest run first."""
        return _group_by_commit(self.runs)

    @property
    def known_runs_by_commit(self) -> list[list[JobRun]]:
        """The same, none if newer ones may be hidden."""
        return [] if self.may_hide_newer_runs else self.runs_by_commit

    @property
    def runs_at_newest_commit(self) -> list[JobRun]:
        """The finished runs at the newest commit that has any; none if newer ones may be hidden."""
        return next(iter(self.known_runs_by_commit), [])

    @property
    def all_runs_at_newest_commit(self) -> list[JobRun]:
        """The finished ones of `all_runs` at the newest commit that has any."""
        return next(iter(_group_by_commit(self.all_runs)), [])


@dataclass(frozen=True, slots=True)
class Change:
    """What the merge request changes."""

    files: int
    """How many files."""
    ci: tuple[str, ...] = ()
    """Those that are known to be CI configuration."""
    dependencies: tuple[str, ...] = ()
    """Those that change what is installed."""
    only_docs: bool = False
    touches: tuple[Touch, ...] = ()
    """Those that the error names for certain, by themselves or by their package, and those whose
    tests it names."""
    failed_tests: int = 0
    """How many tests failed in the log; 0 if it does not name the tests' files."""
    tests_of_touched: int = 0
    """How many of them test a touched file."""
    whole: bool = True
    """Whether every changed file was seen."""
    may_configure: bool = False
    """Whether one may decide how jobs run: any YAML file may be part of the CI configuration."""
    may_choose_runner: bool = False
    """Whether one may decide which runners may take jobs, which no image decides."""
    removed_names: tuple[tuple[str, str], ...] = ()
    """Names in the error that the diff removes and has nowhere else, each with the path of a file
    that loses it."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What a run had: a package, a tool, an `image` with its digest, or its `runner`."""

    kind: str
    name: str
    version: str


MOST_INSTALLED = 200
"""The most installed things that are compared with what a cause blames."""


@dataclass(frozen=True, slots=True)
class LastPass:
    """The last run of the job that passed, how the packages installed there differed, the lines
    that let them, and what both logs name that was the same."""

    run: JobRun
    package_changes: tuple[str, ...] = ()
    unpinned_lines: tuple[UnpinnedLine, ...] = ()
    same: tuple[Installed, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commit `old`, on which a job passed, and the first one after it on which it failed.

    `branch` is the target branch if both are there, "" if they are the merge request's.
    """

    old: str
    new: str
    branch: str = ""

    @classmethod
    def load(cls, old: str, new: str, branch: str) -> Self:
        """Make a range from stored values. Raises ValueError or TypeError if they are not valid."""
        if not _SHA.fullmatch(old) or not _SHA.fullmatch(new):
            raise ValueError(f"{old[:80]!r} and {new[:80]!r} are not both ids of commits")
        return cls(old, new, str(branch))


_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

NOT_ASKED = Unknown("not looked at")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the failing jobs that have one error."""

    name: str
    run: JobRun
    """The run that represents them."""
    others: tuple[JobRun, ...] = ()
    attempts: tuple[JobRun, ...] | Unknown = NOT_ASKED
    """Its other runs on the same commit in the same kind of pipeline."""
    runs_of_other_sources: tuple[JobRun, ...] = ()
    """Its runs there in other kinds, to which other rules and variables may apply."""
    target: Target | Unknown = NOT_ASKED
    earlier: tuple[JobRun, ...] | Unknown = NOT_ASKED
    """Its runs in the merge request's pipelines on earlier commits, newest first."""
    elsewhere: tuple[JobRun, ...] | Unknown = NOT_ASKED
    """Runs with the same error in other merge requests and branches."""
    change: Change | Unknown = NOT_ASKED
    siblings: tuple[JobRun, ...] = ()
    """The newest runs of the other jobs of its matrix."""
    recoveries: tuple[tuple[JobRun, JobRun], ...] = ()
    """Pairs of runs of another job of this pipeline: with the same error, and a later pass."""
    last_pass: LastPass | None = None
    cut: str = ""
    """Which part of the failing job's log is missing."""
    clock: str = ""
    """How far its runner's clock is from GitLab's."""
    may_blame_host: bool | None = None
    """Whether the failed command's output may tell of trouble of network or host; None: unknown."""
    tests: JobTests | None = None
    """The single tests that failed, as far as that is known."""
    lead: str = ""
    """The verdict to which a rule leads that is not certain of it."""
    rest: "tuple[Facts, ...]" = ()
    """The same facts for each of the `others`."""

    @property
    def jobs(self) -> tuple[JobRun, ...]:
        """All failing jobs with this error."""
        return (self.run, *self.others)

    @property
    def known_attempts(self) -> tuple[JobRun, ...]:
        """The `attempts`, none if they are not known."""
        return self.attempts if isinstance(self.attempts, tuple) else ()

    @property
    def known_target(self) -> Target:
        """The `target`, or one without runs if it is not known."""
        return self.target if isinstance(self.target, Target) else Target("", (), 0)

    @property
    def known_earlier(self) -> tuple[JobRun, ...]:
        """The `earlier` runs, none if they are not known."""
        return self.earlier if isinstance(self.earlier, tuple) else ()

    def has_same_error(self, run: JobRun) -> bool:
        """Whether a run failed for the same reason with all errors of the failing one. Errors that
        are not known never count as the same."""
        return bool(self.run.errors) and self.run.errors <= self.find_same_errors(run)

    def find_same_errors(self, run: JobRun) -> frozenset[str]:
        """Return those of the failing run's errors with which a run failed for the same reason;
        none if they share none of the failures that a person would count, as both may print a line
        that fails no job."""
        alike = run.status == "failed" and run.reason == self.run.reason
        failures = self.run.failures
        if not alike or (failures and failures.isdisjoint(run.errors)):
            return frozenset()
        return self.run.errors & run.errors

    def count_same_failures(self, run: JobRun) -> int:
        """Count those of the failing run's failures that a run had too, with the same messages."""
        shared = self.find_same_errors(run)
        lacked = self.run.errors - shared
        return sum(
            each in shared and not any(error.startswith(f"{each}: ") for error in lacked)
            for each in self.run.failures
        )

    def has_some_errors(self, run: JobRun) -> bool:
        """Whether a run failed with some but not all of the failing one's errors."""
        return bool(self.find_same_errors(run)) and not self.has_same_error(run)

    def list_steady_failures(self) -> list[JobRun]:
        """Return the newest runs on the target branch up to the first one that did not fail in the
        same way, the newest commit first; none if newer runs may be hidden."""
        return [*takewhile(self.has_same_error, chain(*self.known_target.known_runs_by_commit))]

    def find_range(self) -> CommitRange | None:
        """Find where the job broke on the target branch, else in the merge request itself."""
        found: list[tuple[JobRun, JobRun, str]] = []
        failed = self.list_steady_failures()
        runs = [*chain(*self.known_target.known_runs_by_commit)]
        if failed and len(failed) < len(runs):
            found.append((runs[len(failed)], failed[-1], self.known_target.branch))
        found += [(newest, self.run, "") for newest in sort_newest_first(self.known_earlier)[:1]]
        for passed, broken, branch in found:
            known = _SHA.fullmatch(passed.sha) and _SHA.fullmatch(broken.sha)
            if passed.has_passed and known and passed.sha != broken.sha:
                return CommitRange(passed.sha, broken.sha, branch)
        return None


# ------------------------------------------------------------------------ GitLab's failure reasons
# See app/models/concerns/enums/ci/commit_status.rb. GitLab 19 has split two of them, and writes the
# old names no more: `stuck_or_timeout_failure` into WAITED and LOST, `job_execution_timeout` into
# the server's time limits.

BY_ITSELF = frozenset({"", "script_failure", "unknown_failure"})
"""The job's own script may have failed; its log has to say why."""

TIME_LIMITS = frozenset(
    {"job_execution_timeout", "job_execution_server_timeout"}
    | {"server_timeout_running", "server_timeout_canceling"}
)
"""The job met its time limit."""

NO_RUNNER = frozenset({"no_matching_runner", "stuck_pending_no_matching_runners"})
"""No runner may take the job."""

WAITED = frozenset({"stuck_or_timeout_failure", "stuck_pending_with_matching_runners"})
"""No runner took the job in time, if it has not started."""

LOST = frozenset({"stuck_or_timeout_failure", "no_updates_running", "no_updates_canceling"})
"""A runner took the job, if it has started, and GitLab heard no more of it."""

WITHOUT_RUNNER = NO_RUNNER | WAITED | {"runner_unsupported"}
"""No image can cause these: no runner took the job, if it has never started."""

NEVER_THE_CHANGE = frozenset(
    {"api_failure", "ci_quota_exceeded", "data_integrity_failure"}
    | {"scheduler_failure", "stale_schedule"}
)
"""No commit can cause these."""

UNLESS_CONFIGURED = frozenset(
    {
        "image_pull_failure",
        "runner_external_dependency_failure",
        "runner_interrupted",
        "runner_system_failure",
        "unmet_prerequisites",
    }
    | WITHOUT_RUNNER
)
"""Failure reasons that a commit can cause only by changing the CI configuration: a tag that no
runner has, an image that does not exist. A time limit or a log limit is not among them: code can
exceed both."""

PREPARING = frozenset(
    {"runner_system_failure", "runner_external_dependency_failure", "runner_configuration_error"}
    | {"image_pull_failure", "script_failure", "unknown_failure", ""}
)
"""The failure reasons that GitLab gives if the runner could not prepare a job; older runners report
script_failure for an image, and runner_system_failure for what newer ones tell apart."""
