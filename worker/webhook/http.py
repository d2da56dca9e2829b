"""The receiver's ASGI app: verifies, parses, routes, queues and answers requests.

Answering a webhook uses only the store and the broker, because GitLab waits 10 s at most.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from worker.conversation.triggers import Trigger, trigger_id
from worker.errors import QueueError, Rejected
from worker.settings.gitlab import PARAMETER
from worker.webhook import events, routing
from worker.webhook.connections import MAX_BODY, BodyReader, reject_too_large
from worker.webhook.events import Claims
from worker.webhook.id_tokens import TokenReader, UsedTokens
from worker.webhook.verify import DoorVerifier

PATH = "/webhooks/gitlab"
CI_PATH = "/triggers/ci"
_METRICS_PATH = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ACCEPTED = 202
_RETRY_AFTER = "30"
"""Seconds, as text for the header."""

_CI = "ci"
_METRIC_KINDS = {
    "Pipeline Hook": "pipeline",
    "Note Hook": "note",
    "Confidential Note Hook": "note",
    "Emoji Hook": "emoji",
    "System Hook": "system",
    _CI: _CI,
}
_OUTCOMES = {200: "ignored", 202: "accepted", 503: "unavailable"}

_log = logging.getLogger("sandpiper.webhook")


Enqueue = Callable[[Sequence[Trigger]], Sequence[QueueError | None]]
"""Queues triggers, and returns for each of them why it was not queued, or None. It may block."""

MOST = 64
"""The most triggers of one batch."""

PATIENCE = 0.1
"""Seconds after which the next batch begins although the last one has not ended."""

_THREADS = 4


class Batches:
    """Collects triggers while a batch is being queued; they are the next batch. For one event loop.

    Deliveries that arrive together share threads and round trips: with a thread for each, the
    threads would take Python's lock from each other at every system call. A batch that takes long,
    because the store is slow to write one of its triggers, does not hold up the others.
    """

    def __init__(self, enqueue: Enqueue, patience: float = PATIENCE) -> None:
        self._enqueue, self._patience = enqueue, patience
        self._waiting: deque[tuple[Trigger, asyncio.Future[QueueError | None]]] = deque()
        self._is_busy = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, "enqueue")

    async def enqueue(self, trigger: Trigger) -> None:
        """Queue a trigger with the next batch. Raises QueueError, and what `Enqueue` raises.

        One that is cancelled before its batch begins is not queued.
        """
        future: asyncio.Future[QueueError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((trigger, future))
        self._begin_batch()
        if failure := await future:
            raise failure

    def _begin_batch(self) -> None:
        """Begin a batch if any trigger waits, unless one has begun a moment ago."""
        if self._waiting and not self._is_busy:
            self._is_busy = True
            task = asyncio.get_running_loop().create_task(self._run_batch())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_batch(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
        batch = [(trigger, future) for trigger, future in taken if not future.done()]
        triggers = [trigger for trigger, _ in batch]
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._enqueue, triggers)
        await asyncio.wait([work], timeout=self._patience)
        self._is_busy = False
        self._begin_batch()
        await asyncio.wait([work])
        error = work.exception()
        for number, (_, future) in enumerate(batch):
            if future.done():
                continue
            if error:
                future.set_exception(error)
            else:
                future.set_result(work.result()[number])


def build_app(
    secret: str,
    enqueue: Enqueue,
    projects: Sequence[str],
    now: Callable[[], float],
    ready: Callable[[], str | None],
    *,
    branches: Sequence[str] = (),
    keys: Sequence[str] = (),
    tokens: TokenReader | None = None,
    body_seconds: float = 30.0,
    queue_seconds: float = 8.0,
    record_outcome: Callable[[str, str], None] = lambda kind, outcome: None,
    render_metrics: Callable[[], bytes] | None = None,
) -> Starlette:
    """Build the receiver. Raises ConfigError without a secret and without `keys`.

    `branches` are the watched ones: see `routing.route_event`.
    `keys` make the secrets of single projects' webhooks: see `settings.hook_secrets`.
    `enqueue` runs in a thread and reports a QueueError when the broker or the store is down; the
    trigger may still run after a 503, which is harmless: triggers are idempotent. `now` is in epoch
    seconds. `ready` returns the reason why this process cannot work, or None, and may block too.
    Without `tokens`, CI jobs cannot ask for an analysis. `queue_seconds` must be less than the 10 s
    that GitLab waits for an answer. `record_outcome` is called with every request's kind and
    outcome. `render_metrics` makes the answer of /metrics; without it, there is no /metrics.
    """
    receiver = _Receiver(
        verifier=DoorVerifier(secret, keys),
        batches=Batches(enqueue),
        projects=tuple(projects),
        branches=tuple(branches),
        now=now,
        ready=ready,
        bodies=BodyReader(body_seconds),
        queue_seconds=queue_seconds,
        tokens=tokens,
        used=UsedTokens(now),
        record_outcome=record_outcome,
        render_metrics=render_metrics,
    )
    app = Starlette(
        routes=[
            Route(PATH, receiver.answer_webhook, methods=["POST"]),
            *([Route(CI_PATH, receiver.answer_ci_job, methods=["POST"])] if tokens else []),
            Route("/healthz", _answer_healthz, methods=["GET"]),
            Route("/readyz", receiver.answer_readyz, methods=["GET"]),
            *(
                [Route(_METRICS_PATH, receiver.answer_metrics, methods=["GET"])]
                if render_metrics
                else []
            ),
        ],
        exception_handlers={404: _answer_not_found, 405: _answer_wrong_method},
    )
    # GitLab counts a redirect as delivered: events for a URL with an extra slash would be lost.
    app.router.redirect_slashes = False
    return app


@dataclass(frozen=True, slots=True)
class _Receiver:
    verifier: DoorVerifier
    batches: Batches
    projects: tuple[str, ...]
    branches: tuple[str, ...]
    now: Callable[[], float]
    ready: Callable[[], str | None]
    bodies: BodyReader
    queue_seconds: float
    tokens: TokenReader | None
    used: UsedTokens
    record_outcome: Callable[[str, str], None]
    render_metrics: Callable[[], bytes] | None

    async def answer_webhook(self, request: Request) -> Response:
        return await self._answer(request, self._admit, events.get_kind(request.headers))

    async def answer_ci_job(self, request: Request) -> Response:
        return await self._answer(request, self._admit_job, _CI)

    async def _answer(
        self, request: Request, admit: Callable[[Request], Awaitable[Response]], kind: str
    ) -> Response:
        try:
            response = await admit(request)
        except Rejected as error:
            _log_decision(logging.WARNING, request, "", f"rejected {error.status}: {error}")
            response = _make_error(error.status, str(error), retry=error.status in (429, 503))
        outcome = _OUTCOMES.get(response.status_code, "rejected")
        self.record_outcome(_METRIC_KINDS.get(kind, "other"), outcome)
        return response

    async def answer_metrics(self, request: Request) -> Response:
        assert self.render_metrics is not None  # else there is no such route
        # In a thread: a page of some thousand series takes a while, and webhooks must not wait.
        page = await anyio.to_thread.run_sync(self.render_metrics)
        return Response(page, media_type=METRICS_TYPE)

    async def _admit(self, request: Request) -> Response:
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise Rejected(400, "the Content-Length header is not a number")
        # A number of more than 19 digits is too large anyway, and slow to parse.
        if len(length) > 19 or int(length) > MAX_BODY:
            raise reject_too_large()
        named = request.query_params.get(PARAMETER) if request.scope["query_string"] else None
        check = self.verifier.check_headers(request.headers, self.now(), named)
        body = await self.bodies.read(request, check)
        event = events.parse_event(request.headers, body)
        del body  # so that it is not held while waiting for the broker
        if check.project and not routing.is_of_project(event, check.project):
            raise Rejected(
                401, f"the event is of another project than {check.project}, whose secret it has"
            )
        project = "" if isinstance(event, events.OtherEvent) else event.project.path_with_namespace
        kind = events.get_kind(request.headers)
        decision = routing.route_event(event, kind, self.projects, self.branches)
        if isinstance(decision, routing.Ignored):
            return _ignore(request, project, decision.reason)
        return await self._queue(request, project, decision)

    async def _admit_job(self, request: Request) -> Response:
        """Handle a CI job's request. Only its token is used; the body is not even read."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            claims = await self._read_claims(token.strip() if scheme.lower() == "bearer" else "")
        except QueueError as error:
            _log_decision(logging.ERROR, request, "", f"not checked: {error}")
            return _make_error(503, "GitLab's keys cannot be had; ask again later", retry=True)
        decision = routing.route_job(claims, self.projects, self.branches)
        if isinstance(decision, routing.Ignored):
            return _ignore(request, claims.project_path, decision.reason)
        if not self.used.take(claims):
            return _ignore(request, claims.project_path, "this id token has asked already")
        status = 0
        try:
            answer = await self._queue(request, claims.project_path, decision)
            status = answer.status_code
        finally:
            if status != _ACCEPTED:
                self.used.give_back(claims)
        return answer

    async def _read_claims(self, token: str) -> Claims:
        """Return the token's claims. Raises QueueError if there are no keys for verifying it."""
        assert self.tokens is not None  # else there is no such route
        with anyio.move_on_after(self.queue_seconds):
            return await anyio.to_thread.run_sync(self.tokens.read, token, abandon_on_cancel=True)
        raise QueueError(f"GitLab did not give its keys within {self.queue_seconds:g} s")

    async def _queue(self, request: Request, project: str, triggers: Sequence[Trigger]) -> Response:
        """Queue the triggers of one delivery; after a 503, some of them may be queued."""
        name, failure = ", ".join(map(trigger_id, triggers)), ""
        try:
            async with asyncio.timeout(self.queue_seconds):
                await asyncio.gather(*map(self.batches.enqueue, triggers))
        except QueueError as error:
            failure = str(error)
        except TimeoutError:
            failure = f"the broker did not answer within {self.queue_seconds:g} s"
        if failure:
            _log_decision(logging.ERROR, request, project, f"not queued {name}: {failure}")
            said = "the queue is down; deliver this event again later"
            return _make_error(503, said, retry=True)
        kinds = ", ".join(each.kind for each in triggers)
        _log_decision(logging.INFO, request, project, f"accepted {kinds} {name}")
        return JSONResponse({"trigger": name}, _ACCEPTED)

    async def answer_readyz(self, request: Request) -> Response:
        with anyio.move_on_after(self.queue_seconds):
            reason = await anyio.to_thread.run_sync(self.ready, abandon_on_cancel=True)
            return _make_error(503, reason) if reason else JSONResponse({"status": "ready"})
        return _make_error(503, f"the check did not end within {self.queue_seconds:g} s")


