"""The composition root: the only package that names concrete adapters."""

from worker.webhook.connections import bind_port, build_server
from worker.wiring.jobs import build_deps, build_dry_deps, list_tool_names, open_read_client
from worker.wiring.process import (
    READ,
    WRITE,
    build_telemetry,
    describe_door,
    introduce_gitlab,
    list_parts,
    load_settings,
    require_secret,
    require_worker,
    set_up_logging,
)
from worker.wiring.providers import (
    build_catalogue,
    build_helper,
    build_helper_model,
    build_models,
    compare_provider,
    explain_unpriced,
    list_chosen_models,
    list_chosen_providers,
    list_roles,
    open_model,
    require_prices,
)
from worker.wiring.receiver import build_receiver, open_journal
from worker.wiring.stores import (
    build_driver,
    find_other_addressing,
    leave_out_pool,
    open_session_store,
    remove_stale_sandboxes,
)

__all__ = [
    "READ",
    "WRITE",
    "bind_port",
    "build_catalogue",
    "build_deps",
    "build_driver",
    "build_dry_deps",
    "build_helper",
    "build_helper_model",
    "build_models",
    "build_receiver",
    "build_server",
    "build_telemetry",
    "compare_provider",
    "describe_door",
    "explain_unpriced",
    "find_other_addressing",
    "introduce_gitlab",
    "leave_out_pool",
    "list_chosen_models",
    "list_chosen_providers",
    "list_parts",
    "list_roles",
    "list_tool_names",
    "load_settings",
    "open_journal",
    "open_model",
    "open_read_client",
    "open_session_store",
    "remove_stale_sandboxes",
    "require_prices",
    "require_secret",
    "require_worker",
    "set_up_logging",
]
