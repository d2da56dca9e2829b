"""Builds the models and their providers' circuit breakers; says what is known of each model."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial

from worker.clock import SystemClock
from worker.conversation.model import Helper, Model
from worker.conversation.tiers import ReplyModel, TierModel, TierRules
from worker.errors import ConfigError
from worker.models.base import OperatorRow, Provider
from worker.models.built_in_models import BUILT_IN
from worker.models.catalogue import Catalogue, choose_rate, make_flat_rate
from worker.models.client import HttpModel, OnFailure, ignore_failure
from worker.models.discovery import Comparison, compare_models
from worker.models.table import PROVIDERS, build_model, list_models, make_provider
from worker.models.text_tools import TextToolsModel
from worker.models.wrapper import (
    Breakers,
    FallbackModel,
    ForcedAnswersModel,
    GuardedModel,
    ModelHelper,
    ignore_change,
)
from worker.settings import Settings
from worker.telemetry.parts import Telemetry


def build_models(settings: Settings) -> list[HttpModel]:
    """Build the default model, the fallbacks and the tiers' models, each once, in this order.

    Raises ConfigError.
    """
    _check_providers(settings)
    _check_levels(settings)
    wanted = dict.fromkeys((each.spec, each.level) for each in list_run_models(settings))
    return [_build_model(spec, settings, ignore_failure, level) for spec, level in wanted]


def build_helper_model(
    settings: Settings, on_failure: OnFailure = ignore_failure
) -> HttpModel | None:
    """Build the helper's model; None if none is set. Raises ConfigError."""
    name = settings.models.helper
    return _build_model(name, settings, on_failure) if name else None


def _build_model(
    name: str, settings: Settings, on_failure: OnFailure, level: str = ""
) -> HttpModel:
    who = name.partition("/")[0]
    provider = settings.models.get_provider(who)
    dialect = {
        "limit": provider.max_tokens_field,
        "reasoning": provider.send_reasoning,
        "call_id": provider.call_id,
    }
    return build_model(
        name,
        provider.base_url,
        provider.key,
        clock=SystemClock(),
        row=_get_row(settings, who),
        dialect={name: value for name, value in dialect.items() if value},
        catalogue=build_catalogue(settings),
        level=level,
        on_failure=on_failure,
        answer_tokens=settings.limits.answer_tokens,
    )


class ModelChains:
    """The models of one process, each built once and behind its provider's circuit breaker.

    `watched`, if given, counts failed attempts and shows circuits. `opened` closes the models. Safe
    to share between threads.
    """

    def __init__(self, settings: Settings, watched: Telemetry | None, opened: ExitStack) -> None:
        self._settings, self._opened = settings, opened
        self._on_failure = watched.count_attempt if watched else ignore_failure
        on_change = watched.set_circuit if watched else ignore_change
        self._breakers = Breakers(SystemClock(), on_change)
        self._built: dict[TierModel, GuardedModel] = {}
        self._lock = threading.Lock()

    def make_chain(self, wanted: TierModel) -> FallbackModel:
        """Return a model for one run, with the operator's fallbacks behind it. Raises ConfigError.

        If no level is set, the model's own applies.
        """
        others = (name for name in self._settings.models.fallback if name != wanted.model)
        models = (self._get_model(wanted), *(self._get_model(TierModel(each)) for each in others))
        return FallbackModel(models, SystemClock())

    def make_alone(self, wanted: TierModel) -> FallbackModel:
        """Return a model for one run without fallbacks. Raises ConfigError."""
        return FallbackModel([self._get_model(wanted)], SystemClock())

    def _get_model(self, wanted: TierModel) -> GuardedModel:
        with self._lock:
            if wanted not in self._built:
                _require_price(self._settings, wanted.model)
                model = _build_model(
                    wanted.model, self._settings, self._on_failure, wanted.reasoning
                )
                self._opened.callback(model.close)
                self._built[wanted] = self._breakers.guard(_fit_to_server(model, self._settings))
            return self._built[wanted]


def _fit_to_server(model: HttpModel, settings: Settings) -> Model:
    """Return the model, with tool calls read that it writes as text; on one of any servers that
    makes the model call a tool, with forced answers too."""
    info = build_catalogue(settings).get_info(model.name)
    fitted = TextToolsModel(model, always=model.is_any_server and info.has_text_tools)
    forced = model.is_any_server and info.obeys_required and not info.has_text_tools
    return ForcedAnswersModel(fitted) if forced else fitted


