"""The composition root: the only package that names concrete adapters."""

from worker.webhook.connections import bind_port, build_server
from worker.wiring.engines import build_driver, leave_out_pool, remove_stale_sandboxes
from worker.wiring.introduction import describe_door, introduce_gitlab, list_parts
from worker.wiring.jobs import build_deps, build_dry_deps, open_read_client
from worker.wiring.model_lists import (
    build_catalogue,
    compare_provider,
    explain_unpriced,
    list_chosen_models,
    list_chosen_providers,
    list_roles,
    require_prices,
)
from worker.wiring.process import (
    READ,
    WRITE,
    build_telemetry,
    load_settings,
    require_secret,
    require_worker,
    set_up_logging,
)
from worker.wiring.providers import (
    build_helper,
    build_helper_model,
    build_models,
    open_model,
)
from worker.wiring.receiver import build_receiver, open_journal
from worker.wiring.stores import find_other_addressing, open_session_store
from worker.wiring.toolsets import list_tool_names

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
