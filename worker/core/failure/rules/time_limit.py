"""A job that exceeded its time limit."""

from worker.core.failure.rules.base import Rule, compile_patterns
from worker.core.finding import Verdict

RULES = (
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
)
