import pytest

from worker.errors import ConfigError
from worker.settings import Settings
from worker.wiring.providers import build_models


def test_settings_of_an_unknown_provider_are_refused() -> None:
    models = {"default": "anthropic/claude-sonnet-5-5", "providers": {"anthropic": {"key": "k"}}}
    for model in build_models(Settings.model_validate({"models": models})):
        model.close()
    models["providers"] |= {"open-ai": {"key": "k"}}  # type: ignore[operator]
    with pytest.raises(ConfigError, match=r"models\.providers: unknown provider 'open-ai'; known"):
        build_models(Settings.model_validate({"models": models}))
