"""Artifacts of an earlier job that are gone."""

from worker.core.failure.rules.base import Rule, may_change_configuration
from worker.core.finding import Verdict

RULES = (
    Rule(
        name="artifacts-gone",
        verdict=Verdict.INFRASTRUCTURE,
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
)
