"""The routes of the pages. They read the store in threads, a few at a time.

Callers without access cannot learn what exists: a wrong or expired signature gets the same answer
as a missing session, without what is stored of any session being read.
"""

import base64
import binascii
import hmac
import logging
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from worker.errors import SandpiperError, StoreError
from worker.jobs.verdict_days import DayReport
from worker.pages import ledger, operators, render, stored, view
from worker.pages.openid import OpenIdClient
from worker.pages.render import make_home_route, make_message_page, make_page
from worker.pages.sign_in import Signer, SignIn
from worker.sessions.incidents import IncidentStore
from worker.sessions.ledger import LedgerStore
from worker.sessions.store import SessionStore
from worker.settings.limits import LimitSettings

MAX_AT_ONCE = 2
"""The most pages built at the same time, so that the webhook receiver stays fast."""

SECONDS = 30.0
"""Seconds to wait for a page."""

_LINK_SECONDS = 24 * 3600
"""Seconds for which the links in the operators' list are valid."""

_ID = re.compile(r"[0-9a-f]{20}", re.ASCII)
_TURN = re.compile(r"\d{1,4}", re.ASCII)
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_QUERY = 2000

T = TypeVar("T")

_log = logging.getLogger("sandpiper.pages")
_make_limiter = partial(anyio.CapacityLimiter, MAX_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages need.

    `open_store` returns the store, `load_signer` the signer of links, always the same,
    `read_days(store, now, days, project)` what `sandpiper report` shows, and `list_parked` a line
    for each trigger that was given up; they may block and raise StoreError.
    Without `operator_token` and `sign_in` there are no operators' pages.
    """

    open_store: Callable[[], SessionStore]
    load_signer: Callable[[], Signer]
    operator_token: str
    limits: LimitSettings
    now: Callable[[], float]
    read_days: Callable[[SessionStore, float, int, str], Sequence[DayReport]]
    list_parked: Callable[[SessionStore], Iterable[str]] = lambda store: ()
    sign_in: SignIn | None = None
    page_threads: anyio.CapacityLimiter = field(default_factory=_make_limiter)
    # Archives are large and untrusted, so they have a limit of their own: pages need not wait.
    archive_threads: anyio.CapacityLimiter = field(default_factory=_make_limiter)
    # The signer once it is loaded, so that links are looked at without a thread.
    _signers: list[Signer] = field(default_factory=list)

    def make_routes(self) -> list[Route]:
        """Make the routes, to be mounted at the root."""
        return [
            Route("/sessions", self.answer_overview, methods=["GET"]),
            Route("/sessions/report", self.answer_report, methods=["GET"]),
            Route("/incidents", self.answer_incidents, methods=["GET"]),
            Route("/tests", self.answer_tests, methods=["GET"]),
            Route("/sessions/{id}", self.answer_session, methods=["GET"]),
            Route("/sessions/{id}/files", self.answer_file, methods=["GET"]),
            *(self.sign_in.make_routes() if self.sign_in else ()),
        ]

    async def answer_session(self, request: Request) -> Response:
        """Answer with one session's page, for requests with a valid signature."""
        signature = _get_query(request, "sig")
        is_operator = await self._refuse_stranger(request) is None
        return await self._answer_allowed(
            request,
            lambda name: self._make_session_page(name, signature, is_operator),
            self.page_threads,
        )

    async def answer_file(self, request: Request) -> Response:
        """Answer with one file of a turn's sandbox, as a download."""
        turn = _get_query(request, "turn")
        member = stored.parse_member_name(_get_query(request, "path"))
        if member is None or not _TURN.fullmatch(turn):
            return _make_not_found()
        return await self._answer_allowed(
            request,
            lambda name: self._make_file_answer(name, int(turn), member),
            self.archive_threads,
        )

    async def answer_overview(self, request: Request) -> Response:
        """Answer with the list of turns, for operators."""
        if (refusal := await self._refuse_stranger(request)) is not None:
            return refusal
        query = operators.parse_query(partial(_get_query, request))
        if query is None:
            return _make_not_found()
        return await self._run_in_thread(lambda: self._make_overview_page(query, request))

    async def answer_report(self, request: Request) -> Response:
        """Answer with the report on how often verdicts were right, for operators."""
        if (refusal := await self._refuse_stranger(request)) is not None:
            return refusal
        days, project = _get_query(request, "days") or "30", _get_query(request, "project").strip()
        if days not in map(str, operators.PERIODS):
            return _make_not_found()
        return await self._run_in_thread(
            lambda: self._make_report_page(int(days), project[:200], request)
        )

    async def answer_incidents(self, request: Request) -> Response:
        """Answer with the list of incidents, for operators."""
        if (refusal := await self._refuse_stranger(request)) is not None:
            return refusal
        project = _get_query(request, "project").strip()[:200]
        return await self._run_in_thread(lambda: self._make_incident_page(project, request))

    async def answer_tests(self, request: Request) -> Response:
        """Answer with the tests that fail without a cause, or with one of them, for operators."""
        if (refusal := await self._refuse_stranger(request)) is not None:
            return refusal
        query = ledger.parse_query(partial(_get_query, request))
        if query is None:
            return _make_not_found()
        return await self._run_in_thread(lambda: self._make_tests_page(query, request))

    async def _refuse_stranger(self, request: Request) -> Response | None:
        """Return the refusal for anyone but operators; None for operators."""
        if not self.operator_token and not self.sign_in:
            return _make_not_found()
        if self.operator_token and _is_operator(request, self.operator_token):
            return None
        if self.sign_in:
            if (unable := await self.sign_in.prepare(request)) is not None:
                return unable
            if self.sign_in.find_operator(request):
                return None
            if not self.operator_token or "password" not in request.query_params:
                return self.sign_in.refuse(request, by_password=bool(self.operator_token))
        challenge = {"www-authenticate": 'Basic realm="Sandpiper", charset="UTF-8"'}
        return make_message_page(
            401, "Operators only", "Give the operators' token as password.", challenge
        )

    async def _answer_allowed(
        self, request: Request, make: Callable[[str], Response], line: anyio.CapacityLimiter
    ) -> Response:
        """Answer with what `make` makes of the session's id, if the link is signed for it."""
        name, signature = request.path_params["id"], _get_query(request, "sig")
        if not _ID.fullmatch(name):
            return _make_not_found()
        signer = self._signers[0] if self._signers else await self._run_in_thread(self.load_signer)
        if isinstance(signer, Response):
            return signer
        self._signers[:] = [signer]
        if not signer.is_valid(name, signature, self.now()):
            return _make_not_found()
        return await self._run_in_thread(lambda: make(name), line)

    async def _run_in_thread(
        self, make: Callable[[], T], line: anyio.CapacityLimiter | None = None
    ) -> T | Response:
        """Return what `make` returns, or the answer that there is nothing, or not now."""
        try:
            with anyio.move_on_after(SECONDS):
                return await anyio.to_thread.run_sync(
                    make, limiter=line or self.page_threads, abandon_on_cancel=True
                )
        except stored.NoFile as error:
            _log.info("%s", error)
            return _make_not_found()
        except StoreError as error:
            _log.warning("no page: %s", error)
        return make_message_page(
            503, "Not now", "What is stored cannot be read at the moment. Try it again."
        )

    def _make_session_page(self, name: str, signature: str, is_operator: bool) -> Response:
        store = self.open_store()
        key = store.find_session(name)
        if key is None or key.session_id != name:
            return _make_not_found()
        found, hidden = stored.read_turns(store, key, self.now())
        if not found:
            return _make_not_found()
        shown = view.build_page(found, self.limits, hidden=hidden)
        return make_page("session", page=shown, sig=signature, is_operator=is_operator)

    def _make_file_answer(self, name: str, turn: int, member: str) -> Response:
        store = self.open_store()
        key = store.find_session(name)
        chunks = stored.open_archive(store, key, turn) if key and key.session_id == name else None
        if chunks is None:
            return _make_not_found()
        size, content = stored.open_member(chunks, member)

        async def stream() -> AsyncIterator[bytes]:
            """Stream the file; abort the response if the archive cannot be read to the end."""
            try:
                while chunk := await anyio.to_thread.run_sync(
                    next, content, b"", limiter=self.archive_threads
                ):
                    yield chunk
            except SandpiperError as error:
                _log.warning("a download broke off: %s", error)
                raise

        name = _NAME.sub("-", member.rsplit("/", 1)[-1]).strip(".-")[:100] or "file"
        kind = "text/plain; charset=utf-8" if name.endswith(".txt") else "application/octet-stream"
        headers = {
            "content-type": kind,
            "content-length": str(size),
            "content-disposition": f'attachment; filename="{name}"',
            "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
            **render.PRIVATE,
        }
        return StreamingResponse(stream(), headers=headers)

    def _make_overview_page(self, query: operators.Query, request: Request) -> Response:
        store = self.open_store()
        found = operators.build_overview(store.recent_turns, store, self.now(), query)
        is_start = found.first and not query.is_filter
        parked = operators.list_parked(self.list_parked(store)) if is_start else []
        link = partial(self._link_session, "sessions/")
        shown: dict[str, Any] = {"page": found, "parked": parked, "link": link}
        return make_page("overview", has_form=True, **shown, signed_in=self._name_operator(request))

    def _make_report_page(self, days: int, project: str, request: Request) -> Response:
        store = self.open_store()
        counted = self.read_days(store, self.now(), days, project)
        found = operators.build_report(counted, days, project)
        around = operators.describe_around(store.records, self.now(), days, project)
        shown: dict[str, Any] = {"page": found, "periods": operators.PERIODS, **around}
        shown["link"] = partial(self._link_session, "")
        return make_page("report", **shown, signed_in=self._name_operator(request))

    def _make_incident_page(self, project: str, request: Request) -> Response:
        incidents = IncidentStore(self.open_store().records)
        found = operators.build_incidents(incidents, self.now(), project)
        link, who = partial(self._link_session, "sessions/"), self._name_operator(request)
        return make_page("incidents", has_form=True, page=found, link=link, signed_in=who)

    def _make_tests_page(self, query: ledger.Query, request: Request) -> Response:
        found = ledger.build_page(LedgerStore(self.open_store().records), self.now(), query)
        who = self._name_operator(request)
        return make_page("tests", has_form=True, page=found, query=query, signed_in=who)

    def _name_operator(self, request: Request) -> tuple[str, str] | None:
        return self.sign_in.describe_operator(request) if self.sign_in else None

    def _link_session(self, base: str, name: str) -> str:
        """Return the address of a session's page, relative to the page that links to it."""
        if not _ID.fullmatch(name):
            return ""
        return f"{base}{name}?sig={self.load_signer().sign(name, int(self.now()) + _LINK_SECONDS)}"


def _make_not_found() -> Response:
    """Answer that there is nothing, or nothing for whoever asks."""
    return make_message_page(
        404,
        "Nothing here",
        "This address leads nowhere, or the link has expired. Notes carry fresh links: "
        "reply in the note's thread to get one.",
    )


def _get_query(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:_MOST_QUERY]


def _is_operator(request: Request, token: str) -> bool:
    """Whether the request has `Bearer TOKEN`, or Basic with the token as password."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    given = given.strip()
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.encode(), token.encode())


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
