"""Rules for which the reason that GitLab gives is enough."""

from dataclasses import replace

from worker.core.failure.rules.base import Rule, compile_patterns, may_change_configuration
from worker.core.finding import Verdict

_RETRY = "Retry the job. If it goes on, tell whoever keeps GitLab and its runners."


def _make_infrastructure_rule(name: str, cause: str, to_do: str, reason: str) -> Rule:
    return Rule(
        name=name,
        cause=f"{cause} (GitLab: {reason}).",
        to_do=to_do,
        reasons=frozenset({reason}),
        # The tags that select a runner are part of the configuration.
        doubtful=may_change_configuration,
    )


RULES = (
    Rule(
        name="ci-minutes",
        cause="The namespace has no compute minutes left, so GitLab ran no job.",
        to_do="Buy compute minutes, wait for the next month, or use your own runner.",
        reasons=frozenset({"ci_quota_exceeded"}),
    ),
    Rule(
        name="artifacts-gone",
        cause=(
            "The job needs the artifacts of an earlier job, and they are not there: expired, "
            "deleted, or never uploaded (GitLab: missing_dependency_failure)."
        ),
        to_do=(
            "Run a new pipeline, or retry the earlier job and then this one. If they expire too "
            "soon, raise `artifacts:expire_in`."
        ),
        reasons=frozenset({"missing_dependency_failure"}),
        doubtful=may_change_configuration,
    ),
    Rule(
        name="time-limit",
        # A change can make a job hang, and so can a slow runner.
        verdict=Verdict.UNKNOWN,
        cause=(
            "The job ran longer than its time limit and was ended (GitLab: job_execution_timeout)."
        ),
        to_do=(
            "Find what hangs or is slow: what the log says last, and how long the job took when it "
            "last passed. Raise the job's `timeout` only if the work has grown."
        ),
        reasons=frozenset({"job_execution_timeout"}),
        quoted_lines=compile_patterns(
            r"^ERROR: Job failed: execution took longer than",
            r"^ERROR: Job failed \(system failure\)",
        ),
    ),
    _make_infrastructure_rule(
        "no-runner",
        "No runner can take the job: none is online that has its tags and may run it",
        "Check the job's `tags` and that a runner with them is online, then retry.",
        "no_matching_runner",
    ),
    replace(
        _make_infrastructure_rule(
            "stuck",
            "No runner took the job in time",
            "Retry the job. If it happens again, see whether the runners are online and have room.",
            "stuck_or_timeout_failure",
        ),
        before_script_only=True,
    ),
    _make_infrastructure_rule(
        "runner-not-provided",
        "The machine that should run the job did not come up in time",
        _RETRY,
        "runner_provisioning_timeout",
    ),
    _make_infrastructure_rule(
        "scheduler", "GitLab could not hand the job to a runner", _RETRY, "scheduler_failure"
    ),
    _make_infrastructure_rule(
        "api", "GitLab's own interface failed while the job ran", _RETRY, "api_failure"
    ),
    _make_infrastructure_rule(
        "data-integrity",
        "GitLab found its record of the job damaged",
        "Run a new pipeline. If it goes on, tell whoever keeps GitLab.",
        "data_integrity_failure",
    ),
    _make_infrastructure_rule(
        "runner-too-old",
        "The runner is too old for what the job asks of it",
        "Tell whoever keeps the runners to update them, or tag the job for a newer one.",
        "runner_unsupported",
    ),
    Rule(
        name="runner-system-failure",
        cause="The runner itself failed, not the job's script (GitLab: runner_system_failure).",
        to_do="Retry the job. If it goes on, give the line above to whoever keeps the runners.",
        reasons=frozenset({"runner_system_failure"}),
        quoted_lines=compile_patterns(
            r"^ERROR: Job failed \(system failure\): \S",
            r"^ERROR: (?:Preparation failed|Failed to|Job failed)",
        ),
        # A variable, a service or an image in the configuration can make the runner fail.
        doubtful=may_change_configuration,
    ),
)
