"""Labelled failures: what GitLab shows, what the model says, and whose failure it is.

`by` says who is to decide: where it is "code", the model is wrong and the record has to overrule
it; where it is "model", the record proves nothing and must leave a right answer alone; "nobody" is
for a wrong answer that the record refutes without knowing the right one.
"""

from dataclasses import dataclass, replace
from typing import Any

from worker.verdict.changed_files import Touch
from worker.verdict.facts import Change, Facts, JobRun, LastPass, Target, Unknown
from worker.verdict.verdict import Verdict

CHANGE, TARGET, FLAKY = Verdict.CHANGE, Verdict.TARGET, Verdict.FLAKY
INFRA, UNKNOWN = Verdict.INFRASTRUCTURE, Verdict.UNKNOWN

SHA, BASE, OLD, NEW = "c" * 40, "b" * 40, "a" * 40, "d" * 40
ERROR, OTHER = "e1", "e2"
CODE = Change(3)
JOB = 500


@dataclass(frozen=True, slots=True)
class Case:
    """One failure. `errors` are the facts of each error; most have one."""

    name: str
    errors: tuple[Facts, ...]
    model: Verdict
    truth: Verdict
    by: str


def run(job_id: int, status: str = "failed", **more: Any) -> JobRun:
    """A run; a failed one with this error unless told otherwise."""
    reason, errors = ("script_failure", {ERROR}) if status == "failed" else ("", set[str]())
    made = JobRun(job_id, job_id * 10, status, SHA, reason, frozenset(errors))
    url = f"https://gitlab.example.com/team/service/-/jobs/{job_id}"
    return replace(made, url=url, **more)


def on(sha: str, outcome: str, job_id: int) -> JobRun:
    """A run on the target branch: "same" error, "other" error, "unread", "pass", "running"."""
    status = {"pass": "success", "running": "running"}.get(outcome, "failed")
    errors = {"same": {ERROR}, "other": {OTHER}}.get(outcome, set[str]())
    return run(job_id, status, sha=sha, errors=frozenset(errors))


def target(*outcomes: tuple[str, str], base: str = BASE) -> Target:
    """The target branch, newest first: (commit, outcome)."""
    runs = tuple(on(sha, outcome, 400 - at) for at, (sha, outcome) in enumerate(outcomes))
    return Target("main", runs, len(runs), base, bool(runs) and runs[0].sha != base)


def facts(**more: Any) -> Facts:
    """A failure with a green target branch and a change that has nothing to do with the CI."""
    usual: dict[str, Any] = {
        "attempts": (),
        "earlier": (),
        "elsewhere": (),
        "target": target((NEW, "pass"), (BASE, "pass"), (OLD, "pass")),
        "change": CODE,
    }
    made = Facts("unit-tests", run(JOB))
    return replace(made, **(usual | more))


def reason(name: str, **more: Any) -> Facts:
    """A failure with this failure_reason."""
    return facts(run=run(JOB, reason=name), **more)


def one(
    name: str, model: Verdict, truth: Verdict, by: str, made: Facts | tuple[Facts, ...]
) -> Case:
    """A case."""
    return Case(name, made if isinstance(made, tuple) else (made,), model, truth, by)


PASSED_LATER = run(JOB + 1, "success")
PASSED_BEFORE = run(JOB - 1, "success")
AGAIN = run(JOB - 2)
RED = target((NEW, "same"), (BASE, "same"), (OLD, "pass"))
NOT_READ = Unknown("GitLab's rate limit is reached")
NAMED = Change(1, touches=(Touch("app/sum.py", "app/sum.py", True),))
ADDS = Change(1, touches=(Touch("app/sum.py", "app/sum.py", True, line=12),))
REMOVES = Change(1, removed_names=(("SHOP_CHANNEL", ".gitlab-ci.yml"),))
"""A change that adds the line that the error names."""

CI = Change(1, ci=(".gitlab-ci.yml",), may_configure=True, may_choose_runner=True)
ANY_YAML = Change(1, may_configure=True, may_choose_runner=True)

