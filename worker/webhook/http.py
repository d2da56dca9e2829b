"""The ASGI app: the only I/O of the door. It verifies, parses, routes, enqueues, and answers.

Answering a webhook talks to nobody but the store and the broker: GitLab gives up after 10 s.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from worker.core.triggers import Trigger, trigger_id
from worker.errors import QueueError, Rejected
from worker.webhook import events, routes
from worker.webhook.bodies import MAX_BODY, Bodies, too_large
from worker.webhook.seen import Seen, delivery_key
from worker.webhook.tokens import Claims, TokenReader
from worker.webhook.verify import Verifier, verifier

PATH = "/webhooks/gitlab"
CI_PATH = "/triggers/ci"
METRICS_PATH = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ACCEPTED = 202
RETRY_AFTER = "30"
"""Seconds, as the header's text."""

_CI = "ci"
_COUNTED = {
    "Pipeline Hook": "pipeline",
    "Note Hook": "note",
    "Confidential Note Hook": "note",
    "Emoji Hook": "emoji",
    "System Hook": "system",
    _CI: _CI,
}
_OUTCOMES = {200: "ignored", 202: "accepted", 503: "unavailable"}

_log = logging.getLogger("sandpiper.webhook")


def build(
    secret: str,
    enqueue: Callable[[Trigger], None],
    projects: Sequence[str],
    now: Callable[[], float],
    ready: Callable[[], str | None],
    *,
    tokens: TokenReader | None = None,
    body_seconds: float = 30.0,
    queue_seconds: float = 8.0,
    told: Callable[[str, str], None] = lambda kind, outcome: None,
    page: Callable[[], bytes] | None = None,
) -> Starlette:
    """The receiver. Raises ConfigError without a secret.

    `enqueue` may block (it runs in a thread) and raises QueueError when the broker or the store is
    down; the trigger may be done after a 503 too, which is harmless: triggers are idempotent. `now`
    is in epoch seconds. `ready` gives the reason why this process cannot work, or None, and may
    block too.
    Without `tokens`, CI jobs cannot ask.
    `queue_seconds` stays under the 10 s that GitLab waits for an answer (wire-gitlab 1.3).
    `told` hears of every request's kind and outcome; `page` is what /metrics answers, without it
    there is none.
    """
    door = _Door(
        *(verifier(secret), enqueue, tuple(projects), now, ready, Bodies(body_seconds)),
        *(queue_seconds, tokens, told, page),
    )
    app = Starlette(
        routes=[
            Route(PATH, door.webhook, methods=["POST"]),
            *([Route(CI_PATH, door.ci, methods=["POST"])] if tokens else []),
            Route("/healthz", _healthz, methods=["GET"]),
            Route("/readyz", door.readyz, methods=["GET"]),
            *([Route(METRICS_PATH, door.metrics, methods=["GET"])] if page else []),
        ],
        exception_handlers={404: _not_found, 405: _wrong_method},
    )
    # GitLab counts a redirect as delivered (wire-gitlab 1.3): a slash too many would lose events.
    app.router.redirect_slashes = False
    return app


