"""Rules for which the reason that GitLab gives is enough, unless the runner says more."""

import re
from dataclasses import replace

from worker.verdict.gitlab_reasons import (
    BY_ITSELF,
    LOST,
    NEVER_THE_CHANGE,
    NO_RUNNER,
    TIME_LIMITS,
    UNLESS_CONFIGURED,
    WAITED,
)
from worker.verdict.jobs import FailingJob, RuleMatch
from worker.verdict.rules.base import (
    Rule,
    Sight,
    compile_patterns,
    may_change_configuration,
    may_choose_runners,
)
from worker.verdict.rules.runner_log import list_runner_lines
from worker.verdict.verdict import Verdict

_RETRY = "Retry the job. If it goes on, tell whoever keeps GitLab and its runners."


def _make_infrastructure_rule(name: str, cause: str, to_do: str, *reasons: str) -> Rule:
    return Rule(
        name=name,
        cause=cause,
        to_do=to_do,
        reasons=frozenset(reasons),
        # The tags that select a runner are part of the configuration.
        doubtful=may_choose_runners,
    )


_LAST_WORDS = compile_patterns(
    r"^ERROR: Job failed \(system failure\): \S",
    r"^ERROR: (?:Preparation failed|Failed to|Job failed)",
)


_CONTAINER_END = compile_patterns(
    r"\bOOM|\bout of memory\b|\bmemory (?:limit|cgroup)|\blow on resource\b",
    r"\bephemeral[ -]storage\b|\bexit (?:code|status):? ?(?:137|143|139)\b",
    r"\bsignal: killed\b|\bevicted\b|\beviction\b",
    r"\bcontainer\b.{0,80}\b(?:not found|died|exited|terminated|was killed|is not running)\b",
    r"\bno such container\b|\bunexpectedly (?:ended|terminated|stopped)\b|\bDeadlineExceeded\b",
    r"\bTerminationByKubelet\b|\bpod\b.{0,200}\b(?:status is|phase:?) \"?failed",
)
"""How the runner says that the job's container or pod was ended, by what the job may have done."""

_NOT_THE_JOB = compile_patterns(
    r"\b(?:EvictionByEvictionAPI|PreemptionByScheduler|DeletionByTaintManager|DeletionByPodGC)\b"
)
"""Kubernetes' reasons why a pod had to go that are none of the pod's: its node was emptied or lost,
or more urgent pods needed the room."""

_PULL = compile_patterns(r"failed to pull|image pull failed|pull access denied|\bmanifest\b")


def _speaks_of_image(job: FailingJob) -> bool:
    """Whether the runner's last lines are about getting an image."""
    texts = (text for _, text in list_runner_lines(job))
    return any(pattern.search(text) for text in texts for pattern in _PULL)


def _may_be_the_job(sight: Sight) -> bool:
    """For `Rule.doubtful`: whether the job itself may have made the runner fail: by a variable, a
    service or an image that its configuration names."""
    return may_change_configuration(sight) or _speaks_of_image(sight.job)


