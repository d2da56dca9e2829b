"""Which models are configured, what is known of models, and what providers serve."""

from dataclasses import dataclass

from worker.models.catalogue.model_info import Catalogue
from worker.models.catalogue.operator_entries import extend_catalogue
from worker.models.discovery import Comparison, compare_models
from worker.models.table import PROVIDERS, list_models
from worker.settings import Settings
from worker.wiring.clock import SystemClock

PATIENCE = 10.0
"""Seconds for one provider's whole list."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A configured model: its role, "provider/model", and its level, "" if none is stated."""

    role: str
    spec: str
    level: str = ""


def build_catalogue(settings: Settings) -> Catalogue:
    """Build the catalogue of models, including the operator's entries. Raises ConfigError."""
    entries = settings.models.catalogue.items()
    stated = {
        model: entry.model_dump(exclude_unset=True, exclude_none=True) for model, entry in entries
    }
    return extend_catalogue(stated)


def list_run_models(settings: Settings) -> list[ChosenModel]:
    """List the models of runs: the default, the fallbacks, and the tiers' models."""
    models = settings.models
    return [
        ChosenModel("default", models.default),
        *(ChosenModel("fallback", spec) for spec in models.fallback),
        *(
            ChosenModel(f"tier {name}", tier.model, tier.reasoning or "")
            for name, tier in models.tiers.items()
        ),
    ]


def list_chosen_models(settings: Settings) -> list[ChosenModel]:
    """List the models that the settings name, each with its role."""
    helper = settings.models.helper
    return [*list_run_models(settings), *([ChosenModel("helper", helper)] if helper else [])]


def list_roles(settings: Settings, spec: str, level: str) -> list[str]:
    """List the roles of the model `spec`; `level` is the reasoning level in its requests."""
    catalogue = build_catalogue(settings)
    return [
        each.role
        for each in list_chosen_models(settings)
        if each.spec == spec and catalogue.get_info(spec, each.level).effort == level
    ]


def list_chosen_providers(settings: Settings) -> list[str]:
    """List the configured models' providers that can list their models."""
    names = dict.fromkeys(each.spec.partition("/")[0] for each in list_chosen_models(settings))
    return [name for name in names if name in PROVIDERS and PROVIDERS[name].listing]


def compare_provider(settings: Settings, who: str) -> Comparison:
    """Ask the provider `who` what it serves, and compare that with the catalogue.

    Raises ModelError, and ConfigError, also for a provider that cannot list its models.
    """
    clock, provider = SystemClock(), settings.models.get_provider(who)
    deadline = clock.monotonic() + PATIENCE
    served = list_models(who, provider.base_url, provider.key, clock=clock, deadline=deadline)
    return compare_models(who, served.models, served.unusable_ids, build_catalogue(settings))
