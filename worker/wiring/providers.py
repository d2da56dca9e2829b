"""Builds the models and the circuit breakers of their providers."""

from worker.core.ports import Helper
from worker.models.base import Dialect
from worker.models.catalogue.model_info import Catalogue
from worker.models.catalogue.operator_entries import extend_catalogue
from worker.models.helper import ModelHelper
from worker.models.http import breaker
from worker.models.http.client import HttpModel, OnFailure, ignore_failure
from worker.models.table import build_model
from worker.settings import ProviderSettings, Settings
from worker.telemetry.parts import Telemetry
from worker.wiring.clock import SystemClock


def build_models(settings: Settings, told: OnFailure = ignore_failure) -> list[HttpModel]:
    """Build the configured model and its fallbacks, in order. Raises ConfigError."""
    chosen = settings.models
    return [_build_model(name, settings, told) for name in (chosen.default, *chosen.fallback)]


def build_helper_model(settings: Settings, told: OnFailure = ignore_failure) -> HttpModel | None:
    """Build the helper's model; None if none is set. Raises ConfigError."""
    name = settings.models.helper
    return _build_model(name, settings, told) if name else None


def _build_model(name: str, settings: Settings, told: OnFailure, level: str = "") -> HttpModel:
    provider = settings.models.get_provider(name.partition("/")[0])
    return build_model(
        name,
        provider.base_url,
        provider.key,
        clock=SystemClock(),
        project=provider.project,
        location=provider.location,
        dialect=_make_dialect(provider),
        catalogue=build_catalogue(settings),
        level=level,
        on_failure=told,
    )


def build_guarded_models(
    settings: Settings, watched: Telemetry | None
) -> list[breaker.GuardedModel]:
    """Build the models with their providers' circuit breakers, wrapped by `watched` if given.

    Raises ConfigError.
    """
    asked = build_models(settings, watched.count_attempt if watched else ignore_failure)
    heard = watched.set_circuit if watched else breaker.ignore_change
    return breaker.guard_models(asked, SystemClock(), heard)


def build_helper(settings: Settings, watched: Telemetry | None) -> Helper | None:
    """Build the helper, behind a breaker of its own; None if none is set. Raises ConfigError."""
    made = build_helper_model(settings, watched.count_attempt if watched else ignore_failure)
    if made is None:
        return None
    (guarded,) = breaker.guard_models([made], SystemClock())
    model = watched.count_model(guarded) if watched else guarded
    return ModelHelper(model, SystemClock(), settings.models.helper_timeout)


def build_catalogue(settings: Settings) -> Catalogue:
    """Build the catalogue of models, including the operator's entries. Raises ConfigError."""
    entries = settings.models.catalogue.items()
    return extend_catalogue(
        {model: entry.model_dump(exclude_unset=True) for model, entry in entries}
    )


def _make_dialect(provider: ProviderSettings) -> Dialect | None:
    """Make the operator's settings of a compatible server; None for the endpoint's default."""
    said = {
        "limit": provider.max_tokens_field,
        "reasoning": provider.send_reasoning,
        "call_id": provider.call_id,
    }
    stated = {name: value for name, value in said.items() if value}
    return Dialect(**stated) if stated else None
