"""GitLab's failure reasons (app/models/concerns/enums/ci/commit_status.rb), old and new. Pure.

GitLab 19 has split two of them, and writes the old names no more: `stuck_or_timeout_failure` into
WAITED and LOST, `job_execution_timeout` into the server's time limits.
"""

BY_ITSELF = frozenset({"", "script_failure", "unknown_failure"})
"""The job's own script may have failed; its log has to say why."""

TIME_LIMITS = frozenset(
    {"job_execution_timeout", "job_execution_server_timeout"}
    | {"server_timeout_running", "server_timeout_canceling"}
)
"""The job met its time limit."""

NO_RUNNER = frozenset({"no_matching_runner", "stuck_pending_no_matching_runners"})
"""No runner may take the job."""

WAITED = frozenset({"stuck_or_timeout_failure", "stuck_pending_with_matching_runners"})
"""No runner took the job in time, if it has not started."""

LOST = frozenset({"stuck_or_timeout_failure", "no_updates_running", "no_updates_canceling"})
"""A runner took the job, if it has started, and GitLab heard no more of it."""

WITHOUT_RUNNER = NO_RUNNER | WAITED | {"runner_unsupported"}
"""No image can cause these: no runner took the job, if it has never started."""

NEVER_THE_CHANGE = frozenset(
    {"api_failure", "ci_quota_exceeded", "data_integrity_failure"}
    | {"scheduler_failure", "stale_schedule"}
)
"""No commit can cause these."""

UNLESS_CONFIGURED = frozenset(
    {
        "image_pull_failure",
        "runner_external_dependency_failure",
        "runner_interrupted",
        "runner_system_failure",
        "unmet_prerequisites",
    }
    | WITHOUT_RUNNER
)
"""Failure reasons that a commit can cause only by changing the CI configuration: a tag that no
runner has, an image that does not exist. A time limit or a log limit is not among them: code can
exceed both."""

PREPARING = frozenset(
    {"runner_system_failure", "runner_external_dependency_failure", "runner_configuration_error"}
    | {"image_pull_failure", "script_failure", "unknown_failure", ""}
)
"""The failure reasons that GitLab gives if the runner could not prepare a job; older runners report
script_failure for an image, and runner_system_failure for what newer ones tell apart."""
