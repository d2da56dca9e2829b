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
    it did not fail or the log could not be read. `at` is when it started, or its pipeline was
    created: ISO 8601 in any zone, or "". `started` is False for a job that never ran. `source` is
    what made its pipeline, in GitLab's words. `place` is where it ran, if not here; of another job
    of this pipeline, that job's name. `shared` says how many of the failing job's errors it had
    too, where it had not all of them; `lacked` are the first of the others.
    """

    job_id: int
    pipeline_id: int
    status: str
    sha: str = ""
    reason: str = ""
    error: str = ""
    url: str = ""
    at: str = ""
    place: str = ""
    source: str = ""
    started: bool = True
    shared: int = 0
    lacked: tuple[str, ...] = ()

    def is_after(self, other: "Run") -> bool:
        """Whether it ran later than `other`: by the clock, else by the order of the ids."""
        ours, theirs = instant(self.at), instant(other.at)
        if ours is None or theirs is None or ours == theirs:
            return self.job_id > other.job_id
        return ours > theirs


def instant(at: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 time with its zone; None if it is not one."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _later_first(one: Run, other: Run) -> int:
    return -1 if one.is_after(other) else 1


def newest_first(runs: Iterable[Run]) -> list[Run]:
    """The runs by the time at which they ran."""
    return sorted(runs, key=cmp_to_key(_later_first))


def alike(runs: Iterable[Run], run: Run) -> list[Run]:
    """The runs at the commit of `run` in pipelines of the same source."""
    return [each for each in runs if run.sha and (each.sha, each.source) == (run.sha, run.source)]


def passed_after(run: Run, runs: Iterable[Run]) -> Run | None:
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
    "" if it is not known. `moved` says that the branch has gone on since. `unread` pipelines among
    them could not be read. `hidden` says that a newer run may be in one of those, or in one that
    was not looked at.
    """

    branch: str
    runs: tuple[Run, ...]
    looked_at: int
    base: str = ""
    moved: bool = False
    gap: bool = False
    unread: int = 0
    hidden: bool = False

    @property
    def finished(self) -> list[Run]:
        """The runs that passed or failed, as they are listed."""
        return [each for each in self.runs if each.status in ("success", "failed")]

    @property
    def by_commit(self) -> list[list[Run]]:
        """The finished runs of each commit, those of the newest commit and the newest runs first.

        Which commit is newest is told by its first pipeline: a late retry makes no commit newer.
        """
        found: dict[str, list[Run]] = {}
        for each in self.finished:
            found.setdefault(each.sha, []).append(each)
        newest = sorted(found.values(), key=lambda runs: -min(run.pipeline_id for run in runs))
        return list(map(newest_first, newest))

    @property
    def at_newest_commit(self) -> list[Run]:
        """The finished runs at the newest commit that has any; none if newer ones may be hidden."""
        return self.by_commit[0] if self.by_commit and not self.hidden else []


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
    installed: tuple[str, ...] = ()


NOT_ASKED = Unknown("not looked at")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the failing jobs that have one error; `run` is the one that stands for all.

    `attempts` are its other runs on the same commit in the same kind of pipeline; `aside` those in
    other kinds, where other rules and variables may hold. `earlier` are its runs in the merge
    request's pipelines on earlier commits, newest first. `elsewhere` are runs with the same error
    in other merge requests and branches. `siblings` are the newest runs of the other jobs of its
    matrix. `recovered` are pairs of runs of another job of this pipeline: one with the same error,
    and one after it that passed. `errors` counts what the failing job fails with. `cut` says what
    of its log is not there. `rest` are the same facts of each of the `others`.
    """

    name: str
    run: Run
    others: tuple[Run, ...] = ()
    attempts: tuple[Run, ...] | Unknown = NOT_ASKED
    aside: tuple[Run, ...] = ()
    target: Target | Unknown = NOT_ASKED
    earlier: tuple[Run, ...] | Unknown = NOT_ASKED
    elsewhere: tuple[Run, ...] | Unknown = NOT_ASKED
    change: Change | Unknown = NOT_ASKED
    siblings: tuple[Run, ...] = ()
    recovered: tuple[tuple[Run, Run], ...] = ()
    last_pass: LastPass | None = None
    errors: int = 0
    cut: str = ""
    rest: "tuple[Facts, ...]" = ()

    @property
    def jobs(self) -> tuple[Run, ...]:
        """All failing jobs with this error."""
        return (self.run, *self.others)

    def same(self, run: Run) -> bool:
        """Whether a run failed with this very error; an unknown error is never the same."""
        return run.status == "failed" and run.error == self.run.error != ""
