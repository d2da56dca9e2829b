"""Every provider, one row each. A new one is a row here, and a codec if its wire is new."""

import random
from collections.abc import Callable

import httpx

from worker.core.ports import Clock
from worker.errors import ConfigError
from worker.models import anthropic, auth, endpoints
from worker.models.base import Provider
from worker.models.client import MAX_ATTEMPTS, READ_TIMEOUT, HttpModel

PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        codec=anthropic.codec,
        endpoint=endpoints.anthropic,
        auth=auth.x_api_key,
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        url_env="ANTHROPIC_BASE_URL",
    ),
}


def build(
    spec: str,
    base_url: str,
    key: str,
    *,
    clock: Clock,
    transport: httpx.BaseTransport | None = None,
    timeout: float = READ_TIMEOUT,
    max_attempts: int = MAX_ATTEMPTS,
    jitter: Callable[[], float] = random.random,
) -> HttpModel:
    """The model of `spec`, "provider/model". `base_url` may be "" for the provider's own.

    Raises ConfigError for a spec, URL or key that cannot work.
    """
    who, _, model = spec.partition("/")
    if not (who and model and model.isprintable() and " " not in model):
        example = "anthropic/claude-sonnet-5-5"
        raise ConfigError(f"models.default: {spec!r}: expected provider/model, as {example}")
    if who not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ConfigError(f"models.default: {spec!r}: unknown provider {who!r}; known: {known}")
    provider = PROVIDERS[who]
    return HttpModel(
        spec,
        provider,
        base_url or provider.base_url,
        key,
        clock=clock,
        transport=transport,
        timeout=timeout,
        max_attempts=max_attempts,
        jitter=jitter,
    )
