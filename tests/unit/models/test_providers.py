import pytest

from worker.errors import ConfigError
from worker.models.built_in_models import BUILT_IN
from worker.settings import Settings
from worker.wiring.providers import build_catalogue, build_models


def test_settings_of_an_unknown_provider_are_refused() -> None:
    models = {"default": "anthropic/claude-sonnet-5-5", "providers": {"anthropic": {"key": "k"}}}
    for model in build_models(Settings.model_validate({"models": models})):
        model.close()
    models["providers"] |= {"open-ai": {"key": "k"}}  # type: ignore[operator]
    with pytest.raises(ConfigError, match=r"models\.providers: unknown provider 'open-ai'; known"):
        build_models(Settings.model_validate({"models": models}))


def test_a_field_of_the_catalogue_without_a_value_is_one_that_is_not_stated() -> None:
    entry = {"window": None, "tiers": None, "min_cached": 1, "effort": "low"}
    models = {"catalogue": {"claude-sonnet-5-5": entry}}
    catalogue = build_catalogue(Settings.model_validate({"models": models}))
    assert catalogue.get_info("claude-sonnet-5-5") == BUILT_IN.get_info("claude-sonnet-5-5", "low")