async def _answer_healthz(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _answer_not_found(request: Request, error: Exception) -> Response:
    return _make_error(404, f"there is nothing here; GitLab's webhook goes to POST {PATH}")


async def _answer_wrong_method(request: Request, error: Exception) -> Response:
    hint = "the method is not allowed"
    if request.url.path == PATH:
        hint = "this is the right address for GitLab's webhook, but it takes POST only"
    elif request.url.path == CI_PATH:
        hint = "this is the right address for a CI job, but it takes POST only"
    response = _make_error(405, hint)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


def _ignore(request: Request, project: str, reason: str) -> JSONResponse:
    _log_decision(logging.INFO, request, project, f"ignored: {reason}")
    return JSONResponse({"ignored": reason})


def _make_error(status: int, message: str, *, retry: bool = False) -> JSONResponse:
    headers = {"retry-after": _RETRY_AFTER} if retry else None
    return JSONResponse({"error": _clip_line(message)}, status, headers)


def _log_decision(level: int, request: Request, project: str, decision: str) -> None:
    kind = _clip_line(events.get_kind(request.headers)) or (
        "ci" if request.url.path == CI_PATH else "-"
    )
    _log.log(
        level, "event=%r project=%s %s", kind, _clip_line(project) or "-", _clip_line(decision)
    )


def _clip_line(text: str) -> str:
    """Clip untrusted text to one short line of printable characters."""
    text = text[:300]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return text.strip()
