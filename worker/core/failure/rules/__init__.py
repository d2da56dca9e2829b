"""Causes that are plain without a model: one small file for each kind, one table, in this order.

A rule that is wrong is worse than none: it must hold by GitLab's own word (`failure_reason`), by
what only the runner can have written, or by a script's last words with no other trouble in sight.
"""

from worker.core.failure.jobs import FailingJob, RuleMatch
from worker.core.failure.rules import (
    artifacts,
    disk,
    gitlab,
    images,
    network,
    quota,
    runner,
    time_limit,
)
from worker.core.failure.rules.base import Rule, Scene, apply_rule
from worker.core.failure.rules.configuration import explain_configuration_error

__all__ = ["RULES", "Scene", "explain_configuration_error", "recognise"]

RULES: tuple[Rule, ...] = (
    *quota.RULES,
    *disk.RULES,
    *network.RULES,
    *images.RULES,
    *artifacts.RULES,
    *time_limit.RULES,
    *gitlab.RULES,
    *runner.RULES,
)
"""The narrower rules first: the last one holds for whatever else a runner could not do."""


def recognise(job: FailingJob, scene: Scene) -> RuleMatch | None:
    """What the first rule that holds says of a failing job."""
    for rule in RULES:
        if ruled := apply_rule(rule, job, scene):
            return ruled
    return None
