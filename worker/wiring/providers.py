"""Builds the models and the circuit breakers of their providers."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from worker.clock import SystemClock
from worker.conversation.model import Helper, Model
from worker.conversation.tiers import TierModel, TierRules
from worker.models.client import HttpModel, OnFailure, ignore_failure
from worker.models.table import build_model
from worker.models.text_tools import TextToolsModel
from worker.models.wrapper import (
    Breakers,
    FallbackModel,
    ForcedAnswersModel,
    GuardedModel,
    ModelHelper,
    ignore_change,
)
from worker.settings import ProviderSettings, Settings
from worker.telemetry.parts import Telemetry
from worker.wiring.model_lists import (
    build_catalogue,
    check_providers,
    find_price,
    get_row,
    list_run_models,
    make_reply_model,
    require_price,
)


def build_models(settings: Settings) -> list[HttpModel]:
    """Build the default model, the fallbacks and the tiers' models, each once, in this order.

    Raises ConfigError.
    """
    check_providers(settings)
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
    return build_model(
        name,
        provider.base_url,
        provider.key,
        clock=SystemClock(),
        row=get_row(settings, who),
        dialect=_list_dialect_fields(provider),
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
                require_price(self._settings, wanted.model)
                model = _build_model(
                    *(wanted.model, self._settings, self._on_failure), level=wanted.reasoning
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
    check_providers(settings)
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
    require_price(settings, helper.name)
    opened.callback(helper.close)
    guarded = Breakers(SystemClock()).guard(helper)
    model = watched.count_model(guarded) if watched else guarded
    return ModelHelper(model, SystemClock(), settings.models.helper_timeout)


def _list_dialect_fields(provider: ProviderSettings) -> dict[str, str]:
    """Return the fields of `Dialect` that the operator has set for the server."""
    fields = {
        "limit": provider.max_tokens_field,
        "reasoning": provider.send_reasoning,
        "call_id": provider.call_id,
    }
    return {name: value for name, value in fields.items() if value}
