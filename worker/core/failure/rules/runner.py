"""Any other failure of the runner itself."""

from worker.core.failure.rules.base import Rule, compile_patterns, may_change_configuration
from worker.core.finding import Verdict

RULES = (
    Rule(
        name="runner-system-failure",
        verdict=Verdict.INFRASTRUCTURE,
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
