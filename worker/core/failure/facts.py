"""What GitLab shows of a failing job, as values: what `verdict` decides by. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from worker.core.failure.changed_files import Touch


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be had, and why, in words."""

    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a job.

    `status` and `reason` are GitLab's status and failure_reason. `error` is a key of what its log
    says: that of the failing job where it says at least as much (`core.signature.errors`), "" if
    it did not fail or the log could not be read. `started_at` is when it started, or else
    its pipeline was created: ISO 8601 in any zone, or "". `has_started` is False for a job that
    never ran. `source` is
    what made its pipeline, in GitLab's words. `place` is where it ran, if not here; of another job
    of this pipeline, that job's name. `shared_errors` says how many of the failing
    job's errors it had too, if it had some of them; `missing_errors` are the first of the others.
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
    """Seconds since the epoch of an ISO 8601 time with its zone; None if it is not one."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _later_first(one: Run, other: Run) -> int:
    return -1 if one.is_after(other) else 1


def sort_newest_first(runs: Iterable[Run]) -> list[Run]:
    """The runs by the time at which they ran."""
    return sorted(runs, key=cmp_to_key(_later_first))


def select_same_source(runs: Iterable[Run], run: Run) -> list[Run]:
    """The runs at the commit of `run` in pipelines of the same source."""
    return [each for each in runs if run.sha and (each.sha, each.source) == (run.sha, run.source)]


def find_pass_after(run: Run, runs: Iterable[Run]) -> Run | None:
    """The first of `runs` that passed later than `run`."""
    greens = sorted((each for each in runs if each.status == "success"), key=_job_id)
    return next((each for each in greens if each.is_after(run)), None)


def _job_id(run: Run) -> int:
    return run.job_id


@dataclass(frozen=True, slots=True)
class Target:
    """The job on the target branch: `runs` of the newest `looked_at` pipelines, newest pipeline
    first; of one pipeline the newest attempt first. `gap` says that the oldest of these do not
    follow on the others.

    None of them ran with the change. `base` is the commit that the failing pipeline is built on,
    "" if it is not known. `has_newer_commits` says that the branch has newer commits.
    `unread` pipelines among them could not be read. `may_hide_newer_runs` says that a newer run may
    be in one of those, or in one that was not looked at.
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
        """The runs that passed or failed, as they are listed."""
        return [each for each in self.runs if each.status in ("success", "failed")]

    @property
    def runs_by_commit(self) -> list[list[Run]]:
        """The finished runs of each commit, those of the newest commit and the newest runs first.

        Which commit is newest is told by its first pipeline: a late retry makes no commit newer.
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
    """What the merge request touches: of all its `files`, those that mean something by their kind.

    `touches` are the changed files that the error names for certain, and those whose tests it
    names. `whole` says that every changed file was seen.
    """

    files: int
    ci: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    only_docs: bool = False
    touches: tuple[Touch, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class LastPass:
    """The last run of the job that passed, and what was installed otherwise there, in words."""

    run: Run
    package_changes: tuple[str, ...] = ()


NOT_ASKED = Unknown("not looked at")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the failing jobs that have one error; `run` is the one that stands for all.

    `attempts` are its other runs on the same commit in the same kind of pipeline;
    `runs_of_other_sources` those in other kinds, where other rules and variables may hold.
    `earlier` are its runs in the merge request's pipelines on earlier commits, newest first.
    `elsewhere` are runs with the same error in other merge requests and branches. `siblings` are
    the newest runs of the other jobs of its matrix. `recoveries` are pairs of runs of another job
    of this pipeline: one with the same error, and one after it that passed. `errors` counts what
    the failing job fails with. `cut` says what of its log is not there. `rest` are the same facts
    of each of the `others`.
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
        """Whether a run failed with this very error; an unknown error is never the same."""
        return run.status == "failed" and run.error == self.run.error != ""