@dataclass(frozen=True, slots=True)
class _Door:
    verifier: Verifier
    enqueue: Callable[[Trigger], None]
    projects: tuple[str, ...]
    now: Callable[[], float]
    ready: Callable[[], str | None]
    bodies: Bodies
    queue_seconds: float
    tokens: TokenReader | None
    told: Callable[[str, str], None]
    page: Callable[[], bytes] | None
    seen: Seen = field(default_factory=Seen)
    # Each thread mostly waits for the store; more of them would only contend for the CPU.
    line: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4, "enqueue"))

    async def webhook(self, request: Request) -> Response:
        return self._counted(request, await _refusing(self._admit, request))

    async def ci(self, request: Request) -> Response:
        return self._counted(request, await _refusing(self._admit_job, request))

    def _counted(self, request: Request, response: Response) -> Response:
        known = _CI if request.url.path == CI_PATH else events.kind(request.headers)
        outcome = _OUTCOMES.get(response.status_code, "rejected")
        self.told(_COUNTED.get(known, "other"), outcome)
        return response

    async def metrics(self, request: Request) -> Response:
        assert self.page is not None  # else there is no such route
        # In a thread: a page of some thousand series takes a while, and webhooks come first.
        page = await anyio.to_thread.run_sync(self.page)
        return Response(page, media_type=METRICS_TYPE)

    async def _admit(self, request: Request) -> Response:
        _check_length(request)
        check = self.verifier.check_headers(request.headers, self.now())
        body = await self.bodies.read(request, check)
        delivery = delivery_key(request.headers)
        if known := self.seen.get(delivery, self.now()):
            _record(logging.INFO, request, "", f"accepted before {known}")
            return JSONResponse({"trigger": known}, ACCEPTED)
        event = events.parse(request.headers, body)
        del body  # it is not to be held while the broker is waited for
        project = "" if isinstance(event, events.OtherEvent) else event.project.path_with_namespace
        decision = routes.route(event, events.kind(request.headers), self.projects)
        if isinstance(decision, routes.Ignored):
            _record(logging.INFO, request, project, f"ignored: {decision.reason}")
            return JSONResponse({"ignored": decision.reason})
        response = await self._queue(request, project, decision)
        if response.status_code == ACCEPTED:
            self.seen.put(delivery, trigger_id(decision), self.now())
        return response

    async def _admit_job(self, request: Request) -> Response:
        """A CI job asks. What it sends along is not even read: only its token counts."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        claims = await self._claims(token.strip() if scheme.lower() == "bearer" else "")
        if isinstance(claims, str):
            _record(logging.ERROR, request, "", f"not checked: {claims}")
            return _later("GitLab's keys cannot be had; ask again later")
        if reason := routes.unwanted_job(claims, self.projects):
            _record(logging.INFO, request, claims.project_path, f"ignored: {reason}")
            return JSONResponse({"ignored": reason})
        return await self._queue(request, claims.project_path, claims.trigger())

    async def _claims(self, token: str) -> Claims | str:
        """The token's claims, or why GitLab's keys to check it by are not there."""
        assert self.tokens is not None  # else there is no such route
        try:
            with anyio.move_on_after(self.queue_seconds):
                return await anyio.to_thread.run_sync(
                    self.tokens.read, token, abandon_on_cancel=True
                )
        except QueueError as error:
            return str(error)
        return f"GitLab did not give its keys within {self.queue_seconds:g} s"

    async def _queue(self, request: Request, project: str, trigger: Trigger) -> Response:
        name, failure = trigger_id(trigger), ""
        try:
            async with asyncio.timeout(self.queue_seconds):
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self.line, self.enqueue, trigger)
        except QueueError as error:
            failure = str(error)
        except TimeoutError:
            failure = f"the broker did not answer within {self.queue_seconds:g} s"
        if failure:
            _record(logging.ERROR, request, project, f"not queued {name}: {failure}")
            return _later("the queue is down; deliver this event again later")
        _record(logging.INFO, request, project, f"accepted {trigger.kind} {name}")
        return JSONResponse({"trigger": name}, ACCEPTED)

    async def readyz(self, request: Request) -> Response:
        with anyio.move_on_after(self.queue_seconds):
            reason = await anyio.to_thread.run_sync(self.ready, abandon_on_cancel=True)
            return _error(503, reason) if reason else JSONResponse({"status": "ready"})
        return _error(503, f"the check did not end within {self.queue_seconds:g} s")


async def _refusing(admit: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    try:
        return await admit(request)
    except Rejected as error:
        _record(logging.WARNING, request, "", f"rejected {error.status}: {error}")
        return _later(str(error)) if error.status == 503 else _error(error.status, str(error))


async def _healthz(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _check_length(request: Request) -> None:
    length = request.headers.get("content-length")
    if length is None:
        return
    if not (length.isascii() and length.isdigit()):
        raise Rejected(400, "the Content-Length header is not a number")
    # Longer than 19 digits is too large whatever it says, and int() would take its time.
    if len(length) > 19 or int(length) > MAX_BODY:
        raise too_large()


async def _not_found(request: Request, error: Exception) -> Response:
    return _error(404, f"there is nothing here; GitLab's webhook goes to POST {PATH}")


async def _wrong_method(request: Request, error: Exception) -> Response:
    hint = "the method is not allowed"
    if request.url.path == PATH:
        hint = "this is the right address for GitLab's webhook, but it takes POST only"
    elif request.url.path == CI_PATH:
        hint = "this is the right address for a CI job, but it takes POST only"
    response = _error(405, hint)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": _line(message)}, status)


def _later(message: str) -> JSONResponse:
    response = _error(503, message)
    response.headers["retry-after"] = RETRY_AFTER
    return response


def _record(level: int, request: Request, project: str, decision: str) -> None:
    kind = _line(events.kind(request.headers)) or ("ci" if request.url.path == CI_PATH else "-")
    _log.log(level, "event=%r project=%s %s", kind, _line(project) or "-", _line(decision))


def _line(text: str) -> str:
    """One short line of printable characters, whatever a stranger wrote."""
    text = text[:300]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return text.strip()
