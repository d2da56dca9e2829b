"""Every check, one row each, in the order in which their lines are shown."""

from worker.doctor import (
    configuration,
    door,
    models,
    projects,
    queue,
    sandboxes,
    stores,
    tokens,
    webhooks,
)
from worker.doctor.base import Check

CONFIGURATION = "Configuration"

CHECKS: tuple[Check, ...] = (
    Check("settings", CONFIGURATION, configuration.settings),
    Check("workflows", CONFIGURATION, configuration.workflows),
    Check("versions", CONFIGURATION, configuration.versions),
    Check("gitlab", "GitLab", tokens.reachable),
    Check("clock", "GitLab", tokens.clock),
    Check("read-token", "GitLab", tokens.read_token),
    Check("write-token", "GitLab", tokens.write_token),
    Check("projects", "GitLab", projects.visible),
    Check("role", "GitLab", projects.role),
    Check("notes", "GitLab", projects.notes),
    Check("webhook", "Webhook", webhooks.webhooks),
    Check("receiver", "Webhook", door.door),
    Check("broker", "Queue", queue.broker),
    Check("workers", "Queue", queue.workers),
    Check("store", "Store", stores.store),
    Check("disk", "Store", stores.space),
    Check("store-clock", "Store", stores.clock),
    Check("engine", "Sandbox", sandboxes.engine),
    Check("sandbox", "Sandbox", sandboxes.hardening),
    Check("model", "Model", models.models),
)
