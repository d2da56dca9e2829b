"""Causes that are recognised without a model: those that need a line of the log, then those
for which GitLab's reason is enough.

A wrong rule is worse than no rule. A rule may rely only on GitLab's `failure_reason`, on what only
the runner can have written, or on a script's last lines if they show no other trouble.
"""

from worker.verdict.jobs import FailingJob, RuleMatch
from worker.verdict.rules import lines, reasons
from worker.verdict.rules.base import Rule, Scene, apply_rule
from worker.verdict.rules.configuration import explain_configuration_error

__all__ = ["RULES", "Scene", "explain_configuration_error", "recognise"]

RULES: tuple[Rule, ...] = (*lines.RULES, *reasons.RULES)
"""The narrower rules come first; the last one covers any other failure of the runner."""


def recognise(job: FailingJob, scene: Scene) -> RuleMatch | None:
    """Return what the first rule that applies says of a failing job, None if none applies. A reason
    of GitLab's that no rule knows is a lead."""
    found = next(filter(None, (apply_rule(rule, job, scene) for rule in RULES)), None)
    known = any(job.reason in rule.reasons for rule in RULES)
    return found or (None if known else reasons.lead_by_other_reason(job))
