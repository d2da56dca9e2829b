"""Which models are configured, and what their providers serve."""

from dataclasses import dataclass

from worker.models.discovery import Comparison, compare_models
from worker.models.table import PROVIDERS, list_models
from worker.settings import Settings
from worker.wiring.clock import SystemClock
from worker.wiring.providers import build_catalogue

PATIENCE = 10.0
"""Seconds for one provider's whole list."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """A configured model: its role, "provider/model", and its level, "" if none is stated."""

    role: str
    spec: str
    level: str = ""


def list_chosen_models(settings: Settings) -> list[ChosenModel]:
    """List the models that the settings name, each with its role."""
    chosen = settings.models
    models = [ChosenModel("default", chosen.default)]
    models += [ChosenModel("fallback", spec) for spec in chosen.fallback]
    models += [
        ChosenModel(f"tier {name}", tier.model, tier.reasoning or "")
        for name, tier in chosen.tiers.items()
    ]
    models += [ChosenModel("helper", chosen.helper)] if chosen.helper else []
    return models


def list_roles(settings: Settings, spec: str, level: str) -> list[str]:
    """List the roles of the model `spec`; `level` is the reasoning level in its requests."""
    known = build_catalogue(settings)
    return [
        each.role
        for each in list_chosen_models(settings)
        if each.spec == spec and known.get_info(spec, each.level).effort == level
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
