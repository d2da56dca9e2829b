"""Which models are configured, what is known of models, and what providers serve."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from worker.clock import SystemClock
from worker.conversation.tiers import ReplyModel
from worker.errors import ConfigError
from worker.models.base import OperatorRow, Provider
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import Catalogue, choose_rate, make_flat_rate
from worker.models.discovery import Comparison, compare_models
from worker.models.table import PROVIDERS, list_models, make_provider
from worker.settings import Settings

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
    known, assumed = BUILT_IN.extend(stated), settings.limits.assumed_price
    return replace(known, assumed_rate=make_flat_rate(assumed)) if assumed else known


def get_row(settings: Settings, who: str) -> OperatorRow:
    """Return what the settings say of the provider `who`."""
    stated = settings.models.get_provider(who)
    return OperatorRow(
        api=stated.api,
        auth=stated.auth,
        key_env=stated.key_env,
        headers=stated.headers,
        project=stated.project,
        location=stated.location,
        region=stated.region,
        api_version=stated.api_version,
    )


def get_provider(settings: Settings, spec: str) -> Provider:
    """Return the provider of the model `spec`, as table and settings say. Raises ConfigError."""
    who = spec.partition("/")[0]
    return make_provider(who, get_row(settings, who))


def check_providers(settings: Settings) -> None:
    """Raise ConfigError for a row of `models.providers` that cannot work."""
    for name in settings.models.providers:
        make_provider(name, get_row(settings, name))


def name_for_traces(settings: Settings) -> dict[str, str]:
    """Return OpenTelemetry's names of providers, where they differ from ours. Raises ConfigError.

    The receiver asks this too, which need not have the variables of headers.
    """
    names = (*PROVIDERS, *settings.models.providers)
    made = {
        name: make_provider(name, replace(get_row(settings, name), headers={})) for name in names
    }
    return {name: each.traced_as for name, each in made.items() if each.traced_as}


def find_price(known: Catalogue, spec: str) -> float | None:
    """Return a model's price in dollars for a million tokens read and as many written, None if it
    is not known for sure."""
    entry = known.resolve_name(spec)
    rate = choose_rate(entry.info.rates, 1, _get_day())
    is_sure = entry.name and not (entry.is_assumed or entry.info.has_assumed_price)
    return rate.input + rate.output if rate and is_sure else None


def _get_day() -> date:
    return datetime.fromtimestamp(SystemClock().now(), UTC).date()


def explain_unpriced(settings: Settings, spec: str, *more_caps: str) -> str:
    """Return why a model may not be asked: no price of it is known, so a cap on dollars, which is
    set, cannot hold; "" if it may. `more_caps` names further caps. Raises ConfigError."""
    caps, known = [*settings.limits.list_dollar_caps(), *more_caps], build_catalogue(settings)
    if not caps or known.assumed_rate or known.has_price(spec, _get_day()):
        return ""
    return f"the price of {spec} is unknown, so {' and '.join(caps)} cannot hold"


def require_prices(settings: Settings, *more_caps: str) -> None:
    """Raise ConfigError, which says what to do, for a configured model without a price if a cap on
    dollars is set; `more_caps` names further ones."""
    for spec in dict.fromkeys(each.spec for each in list_chosen_models(settings)):
        require_price(settings, spec, *more_caps)


def require_price(settings: Settings, spec: str, *more_caps: str) -> None:
    """See `require_prices`, for one model."""
    if reason := explain_unpriced(settings, spec, *more_caps):
        raise ConfigError(
            f"{reason}: state input and output under models.catalogue.{spec.partition('/')[2]} "
            "(0 if it is free), or set limits.assumed_price"
        )


def make_reply_model(settings: Settings) -> ReplyModel | None:
    """Make the model that answers replies without tools, None if the session's own does."""
    reply, tiers = settings.models.reply, settings.models.tiers
    if not reply.model:
        return None
    tier = reply.model if reply.model in tiers else ""
    served = tiers[tier] if tier else reply
    level = reply.reasoning or served.reasoning or ""
    return ReplyModel(served.model, level, tier, reply.max_output, reply.timeout)


def list_run_models(settings: Settings) -> list[ChosenModel]:
    """List the models of runs: the default, the fallbacks, the tiers', and that of replies."""
    models, reply = settings.models, make_reply_model(settings)
    return [
        ChosenModel("default", models.default),
        *(ChosenModel("fallback", spec) for spec in models.fallback),
        *(
            ChosenModel(f"tier {name}", tier.model, tier.reasoning or "")
            for name, tier in models.tiers.items()
        ),
        *([ChosenModel("reply", reply.model, reply.reasoning)] if reply else []),
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
    """List the configured models' providers that can list their models. Raises ConfigError."""
    names = dict.fromkeys(each.spec.partition("/")[0] for each in list_chosen_models(settings))
    return [name for name in names if get_provider(settings, name).listing]


def compare_provider(settings: Settings, who: str) -> Comparison:
    """Ask the provider `who` what it serves, and compare that with the catalogue.

    Raises ModelError, and ConfigError, also for a provider that cannot list its models.
    """
    clock, provider = SystemClock(), settings.models.get_provider(who)
    deadline = clock.monotonic() + PATIENCE
    row = get_row(settings, who)
    served = list_models(
        who, provider.base_url, provider.key, clock=clock, deadline=deadline, row=row
    )
    return compare_models(
        who,
        served.models,
        served.unusable_ids,
        build_catalogue(settings),
        has_plain_names=make_provider(who, row).has_plain_names,
    )
