"""The routes of the pages. They read the store in threads, a few at a time.

Callers without access cannot learn what exists: a wrong or expired signature gets the same answer
as a missing session, without what is stored of any session being read.
"""

import base64
import binascii
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from worker.core.conversation.limits import Limits
from worker.core.ports import SessionStore
from worker.errors import SandpiperError, StoreError
from worker.evaluation.day_report import DayReport
from worker.pages import files, overview, render, report, stored, view
from worker.pages.sign import Signer

MAX_AT_ONCE = 2
"""The most pages built at the same time, so that the webhook receiver stays fast."""

SECONDS = 30.0
"""Seconds to wait for a page."""

LINK_SECONDS = 24 * 3600
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
    Without `operator_token` there are no operators' pages.
    """

    open_store: Callable[[], stored.PageStore]
    load_signer: Callable[[], Signer]
    operator_token: str
    limits: Limits
    now: Callable[[], float]
    read_days: Callable[[SessionStore, float, int, str], Sequence[DayReport]]
    list_parked: Callable[[SessionStore], Iterable[str]] = lambda store: ()
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
            Route("/sessions/{id}", self.answer_session, methods=["GET"]),
            Route("/sessions/{id}/files", self.answer_file, methods=["GET"]),
        ]

    async def answer_session(self, request: Request) -> Response:
        """Answer with one session's page, for requests with a valid signature."""
        signature = _get_query(request, "sig")
        is_operator = bool(self.operator_token) and self._refuse_stranger(request) is None
        return await self._answer_allowed(
            request,
            lambda name: self._make_session_page(name, signature, is_operator),
            self.page_threads,
        )

    async def answer_file(self, request: Request) -> Response:
        """Answer with one file of a turn's sandbox, as a download."""
        turn = _get_query(request, "turn")
        member = files.parse_member_name(_get_query(request, "path"))
        if member is None or not _TURN.fullmatch(turn):
            return _make_not_found()
        return await self._answer_allowed(
            request,
            lambda name: self._make_file_answer(name, int(turn), member),
            self.archive_threads,
        )

    async def answer_overview(self, request: Request) -> Response:
        """Answer with the list of turns, for operators."""
        if (refusal := self._refuse_stranger(request)) is not None:
            return refusal
        query = overview.parse_query(partial(_get_query, request))
        if query is None:
            return _make_not_found()
        return await self._run_in_thread(lambda: self._make_overview_page(query))

    async def answer_report(self, request: Request) -> Response:
        """Answer with the report on how often verdicts were right, for operators."""
        if (refusal := self._refuse_stranger(request)) is not None:
            return refusal
        days, project = _get_query(request, "days") or "30", _get_query(request, "project").strip()
        if days not in map(str, report.PERIODS):
            return _make_not_found()
        return await self._run_in_thread(lambda: self._make_report_page(int(days), project[:200]))

    def _refuse_stranger(self, request: Request) -> Response | None:
        """Return the refusal for anyone but operators; None for operators."""
        if not self.operator_token:
            return _make_not_found()
        if _is_operator(request.headers.get("authorization", ""), self.operator_token):
            return None
        challenge = {"www-authenticate": 'Basic realm="Sandpiper", charset="UTF-8"'}
        return _make_message_page(
            401, "Operators only", "Give the operators' token as password.", challenge
        )

    async def _answer_allowed(
        self, request: Request, make: Callable[[str], Response], line: anyio.CapacityLimiter
    ) -> Response:
        """Answer with what `make` makes of the session's id, if the link is signed for it."""
        name, signature = request.path_params["id"], _get_query(request, "sig")
        if not _ID.fullmatch(name):
            return _make_not_found()
        signer = self._signers[0] if self._signers else await self._run_in_thread(self._keep_signer)
        if isinstance(signer, Response):
            return signer
        if not signer.is_valid(name, signature, self.now()):
            return _make_not_found()
        return await self._run_in_thread(lambda: make(name), line)

    def _keep_signer(self) -> Signer:
        self._signers.append(self.load_signer())
        return self._signers[0]

    async def _run_in_thread(
        self, make: Callable[[], T], line: anyio.CapacityLimiter | None = None
    ) -> T | Response:
        """Return what `make` returns, or the answer that there is nothing, or not now."""
        try:
            with anyio.move_on_after(SECONDS):
                return await anyio.to_thread.run_sync(
                    make, limiter=line or self.page_threads, abandon_on_cancel=True
                )
        except files.NoFile as error:
            _log.info("%s", error)
            return _make_not_found()
        except StoreError as error:
            _log.warning("no page: %s", error)
        return _make_message_page(
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
        return _make_page("session", page=shown, sig=signature, is_operator=is_operator)

    def _make_file_answer(self, name: str, turn: int, member: str) -> Response:
        store = self.open_store()
        key = store.find_session(name)
        chunks = stored.open_archive(store, key, turn) if key and key.session_id == name else None
        if chunks is None:
            return _make_not_found()
        size, content = files.open_member(chunks, member)
        return StreamingResponse(
            self._stream(content), headers=_make_download_headers(member, size)
        )

    async def _stream(self, content: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Stream the file; abort the response if the archive cannot be read to the end."""
        try:
            while chunk := await anyio.to_thread.run_sync(
                next, content, b"", limiter=self.archive_threads
            ):
                yield chunk
        except SandpiperError as error:
            _log.warning("a download broke off: %s", error)
            raise

    def _make_overview_page(self, query: overview.Query) -> Response:
        store = self.open_store()
        found = overview.build_overview(store.recent_turns, store, self.now(), query)
        is_start = found.first and not query.is_filter
        parked = overview.list_parked(self.list_parked(store)) if is_start else []
        link = partial(self._link_session, "sessions/")
        return _make_page("overview", has_form=True, page=found, parked=parked, link=link)

    def _make_report_page(self, days: int, project: str) -> Response:
        store = self.open_store()
        counted = self.read_days(store, self.now(), days, project)
        found = report.build_report(counted, days, project)
        link = partial(self._link_session, "")
        return _make_page("report", page=found, periods=report.PERIODS, link=link)

    def _link_session(self, base: str, name: str) -> str:
        """Return the address of a session's page, relative to the page that links to it."""
        if not _ID.fullmatch(name):
            return ""
        return f"{base}{name}?sig={self.load_signer().sign(name, int(self.now()) + LINK_SECONDS)}"


def _get_query(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:_MOST_QUERY]


def _is_operator(authorization: str, token: str) -> bool:
    """Whether the header is `Bearer TOKEN`, or Basic with the token as password."""
    scheme, _, given = authorization.partition(" ")
    given = given.strip()
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.encode(), token.encode())


def _make_download_headers(member: str, size: int) -> Mapping[str, str]:
    name = _NAME.sub("-", member.rsplit("/", 1)[-1]).strip(".-")[:100] or "file"
    kind = "text/plain; charset=utf-8" if name.endswith(".txt") else "application/octet-stream"
    return {
        "content-type": kind,
        "content-length": str(size),
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        **render.PRIVATE,
    }


def _make_page(name: str, *, has_form: bool = False, **values: object) -> Response:
    headers = render.make_headers(has_form=has_form)
    return HTMLResponse(render.render_page(name, **values), headers=headers)


def _make_not_found() -> Response:
    return _make_message_page(
        404,
        "Nothing here",
        "This address leads nowhere, or the link has expired. Notes carry fresh links: "
        "reply in the note's thread to get one.",
    )


def _make_message_page(
    status: int, title: str, text: str, more: Mapping[str, str] | None = None
) -> Response:
    body = render.render_page("said", title=title, text=text)
    return HTMLResponse(body, status, headers={**render.make_headers(), **(more or {})})
