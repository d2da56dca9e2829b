"""What GitLab shows about failing jobs, as values: `verdict` decides by them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from worker.core.failure.changed_files import Touch


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be found out, and why, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a job.

    `status` and `reason` are GitLab's status and failure_reason. `error` is a key of the errors in
    its log: the failing job's key if the log has all of that job's errors, "" if the run did not
    fail or its log could not be read. `started_at` is when it started, or else when its pipeline
    was created: ISO 8601 in any time zone, or "". `has_started` is False for a job that never ran.
    `source` is GitLab's `source` of its pipeline. `place` is the merge request or branch of its
    pipeline; for another job of this pipeline, that job's name. `shared_errors` is how many of the
    failing job's errors it has, if it has some but not all of them; `missing_errors` are the first
    of those that it lacks.
    """

    job_id: int
    pipeline_id: int
    status: str
    sha: str = ""
    reason: str = ""
    error: str = ""
    url: str = ""
    started_at: str = ""
    place: str = ""
    source: str = ""
    has_started: bool = True
    shared_errors: int = 0
    missing_errors: tuple[str, ...] = ()

    def is_after(self, other: "Run") -> bool:
        """Whether it ran later than `other`: by the clock, else by the order of the ids."""
        ours, theirs = parse_time(self.started_at), parse_time(other.started_at)
        if ours is None or theirs is None or ours == theirs:
            return self.job_id > other.job_id
        return ours > theirs


def parse_time(at: str) -> float | None:
    """Return an ISO 8601 time in epoch seconds; None if it is not one or has no time zone."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _later_first(one: Run, other: Run) -> int:
    return -1 if one.is_after(other) else 1


def sort_newest_first(runs: Iterable[Run]) -> list[Run]:
    """Sort the runs by when they ran, the latest first."""
    return sorted(runs, key=cmp_to_key(_later_first))


def select_same_source(runs: Iterable[Run], run: Run) -> list[Run]:
    """Return the runs on the commit of `run` in pipelines of the same source."""
    return [each for each in runs if run.sha and (each.sha, each.source) == (run.sha, run.source)]


def find_pass_after(run: Run, runs: Iterable[Run]) -> Run | None:
    """Return the first of `runs` that passed later than `run`, None if there is none."""
    greens = sorted((each for each in runs if each.status == "success"), key=_job_id)
    return next((each for each in greens if each.is_after(run)), None)


def _job_id(run: Run) -> int:
    return run.job_id


@dataclass(frozen=True, slots=True)
class Target:
    """The job on the target branch: its `runs` in the newest `looked_at` pipelines.

    The newest pipeline comes first, and within a pipeline the newest attempt. `gap` says that the
    oldest pipelines do not directly follow the others. None of the runs has the change. `base` is
    the commit that the failing pipeline is built on, "" if it is not known. `has_newer_commits`
    says that the branch has newer commits than that. `unread` counts the pipelines that could not
    be read. `may_hide_newer_runs` says that a newer run may be in one of those, or in a pipeline
    that was not looked at.
    """

    branch: str
    runs: tuple[Run, ...]
    looked_at: int
    base: str = ""
    has_newer_commits: bool = False
    gap: bool = False
    unread: int = 0
    may_hide_newer_runs: bool = False

    @property
    def finished_runs(self) -> list[Run]:
        """The runs that passed or failed, in the order of `runs`."""
        return [each for each in self.runs if each.status in ("success", "failed")]

    @property
    def runs_by_commit(self) -> list[list[Run]]:
        """The finished runs of each commit, the newest commit and its newest run first.

        Commits are ordered by their first pipeline: a late retry does not make a commit newer.
        """
        found: dict[str, list[Run]] = {}
        for each in self.finished_runs:
            found.setdefault(each.sha, []).append(each)
        newest = sorted(found.values(), key=lambda runs: -min(run.pipeline_id for run in runs))
        return list(map(sort_newest_first, newest))

    @property
    def runs_at_newest_commit(self) -> list[Run]:
        """The finished runs at the newest commit that has any; none if newer ones may be hidden."""
        return (
            self.runs_by_commit[0] if self.runs_by_commit and not self.may_hide_newer_runs else []
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What the merge request changes: how many `files`, and those whose kind matters.

    `touches` are the changed files that the error names for certain, by themselves or by their
    package, and those whose tests it names. Of the log's `failed_tests`, `tests_of_touched` are
    tests of these; both are 0 if the log names tests without their files. `whole` says that every
    changed file was seen. `may_configure` says that one of them may decide how jobs run: any YAML
    file may be part of the CI configuration, but `ci` names only those that are known to be.
    """

    files: int
    ci: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    only_docs: bool = False
    touches: tuple[Touch, ...] = ()
    failed_tests: int = 0
    tests_of_touched: int = 0
    whole: bool = True
    may_configure: bool = False


@dataclass(frozen=True, slots=True)
class LastPass:
    """The last run of the job that passed, and how the packages installed there differed."""

    run: Run
    package_changes: tuple[str, ...] = ()


NOT_ASKED = Unknown("not looked at")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the failing jobs that have one error; `run` is their representative.

    `attempts` are its other runs on the same commit in the same kind of pipeline;
    `runs_of_other_sources` are its runs in other kinds, where other rules and variables may apply.
    `earlier` are its runs in the merge request's pipelines on earlier commits, newest first.
    `elsewhere` are runs with the same error in other merge requests and branches. `siblings` are
    the newest runs of the other jobs of its matrix. `recoveries` are pairs of runs of another job
    of this pipeline: one with the same error, and a later one that passed. `errors` is the number
    of errors of the failing job. `cut` says which part of its log is missing. `rest` holds the same
    facts for each of the `others`.
    """

    name: str
    run: Run
    others: tuple[Run, ...] = ()
    attempts: tuple[Run, ...] | Unknown = NOT_ASKED
    runs_of_other_sources: tuple[Run, ...] = ()
    target: Target | Unknown = NOT_ASKED
    earlier: tuple[Run, ...] | Unknown = NOT_ASKED
    elsewhere: tuple[Run, ...] | Unknown = NOT_ASKED
    change: Change | Unknown = NOT_ASKED
    siblings: tuple[Run, ...] = ()
    recoveries: tuple[tuple[Run, Run], ...] = ()
    last_pass: LastPass | None = None
    errors: int = 0
    cut: str = ""
    rest: "tuple[Facts, ...]" = ()

    @property
    def jobs(self) -> tuple[Run, ...]:
        """All failing jobs with this error."""
        return (self.run, *self.others)

    def has_same_error(self, run: Run) -> bool:
        """Whether a run failed with the same error; an unknown error never counts as the same."""
        return run.status == "failed" and run.error == self.run.error != ""
