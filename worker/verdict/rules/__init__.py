"""Causes that are recognised without a model: by the rules of `table`, and what GitLab itself gives
as its reason for refusing, in words. Pure."""

import re

from worker.verdict.facts import BY_ITSELF, NEVER_THE_CHANGE, UNLESS_CONFIGURED
from worker.verdict.jobs import FailingJob, RuleMatch
from worker.verdict.rules.configuration import explain_configuration_error
from worker.verdict.rules.rule import Scene
from worker.verdict.rules.table import RULES
from worker.verdict.verdict import Verdict

__all__ = ["RULES", "Scene", "explain_configuration_error", "recognise"]


def recognise(job: FailingJob, scene: Scene) -> RuleMatch | None:
    """Return what the first rule that applies says of a failing job, None if none applies. A reason
    of GitLab's that no rule looks at, such as one of a newer version, is a lead, never certain."""
    if found := next(filter(None, (rule.apply(job, scene) for rule in RULES)), None):
        return found
    known = any(job.reason in rule.reasons for rule in RULES)
    # These leave everything to the log, or are proof by themselves.
    settled = job.reason in BY_ITSELF | NEVER_THE_CHANGE | UNLESS_CONFIGURED
    if known or settled or job.external or not _PLAIN.fullmatch(job.reason):
        return None
    cause = _DECIDED.get(job.reason, "GitLab gives a reason of its own for the failure.")
    return RuleMatch(
        rule="gitlab-reason",
        verdict=Verdict.UNKNOWN.value,
        cause=f"{cause} (GitLab: {job.reason})",
        to_do="See whether the change, a setting of the project or a right of whoever started the "
        "pipeline has brought it about.",
        certain=False,
    )


_DECIDED = {
    "archived_failure": "The job is archived: GitLab runs none so old.",
    "bridge_pipeline_is_child_pipeline": "The pipeline to be started is too deep below another.",
    "builds_disabled": "CI/CD is switched off for the project.",
    "deployment_rejected": "Somebody who had to approve the deployment has rejected it.",
    "downstream_bridge_project_not_found": "The project whose pipeline was to start is not there, "
    "or whoever started this one may not see it.",
    "downstream_pipeline_creation_failed": "GitLab could not make the pipeline that was to start: "
    "its configuration may be invalid, or its rules leave no job.",
    "downstream_project_trigger_resolved_to_empty": "The name of the project whose pipeline was to "
    "start is empty: a variable in it may not be set.",
    "duo_workflow_not_allowed": "The project does not allow GitLab Duo's workflows.",
    "environment_creation_failure": "GitLab could not make the environment that the job names.",
    "failed_outdated_deployment_job": "A newer deployment was made, and the project lets no older "
    "one follow it.",
    "forward_deployment_failure": "A newer deployment was made, and the project lets no older one "
    "follow it.",
    "id_token_burned_project_path": "The job asks for an ID token, and another project had this "
    "one's path before.",
    "insufficient_bridge_permissions": "Whoever started the pipeline may start none in the other "
    "project.",
    "insufficient_upstream_permissions": "Whoever started the pipeline may not read the other "
    "project.",
    "invalid_bridge_trigger": "What the job is to start is not valid.",
    "ip_restriction_failure": "The group allows no access from the runner's address.",
    "job_router_failure": "GitLab's job router could not hand the job to a runner.",
    "job_token_expired": "The job's token expired while it was needed.",
    "pipeline_loop_detected": "The pipelines start each other in a circle.",
    "project_deleted": "The project is being deleted.",
    "protected_environment_failure": "The environment is protected, and whoever started the job "
    "may not deploy there.",
    "reached_downstream_pipeline_trigger_rate_limit": "Too many pipelines were started by others "
    "in a short time.",
    "reached_max_descendant_pipelines_depth": "The pipelines start each other too deep.",
    "reached_max_pipeline_hierarchy_size": "The pipeline has started too many others.",
    "secrets_provider_not_found": "The job asks for a secret, and no provider of secrets is set.",
    "upstream_bridge_project_not_found": "The project whose pipeline the job waits for is not "
    "there, or whoever started this one may not see it.",
    "user_blocked": "The account that started the pipeline is blocked.",
}
"""What GitLab decided itself, without a runner. Whose doing that is, it does not say."""

_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,79}", re.ASCII)
