"""Settings: one YAML file, secrets only from the environment, read once at start.

Every field has a default; a wrong field, type or value is a ConfigError that names the file, the
key and what was expected. README.md lists every field; it is made by `reference.py`.
"""

from worker.settings.gitlab import ACCESS_LEVELS, GitLabSettings
from worker.settings.loading import find_file, load
from worker.settings.models import ModelSettings, ProviderSettings
from worker.settings.tree import Settings

__all__ = [
    "ACCESS_LEVELS",
    "GitLabSettings",
    "ModelSettings",
    "ProviderSettings",
    "Settings",
    "find_file",
    "load",
]
