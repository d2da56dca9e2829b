"""The codecs under test. A new one is one row, and its golden bodies."""

from collections.abc import Callable

from worker.models import anthropic, endpoints
from worker.models.base import Codec, Target

Factory = Callable[[], tuple[Codec, str]]


def _anthropic() -> tuple[Codec, str]:
    origin = "anthropic/claude-sonnet-5-5"
    endpoint = endpoints.anthropic("https://api.anthropic.com", "claude-sonnet-5-5")
    return anthropic.codec(Target(origin, 21_000, endpoint.head)), origin


CODECS: dict[str, Factory] = {"anthropic": _anthropic}
