"""What the simulated model APIs have in common: a server, and a log of its requests."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import Response

from worker.lab.loopback import Loopback

Json = dict[str, Any]


class ModelApi:
    """An API that runs during its `with` block, where `url` is its base URL.

    `requests` are the parsed bodies of all attempts, `raw` the same as bytes, `answers` the answers
    sent. `unexpected_requests` describes what the API refuses and what broke the cached prefix.
    """

    base = ""
    """The path at the end of the base URL."""

    def __init__(self, endpoint: Callable[[Request], Awaitable[Response]]) -> None:
        self.url = ""
        self.requests: list[Json] = []
        self.raw: list[bytes] = []
        self.answers: list[Json] = []
        self.unexpected_requests: list[str] = []
        self._frames: dict[str, Mapping[str, str | bytes]] = {}
        self._server = Loopback(type(self).__name__, endpoint)

    def __enter__(self) -> Self:
        self.url = self._server.start() + self.base
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop()

    async def spoil(self) -> Response | None:
        """Return what is sent to a valid request instead of the script's answer; here, None."""
        return None

    def _watch_frame(self, conversation: str, frame: Mapping[str, str | bytes]) -> None:
        """Record changes of tools or instructions: in a session they break the cached prefix."""
        before = self._frames.get(conversation, frame)
        changed = [name for name in frame if frame[name] != before.get(name)]
        self.unexpected_requests += [f"{name} changed within the conversation" for name in changed]
        self._frames[conversation] = frame