@contextmanager
def open_model(model: HttpModel, settings: Settings) -> Iterator[Model]:
    """Yield the model as runs use it, with calls as text where its server needs that; then close
    it."""
    with closing(model):
        yield _fit_to_server(model, settings)


def build_chains(settings: Settings, watched: Telemetry | None, opened: ExitStack) -> ModelChains:
    """Build every configured model, including those of tiers and replies. Raises ConfigError."""
    _check_providers(settings)
    _check_levels(settings)
    chains, rules = ModelChains(settings, watched, opened), make_tier_rules(settings)
    for each in (rules.default, *rules.models.values()):
        chains.make_chain(each)
    if rules.reply:
        chains.make_alone(rules.reply.served_by)
    return chains


def _check_levels(settings: Settings) -> None:
    """Raise ConfigError for a tier, or a model of replies, that does not have its level."""
    catalogue = build_catalogue(settings)
    if reply := make_reply_model(settings):
        catalogue.check_level(reply.model, reply.reasoning, "models.reply.reasoning")
    for name, tier in settings.models.tiers.items():
        where = f"models.tiers.{name}.reasoning"
        catalogue.check_level(tier.model, tier.reasoning or "", where)


def make_tier_rules(settings: Settings) -> TierRules:
    """Make the rules of the configured tiers."""
    models = settings.models
    return TierRules(
        models={
            name: TierModel(tier.model, tier.reasoning or "") for name, tier in models.tiers.items()
        },
        default=TierModel(models.default),
        tier=models.tier,
        upgrade=frozenset(models.upgrade),
        find_price=partial(find_price, build_catalogue(settings)),
        reply=make_reply_model(settings),
    )


def build_helper(settings: Settings, watched: Telemetry | None, opened: ExitStack) -> Helper | None:
    """Build the helper, behind a breaker of its own; None if none is set. Raises ConfigError."""
    helper = build_helper_model(settings, watched.count_attempt if watched else ignore_failure)
    if helper is None:
        return None
    _require_price(settings, helper.name)
    opened.callback(helper.close)
    guarded = Breakers(SystemClock()).guard(helper)
    model = watched.count_model(guarded) if watched else guarded
    return ModelHelper(model, SystemClock(), settings.models.helper_timeout)


PATIENCE = 10.0
"""Seconds for one provider's whole list."""


@dataclass(frozen=True, slots=True)
class _ChosenModel:
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


def _get_row(settings: Settings, who: str) -> OperatorRow:
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
    return make_provider(who, _get_row(settings, who))


def _check_providers(settings: Settings) -> None:
    """Raise ConfigError for a row of `models.providers` that cannot work."""
    for name in settings.models.providers:
        make_provider(name, _get_row(settings, name))


def name_for_traces(settings: Settings) -> dict[str, str]:
    """Return OpenTelemetry's names of providers, where they differ from ours. Raises ConfigError.

    The receiver asks this too, which need not have the variables of headers.
    """
    names = (*PROVIDERS, *settings.models.providers)
    made = {
        name: make_provider(name, replace(_get_row(settings, name), headers={})) for name in names
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
        _require_price(settings, spec, *more_caps)


def _require_price(settings: Settings, spec: str, *more_caps: str) -> None:
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


def list_run_models(settings: Settings) -> list[_ChosenModel]:
    """List the models of runs: the default, the fallbacks, the tiers', and that of replies."""
    models, reply = settings.models, make_reply_model(settings)
    return [
        _ChosenModel("default", models.default),
        *(_ChosenModel("fallback", spec) for spec in models.fallback),
        *(
            _ChosenModel(f"tier {name}", tier.model, tier.reasoning or "")
            for name, tier in models.tiers.items()
        ),
        *([_ChosenModel("reply", reply.model, reply.reasoning)] if reply else []),
    ]


def list_chosen_models(settings: Settings) -> list[_ChosenModel]:
    """List the models that the settings name, each with its role."""
    helper = settings.models.helper
    return [*list_run_models(settings), *([_ChosenModel("helper", helper)] if helper else [])]


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
    row = _get_row(settings, who)
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
