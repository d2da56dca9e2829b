"""The pages as configured by the operator: links for notes, the first page, and all routes."""

import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from worker.jobs.verdict_days import DayReport
from worker.pages.http import Pages
from worker.pages.openid import OpenIdClient
from worker.pages.render import make_page
from worker.pages.sign import Signer
from worker.pages.sign_in import SignIn
from worker.sessions.store import SessionStore
from worker.settings.limits import LimitSettings

_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Makes the links and the routes.

    `url` is the pages' address for browsers; "": there are no pages, and no links to them. Links
    are valid for `days`. They are signed with a key from `secret`, or if that is "", from the
    store's. `now` is in epoch seconds.
    """

    url: str
    days: float
    secret: str
    operator_token: str
    now: Callable[[], float]

    @property
    def link_places(self) -> frozenset[str]:
        """The places that notes may link to besides the merge request's project."""
        parts = urlsplit(self.url)
        place = f"{parts.netloc}{parts.path.rstrip('/')}/sessions"
        return frozenset({place}) if self.url else frozenset()

    def make_linker(self, store_key: str) -> Callable[[str], str]:
        """Make a function that returns a session's URL; `store_key` is the store's own key."""
        base, signer = self.url.rstrip("/"), Signer(self.secret or store_key)
        if not base:
            return lambda session_id: ""

        def link(session_id: str) -> str:
            until = int(self.now() + self.days * _DAY)
            return f"{base}/sessions/{session_id}?sig={signer.sign(session_id, until)}"

        return link

    def make_routes(
        self,
        open_store: Callable[[], SessionStore],
        limits: LimitSettings,
        read_days: Callable[[SessionStore, float, int, str], Sequence[DayReport]],
        list_parked: Callable[[SessionStore], Iterable[str]],
        client: OpenIdClient | None = None,
    ) -> list[Route]:
        """Make the routes; without `url` the first page's alone. The store is opened at the first
        request.

        `read_days` and `list_parked` are those of `Pages`; operators sign in by `client`.
        """
        has_token = bool(self.operator_token)
        home = make_home_route(self.url, can_sign_in=client is not None, has_token=has_token)
        if not self.url:
            return [home]
        store = _LazyStore(open_store)

        @cache
        def load_signer() -> Signer:
            return Signer(self.secret or store().read_installation_key())

        parts = (store, load_signer, self.operator_token, limits, self.now)
        sign_in = None
        if client:
            sign_in = SignIn(self.url, client, lambda: store().read_installation_key(), self.now)
        return [home, *Pages(*parts, read_days, list_parked, sign_in).make_routes()]


class _LazyStore:
    """Opens the store at the first use; tries again after an error."""

    def __init__(self, open_store: Callable[[], SessionStore]) -> None:
        self._open, self._lock = open_store, threading.Lock()
        self._store: SessionStore | None = None

    def __call__(self) -> SessionStore:
        with self._lock:
            self._store = self._store or self._open()
        return self._store


DOCUMENTATION = "https://gitlab.com/sandpiper-ci/sandpiper/-/blob/main/README.md"


def make_home_route(url: str, *, can_sign_in: bool, has_token: bool) -> Route:
    """Make the route of the first page. `url` is the pages' address, "" if there are none;
    operators can sign in by GitLab, or have a token, or neither."""
    base = url.rstrip("/")

    async def answer(request: Request) -> Response:
        """Answer with the page, or whoever wants JSON alone with that."""
        accepted = request.headers.get("accept", "")
        if "application/json" in accepted and "text/html" not in accepted:
            return JSONResponse(
                {"name": "Sandpiper", "status": "ok", "documentation": DOCUMENTATION}
            )
        return make_page(
            "home",
            has_pages=bool(base),
            sign_in=f"{base}/sign-in" if base and can_sign_in else "",
            sessions=f"{base}/sessions?password" if base and has_token else "",
            documentation=DOCUMENTATION,
        )

    handler: Callable[[Request], Awaitable[Response]] = answer
    return Route("/", handler, methods=["GET"])
