"""What GitLab itself reports as its failure: no runner, a stuck job, an internal error."""

from dataclasses import replace

from worker.core.failure.rules.base import Rule, may_change_configuration
from worker.core.finding import Verdict

_RETRY = "Retry the job. If it goes on, tell whoever keeps GitLab and its runners."


def _own_word(name: str, cause: str, to_do: str, *reasons: str) -> Rule:
    return Rule(
        name=name,
        verdict=Verdict.INFRASTRUCTURE,
        cause=f"{cause} (GitLab: {', '.join(reasons)}).",
        to_do=to_do,
        reasons=frozenset(reasons),
        # The tags that select a runner are part of the configuration.
        doubtful=may_change_configuration,
    )


RULES = (
    _own_word(
        "no-runner",
        "No runner can take the job: none is online that has its tags and may run it",
        "Check the job's `tags` and that a runner with them is online, then retry.",
        "no_matching_runner",
    ),
    replace(
        _own_word(
            "stuck",
            "No runner took the job in time",
            "Retry the job. If it happens again, see whether the runners are online and have room.",
            "stuck_or_timeout_failure",
        ),
        before_script_only=True,
    ),
    _own_word(
        "runner-not-provided",
        "The machine that should run the job did not come up in time",
        _RETRY,
        "runner_provisioning_timeout",
    ),
    _own_word(
        "scheduler", "GitLab could not hand the job to a runner", _RETRY, "scheduler_failure"
    ),
    _own_word("api", "GitLab's own interface failed while the job ran", _RETRY, "api_failure"),
    _own_word(
        "data-integrity",
        "GitLab found its record of the job damaged",
        "Run a new pipeline. If it goes on, tell whoever keeps GitLab.",
        "data_integrity_failure",
    ),
    _own_word(
        "runner-too-old",
        "The runner is too old for what the job asks of it",
        "Tell whoever keeps the runners to update them, or tag the job for a newer one.",
        "runner_unsupported",
    ),
)