CASES = (
    # ------------------------------------------------------------------------------------ flaky
    one("retried, passed on the same commit", CHANGE, FLAKY, "code",
        facts(attempts=(PASSED_LATER,))),
    one("failed, passed and failed again on the same commit", CHANGE, FLAKY, "code",
        facts(attempts=(PASSED_BEFORE, AGAIN))),
    one("passed on retry, and the error names a changed file", CHANGE, FLAKY, "code",
        facts(attempts=(PASSED_LATER,), change=NAMED)),
    one("passed on retry though it failed twice before", INFRA, FLAKY, "code",
        facts(attempts=(PASSED_LATER, AGAIN))),
    one("passed on retry while the target branch is not known", CHANGE, FLAKY, "code",
        facts(attempts=(PASSED_LATER,), target=NOT_READ)),
    one("passed on retry after the target branch was red", TARGET, FLAKY, "code",
        facts(attempts=(PASSED_LATER,), target=RED)),
    one("fails and passes on one commit of the target branch", CHANGE, FLAKY, "code",
        facts(target=target((NEW, "pass"), (BASE, "pass"), (BASE, "same")))),
    one("fails, passes and fails on the newest commit of the target branch", TARGET, FLAKY, "code",
        facts(target=target((NEW, "same"), (NEW, "pass"), (NEW, "same"), (BASE, "pass")))),
    one("the passes between are of other commits of the target branch", FLAKY, FLAKY, "model",
        facts(target=target((NEW, "pass"), (BASE, "same"), (OLD, "pass"), ("9" * 40, "same"),
                            base=NEW))),
    one("depends on timing, the record is silent", FLAKY, FLAKY, "model", facts()),
    one("a flake that failed twice in a row, after a pass of the same commit", FLAKY, FLAKY,
        "model", facts(attempts=(run(JOB - 1), run(JOB - 2, "success")))),
    one("a flake that failed twice in a row and never passed here", FLAKY, FLAKY, "model",
        facts(attempts=(AGAIN,))),
    one("order of tests, target branch not readable", FLAKY, FLAKY, "model",
        facts(target=NOT_READ)),
    # ----------------------------------------------------------------------------------- target
    one("the same on the newest run and the base", CHANGE, TARGET, "code", facts(target=RED)),
    one("a new release of a dependency broke both", CHANGE, TARGET, "code",
        facts(target=target((NEW, "same"), (BASE, "pass")))),
    one("passed before the target branch broke", CHANGE, TARGET, "code",
        facts(attempts=(PASSED_BEFORE,), target=target((NEW, "same"), (BASE, "pass")))),
    one("a flake of an older commit, broken on the newest", CHANGE, TARGET, "code",
        facts(target=target((NEW, "same"), (BASE, "pass"), (OLD, "pass"), (OLD, "same")))),
    one("mended on the target branch since the base", CHANGE, TARGET, "code",
        facts(target=target((NEW, "pass"), (BASE, "same"), (OLD, "same")))),
    one("the error names a changed file, but is older", CHANGE, TARGET, "code",
        facts(target=RED, change=NAMED)),
    one("failed twice here, and there", FLAKY, TARGET, "code",
        facts(target=RED, attempts=(AGAIN,))),
    one("an unfinished run on top of the red one", FLAKY, TARGET, "code",
        facts(target=target((NEW, "running"), (BASE, "same")))),
    one("the target's log cannot be read", TARGET, TARGET, "model",
        facts(target=target((NEW, "unread"), (BASE, "unread")))),
    one("the target's pipelines cannot be read", TARGET, TARGET, "model", facts(target=NOT_READ)),
    one("the job is not run there, its cause is old", TARGET, TARGET, "model",
        facts(target=target())),
    # --------------------------------------------------------------------------- infrastructure
    one("the runner failed", CHANGE, INFRA, "code", reason("runner_system_failure")),
    one("no runner took it", FLAKY, INFRA, "code",
        facts(run=run(JOB, reason="stuck_or_timeout_failure", has_started=False))),
    one("the quota is used up, CI configuration changed", CHANGE, INFRA, "code",
        reason("ci_quota_exceeded", change=CI)),
    one("the scheduler failed, diff not known", UNKNOWN, INFRA, "code",
        reason("scheduler_failure", change=NOT_READ)),
    one("the runner failed, passed on retry", FLAKY, INFRA, "code",
        reason("runner_system_failure", attempts=(PASSED_LATER,))),
    one("no runner has the tags, by the newer reason", CHANGE, INFRA, "code",
        facts(run=run(JOB, reason="stuck_pending_no_matching_runners", has_started=False))),
    one("the runner was stopped", CHANGE, INFRA, "code", reason("runner_interrupted")),
    one("the runner failed there too", TARGET, INFRA, "code",
        reason("runner_system_failure", target=RED)),
    one("the image could not be pulled", CHANGE, INFRA, "code", reason("image_pull_failure")),
    one("a mirror was down, as the log tells", INFRA, INFRA, "model", facts()),
    one("the runner failed, diff not known", INFRA, INFRA, "model",
        reason("runner_system_failure", change=NOT_READ)),
    one("its container was killed, and lived on retry", CHANGE, FLAKY, "code",
        reason("runner_system_failure", attempts=(PASSED_LATER,), lead="unknown")),
    one("a rule only doubts that it was outside, passed on retry", FLAKY, INFRA, "code",
        reason("runner_system_failure", attempts=(PASSED_LATER,), lead="infrastructure")),
    # ----------------------------------------------------------------------------------- change
    one("its container was killed for its memory", CHANGE, CHANGE, "model",
        reason("runner_system_failure", lead="unknown")),
    one("the image is its own, which the registry lacks", CHANGE, CHANGE, "model",
        reason("image_pull_failure", lead="infrastructure")),
    one("broken by a changed line", CHANGE, CHANGE, "model", facts(change=NAMED)),
    one("failed twice on this commit", CHANGE, CHANGE, "model", facts(attempts=(AGAIN,))),
    one("it was taken by a runner, and met the time limit", CHANGE, CHANGE, "model",
        reason("stuck_or_timeout_failure")),
    one("its script had failed before the runner did", CHANGE, CHANGE, "model",
        reason("runner_system_failure", attempts=(AGAIN,))),
    one("the retry that passed was on another commit", CHANGE, CHANGE, "model",
        facts(earlier=(run(JOB - 1, "success", sha=OLD),))),
    one("passed in another kind of pipeline, with other variables", CHANGE, CHANGE, "model",
        facts(runs_of_other_sources=(run(JOB + 1, "success"),))),
    one("the target branch fails with another error", CHANGE, CHANGE, "model",
        facts(target=target((NEW, "other"), (BASE, "other")))),
    one("the target branch's error is not known", CHANGE, CHANGE, "model",
        facts(target=target((NEW, "unread"), (BASE, "pass")))),
    one("it reverts a fix: the target was red before", CHANGE, CHANGE, "model",
        facts(target=target((NEW, "pass"), (BASE, "pass"), (OLD, "same"), (OLD, "same")))),
    one("one failure long ago on the target branch", CHANGE, CHANGE, "model",
        facts(target=target((NEW, "pass"), (BASE, "pass"), (OLD, "same"), ("9" * 40, "pass")))),
    one("comes and goes there, but stays here", CHANGE, CHANGE, "model",
        facts(attempts=(AGAIN,), target=target(
            (NEW, "pass"), (BASE, "same"), (OLD, "pass"), ("9" * 40, "same"), base=NEW))),
    one("the change names an image that is not there", CHANGE, CHANGE, "model",
        reason("runner_system_failure", change=CI)),
    one("the change asks for a tag that no runner has", CHANGE, CHANGE, "model",
        reason("no_matching_runner", change=CI)),
    one("the change breaks a configuration that is kept under a name of its own", CHANGE, CHANGE,
        "model", reason("no_matching_runner", change=ANY_YAML)),
    one("an endless loop met the time limit", CHANGE, CHANGE, "model",
        reason("job_execution_timeout")),
    one("out of memory each time, reported as the runner's failure", CHANGE, CHANGE, "model",
        reason("runner_system_failure", attempts=(
            run(JOB - 1, reason="runner_system_failure"),
            run(JOB - 2, reason="runner_system_failure")))),
    one("the same error in a merge request stacked on this one", CHANGE, CHANGE, "model",
        facts(elsewhere=(run(JOB - 7, place="!12"),))),
    one("only documentation changed, and a link in it is broken", CHANGE, CHANGE, "model",
        facts(change=Change(1, only_docs=True))),
    one("nothing could be read", CHANGE, CHANGE, "model",
        facts(attempts=NOT_READ, target=NOT_READ, change=NOT_READ)),
    one("no line of the log tells the error, the target is red", CHANGE, CHANGE, "model",
        facts(run=run(JOB, errors=frozenset()), target=target((NEW, "unread")))),
    # ---------------------------------------------------------------------------------- unknown
    one("called an old failure, but the target branch is green", TARGET, UNKNOWN, "nobody",
        facts()),
    one("called an old failure, but the target has another error", TARGET, UNKNOWN, "nobody",
        facts(target=target((NEW, "pass"), (BASE, "other")))),
    one("the model cannot tell", UNKNOWN, UNKNOWN, "model", facts()),
    one("blamed on the change, but this commit passed before", CHANGE, UNKNOWN, "nobody",
        facts(attempts=(PASSED_BEFORE,))),
    one("blamed on the change, whose lines this commit had passed with", CHANGE, UNKNOWN, "nobody",
        facts(attempts=(PASSED_BEFORE,), change=ADDS)),
    one("called flaky, but a line that the change adds fails", FLAKY, UNKNOWN, "nobody",
        facts(change=ADDS)),
    one("called flaky, the base passed and the newest run is another failure", FLAKY, UNKNOWN,
        "nobody", facts(change=ADDS, target=target((NEW, "other"), (BASE, "pass")))),
    one("called flaky, the newest run passed and the base is not in sight", FLAKY, UNKNOWN,
        "nobody", facts(change=ADDS, target=target((NEW, "pass"), base=""))),
    one("called infrastructure, but a line that the change adds fails", INFRA, UNKNOWN, "nobody",
        facts(change=ADDS, may_blame_host=False)),
    one("called infrastructure, with the same packages as in the last pass", INFRA, UNKNOWN,
        "nobody", facts(change=ADDS, may_blame_host=False, last_pass=LastPass(run(300)))),
    one("called infrastructure, but the error names what the change removes", INFRA, UNKNOWN,
        "nobody", facts(change=REMOVES, may_blame_host=False)),
    one("called flaky, but the error names what the change removes", FLAKY, UNKNOWN, "nobody",
        facts(change=REMOVES)),
    # ------------------------------------------------------------------- near what is refuted
    one("an outage, the error names what the change removes", INFRA, INFRA, "model",
        facts(change=REMOVES, may_blame_host=True)),
    one("a flake that names what the change removes, and passed before", FLAKY, FLAKY, "model",
        facts(change=REMOVES, attempts=(PASSED_BEFORE,))),
    one("a flake in a line that the change adds, which passed before", FLAKY, FLAKY, "model",
        facts(change=ADDS, attempts=(PASSED_BEFORE,))),
    one("a flake in a line that the change adds, which passed in another kind", FLAKY, FLAKY,
        "model", facts(change=ADDS, runs_of_other_sources=(run(JOB - 1, "success"),))),
    one("a flake of a test that the change has nothing to do with", FLAKY, FLAKY, "model",
        facts(change=NAMED)),
    one("a flake, the diff is not known", FLAKY, FLAKY, "model", facts(change=NOT_READ)),
    one("a flake in an added line, the target is not known", FLAKY, FLAKY, "model",
        facts(change=ADDS, target=NOT_READ)),
    one("a flake in an added line, the job does not run on the target", FLAKY, FLAKY, "model",
        facts(change=ADDS, target=target())),
    one("a flake in an added line, an error there is not known", FLAKY, FLAKY, "model",
        facts(change=ADDS, target=target((NEW, "unread"), (BASE, "pass")))),
    one("a flake in an added line, seen on an older commit of the target", FLAKY, FLAKY, "model",
        facts(change=ADDS, target=target((NEW, "pass"), (BASE, "pass"), (OLD, "same")))),
    one("a flake in an added line, seen in another merge request", FLAKY, FLAKY, "model",
        facts(change=ADDS, elsewhere=(run(JOB - 7, place="!12"),))),
    one("a flake in an added line, another job got over it", FLAKY, FLAKY, "model",
        facts(change=ADDS, recoveries=((run(JOB - 7), run(JOB - 6, "success")),))),
    one("a flake in an added line, an earlier push got over it", FLAKY, FLAKY, "model",
        facts(change=ADDS, earlier=(run(JOB - 5, "success", sha=NEW), run(JOB - 6, sha=OLD)))),
    one("a flake in an added line, the other runs are not known", FLAKY, FLAKY, "model",
        facts(change=ADDS, attempts=NOT_READ)),
    one("an outage that the log tells, in an added line", INFRA, INFRA, "model",
        facts(change=ADDS, may_blame_host=True)),
    one("infrastructure in an added line, the log is not known", INFRA, INFRA, "model",
        facts(change=ADDS)),
    one("a package came with a new release, and an added line calls it", INFRA, INFRA, "model",
        facts(change=ADDS, may_blame_host=False,
              last_pass=LastPass(run(300), ("click 8.1.8 → 8.2.0",)))),
    one("an added line met the time limit of a slow runner", INFRA, INFRA, "model",
        reason("job_execution_timeout", change=ADDS, may_blame_host=False)),
    one("an advisory came out, and no line of the change is named", INFRA, INFRA, "model",
        facts(may_blame_host=False)),
    one("passed in a pipeline of another kind, blamed on the change", CHANGE, CHANGE, "model",
        facts(change=ADDS, runs_of_other_sources=(run(JOB - 1, "success"),))),
    one("one of two jobs with an added line passed before", FLAKY, FLAKY, "model",
        facts(change=ADDS, rest=(facts(change=ADDS, attempts=(PASSED_BEFORE,)),))),
    one("one error is a flake, the other one in an added line", FLAKY, UNKNOWN, "nobody",
        (facts(), facts(run=run(JOB + 7), name="lint", change=ADDS))),
    # -------------------------------------------------------------------------- several errors
    one("one error flaky, one the change's", CHANGE, CHANGE, "model",
        (facts(attempts=(PASSED_LATER,)), facts(run=run(JOB + 7), name="lint", change=NAMED))),
    one("one error old, one flaky", CHANGE, TARGET, "code",
        (facts(attempts=(PASSED_LATER,)), facts(run=run(JOB + 7), name="lint", target=RED))),
    one("all errors are the runner's", CHANGE, INFRA, "code",
        (reason("runner_system_failure"), reason("api_failure"))),
)  # fmt: skip