RULES = (
    Rule(
        name="ci-minutes",
        cause="The namespace has no compute minutes left, so GitLab ran no job.",
        to_do="Buy compute minutes, wait for the next month, or use your own runner.",
        reasons=frozenset({"ci_quota_exceeded"}),
    ),
    Rule(
        name="artifacts-gone",
        # Why they are gone, and for how long they are to be kept, is for people to say.
        verdict=Verdict.UNKNOWN,
        cause="The job needs the artifacts of an earlier job, and these have expired or were "
        "deleted (GitLab: missing_dependency_failure). Run by itself, the job fails again.",
        to_do="Run the earlier job again, then this one, or a new pipeline. If they expire too "
        "soon, raise `artifacts:expire_in`.",
        reasons=frozenset({"missing_dependency_failure"}),
    ),
    Rule(
        name="time-limit",
        # A change can make a job wait for ever, and so can a slow runner or a slow network.
        verdict=Verdict.UNKNOWN,
        cause="The job met its time limit and was ended. That alone tells nothing of the cause.",
        to_do="See what it did last, by its log, and how long it took when it last passed.",
        reasons=TIME_LIMITS,
        quoted_lines=compile_patterns(
            r"^ERROR: Job failed: execution took longer than",
            r"^ERROR: Job failed \(system failure\)",
        ),
    ),
    _make_infrastructure_rule(
        "no-runner",
        "No runner can take the job: none is online that has its tags and may run it. {tags}",
        "See whether a runner with these tags is online, not paused, and enabled for the project; "
        "then run the job again.",
        *NO_RUNNER,
    ),
    replace(
        _make_infrastructure_rule(
            "stuck",
            "No runner took the job in time. {tags}",
            "See whether the runners that have these tags are online and have room, then run the "
            "job again.",
            *WAITED,
        ),
        has_started=False,
    ),
    Rule(
        name="runner-lost",
        # The runner's machine may have died of the job, as when its memory was used up.
        verdict=Verdict.UNKNOWN,
        cause="A runner took the job, and then GitLab heard no more of it. Its machine may have "
        "been stopped, or may have died of what the job did.",
        to_do="See what the log says last, and ask whoever keeps the runners what became of this "
        "one.",
        reasons=LOST,
        has_started=True,
    ),
    _make_infrastructure_rule(
        "runner-not-provided",
        "The machine that should run the job did not come up in time. {tags}",
        _RETRY,
        "runner_provisioning_timeout",
    ),
    _make_infrastructure_rule(
        "scheduler", "GitLab could not hand the job to a runner.", _RETRY, "scheduler_failure"
    ),
    _make_infrastructure_rule(
        "api", "GitLab's own interface failed while the job ran.", _RETRY, "api_failure"
    ),
    _make_infrastructure_rule(
        "data-integrity",
        "GitLab found its record of the job damaged.",
        "Run a new pipeline. If it goes on, tell whoever keeps GitLab.",
        "data_integrity_failure",
    ),
    _make_infrastructure_rule(
        "runner-too-old",
        "The runner{runner} is too old for what the job asks of it.",
        "Tell whoever keeps the runners to update them, or tag the job for a newer one. {tags}",
        "runner_unsupported",
    ),
    Rule(
        name="container-died",
        # The job may have used up the memory or the disk that it was given.
        verdict=Verdict.UNKNOWN,
        cause="The runner says that the job's container was ended from outside. The job may have "
        "used more memory or disk than it is given, or its machine was needed for others.",
        to_do="See what the job did last, and whether it needs more than when it last passed; ask "
        "whoever keeps the runner{runner} for its limits.",
        reasons=frozenset({"runner_system_failure", "runner_interrupted", "unknown_failure"}),
        lines=_CONTAINER_END,
        unless=_NOT_THE_JOB,
    ),
    Rule(
        name="runner-stopped",
        cause="The runner{runner} was stopped while the job ran (GitLab: runner_interrupted).",
        to_do="Retry the job. If it goes on, tell whoever keeps the runners.",
        reasons=frozenset({"runner_interrupted"}),
        quoted_lines=_LAST_WORDS,
    ),
    Rule(
        name="runner-refused",
        # Whose setting has to be altered, and whether the change needs it, no line tells.
        verdict=Verdict.UNKNOWN,
        cause="The runner{runner} asked for something on the job's behalf and was refused: a "
        "right, a token, a quota or a name may be wrong.{secret}",
        to_do="See what was refused, and which setting of the project, the job or the runner asks "
        "for it.",
        reasons=frozenset({"runner_system_failure", "runner_external_dependency_failure"}),
        lines=compile_patterns(
            r"^(?:ERROR|WARNING): .{0,800}(?:permission denied|unauthori[sz]ed|\bforbidden\b"
            r"|access ?denied|permissiondenied|\bcode:? 40[0-4]\b|exceeded quota|not allowed"
            r"|\bnot found\b|could not be found|not exist|\binvalid\b)"
        ),
    ),
    Rule(
        name="runner-settings",
        verdict=Verdict.UNKNOWN,
        cause="The runner{runner} cannot do what its own settings or the job's ask of it.",
        to_do="See what the runner says, and which setting it means: the job's, or the runner's.",
        reasons=frozenset({"runner_configuration_error"}),
        quoted_lines=_LAST_WORDS,
    ),
    Rule(
        name="runner-system-failure",
        cause="The job ended outside its script: the runner{runner} could not go on.{secret}",
        to_do="Give the line above to whoever keeps the runners. Retry only if it looks passing.",
        reasons=frozenset({"runner_system_failure", "runner_external_dependency_failure"}),
        quoted_lines=_LAST_WORDS,
        doubtful=_may_be_the_job,
    ),
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


def lead_by_other_reason(job: FailingJob) -> RuleMatch | None:
    """Return a lead for a failure reason that no rule looks at, one of newer versions of GitLab
    among them; None if it leaves everything to the log, or is proof by itself. It is never
    certain."""
    settled = job.reason in BY_ITSELF | NEVER_THE_CHANGE | UNLESS_CONFIGURED
    if job.external or settled or not _PLAIN.fullmatch(job.reason):
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
