"""The table of all checks, in the order in which their lines are shown."""

from worker.doctor import configuration, door, models, sandboxes, stores, tokens, webhooks
from worker.doctor.base import Check

CONFIGURATION = "Configuration"

CHECKS: tuple[Check, ...] = (
    Check("settings", CONFIGURATION, configuration.check_settings),
    Check("workflows", CONFIGURATION, configuration.check_workflows),
    Check("idle", CONFIGURATION, configuration.check_idle_settings),
    Check("versions", CONFIGURATION, configuration.list_versions),
    Check("packages", CONFIGURATION, configuration.check_packages),
    Check("gitlab", "GitLab", tokens.check_gitlab),
    Check("clock", "GitLab", tokens.check_gitlab_clock),
    Check("read-token", "GitLab", tokens.check_read_token),
    Check("write-token", "GitLab", tokens.check_write_token),
    Check("projects", "GitLab", tokens.check_projects),
    Check("role", "GitLab", tokens.check_role),
    Check("read-role", "GitLab", tokens.check_read_role),
    Check("notes", "GitLab", tokens.check_internal_notes),
    Check("sign-in", "GitLab", door.check_sign_in),
    Check("webhook", "Webhook", webhooks.check_webhooks),
    Check("receiver", "Webhook", door.check_receiver),
    Check("broker", "Queue", stores.check_broker),
    Check("workers", "Queue", stores.check_workers),
    Check("store", "Store", stores.check_store),
    Check("disk", "Store", stores.check_space),
    Check("store-clock", "Store", stores.check_store_clock),
    Check("engine", "Sandbox", sandboxes.check_engine),
    Check("sandbox", "Sandbox", sandboxes.check_hardening),
    Check("model", "Model", models.check_models),
)
