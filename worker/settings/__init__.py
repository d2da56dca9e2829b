"""Settings: one YAML file, secrets only from the environment, read once at start.

Every field has a default; a wrong field, type or value is a ConfigError that names the file, the
key and what was expected. README.md lists every field; it is made by `reference.py`.
"""

from worker.settings.gitlab import ACCESS_LEVELS, GitLabSettings
from worker.settings.loading import DEFAULT_FILE, find_file, load
from worker.settings.models import (
    CatalogueSettings,
    ModelSettings,
    PriceSettings,
    ProviderSettings,
    TierSettings,
)
from worker.settings.notes import KnownSettings, NoteSettings
from worker.settings.pages import PageSettings
from worker.settings.runs import LimitSettings, RetentionSettings, WorkerSettings
from worker.settings.sandbox import SandboxSettings
from worker.settings.sources import (
    KonfluxSettings,
    SourceSettings,
    TenantSettings,
    TestingFarmSettings,
)
from worker.settings.telemetry import LogSettings, MetricsSettings, TraceSettings
from worker.settings.tree import Settings

__all__ = [
    "ACCESS_LEVELS",
    "DEFAULT_FILE",
    "CatalogueSettings",
    "GitLabSettings",
    "KnownSettings",
    "KonfluxSettings",
    "LimitSettings",
    "LogSettings",
    "MetricsSettings",
    "ModelSettings",
    "NoteSettings",
    "PageSettings",
    "PriceSettings",
    "ProviderSettings",
    "RetentionSettings",
    "SandboxSettings",
    "Settings",
    "SourceSettings",
    "TenantSettings",
    "TestingFarmSettings",
    "TierSettings",
    "TraceSettings",
    "WorkerSettings",
    "find_file",
    "load",
]
