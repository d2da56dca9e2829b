"""The server: the simulated GitLab on a loopback port, with a request log, faults and hooks."""

import asyncio
import queue
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from starlette.requests import Request
from starlette.responses import Response

from worker.demo.gitlab import evidence, hooks, oidc, people, reads, webhooks, writes
from worker.demo.gitlab.hooks import Event, Receiver
from worker.demo.gitlab.protocol import Answer, Refused, Wire, check_request, get_token_name
from worker.demo.gitlab.state import Note, Pipeline, User
from worker.demo.gitlab.world import World
from worker.demo.loopback import Cut, Loopback

ROUTES = people.ROUTES + reads.ROUTES + evidence.ROUTES + writes.ROUTES + webhooks.ROUTES


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it was answered. `path` is still encoded; `token` is the token's name."""

    method: str
    path: str
    query: str
    token: str
    status: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A hook that was fired: its event header and the receiver's status (0: not reached)."""

    event: str
    status: int
    body: str


@dataclass(slots=True)
class _Fault:
    method: str
    path: str
    status: int
    times: int
    headers: Mapping[str, str] = field(default_factory=dict)
    after: bool = False
    drop: bool = False
    delay: float = 0.0

    def matches(self, wire: Wire) -> bool:
        return (
            self.times > 0 and self.method == wire.method and bool(re.search(self.path, wire.path))
        )


class GitLabSim(World):
    """A running GitLab; build the world inside the `with`, where `url` is known.

        with GitLabSim() as sim:
            scene = make_failing_merge_request(sim)

    `requests` lists the answered requests, `unexpected_requests` those that no client of ours
    should make, `deliveries` the hooks fired to `receiver`, `quick_actions` the commands run by
    notes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.receiver: Receiver | None = None
        self.issuer = oidc.Issuer()
        self.requests: list[SeenRequest] = []
        self.unexpected_requests: list[str] = []
        self.deliveries: list[Delivery] = []
        self._faults: list[_Fault] = []
        self._outage: _Fault | None = None
        self._outbox: queue.Queue[Event | None] = queue.Queue()
        # Hooks go to this machine, in plain HTTP: no certificates are read for them.
        self._http = httpx.Client(timeout=10.0, trust_env=False, verify=False)
        self._server = Loopback("gitlab-sim", self._endpoint)
        self._postman = threading.Thread(target=self._deliver, name="gitlab-sim-hooks", daemon=True)
        self.note_listeners.append(self._queue_note_event)
        self.webhooks.post = self._post

    def __enter__(self) -> Self:
        self.url = self._server.start()
        self._postman.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._outbox.put(None)
        self._server.stop()
        self._postman.join(timeout=10)
        self._http.close()

    # ------------------------------------------------------------------------------------- faults

    def fail_next(
        self,
        method: str,
        path: str,
        status: int = 502,
        times: int = 1,
        headers: Mapping[str, str] | None = None,
        *,
        after: bool = False,
        drop: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Spoil the next `times` requests whose encoded path matches the regex `path`.

        They get `status` and are not processed. With `after` they are processed first, so that only
        the answer is lost; `drop` also processes them, and cuts the connection in the middle of the
        answer. `delay` (seconds) with `status` 0 sends the true answer late.
        """
        fault = _Fault(method, path, status, times, headers or {}, after, drop, delay)
        self._faults.append(fault)

    @contextmanager
    def fail_all(
        self,
        status: int,
        headers: Mapping[str, str] | None = None,
        *,
        drop: bool = False,
        delay: float = 0.0,
    ) -> Iterator[None]:
        """Spoil every request until the block ends; the arguments are those of `fail_next`."""
        self._outage = _Fault("", "", status, 1, headers or {}, drop=drop, delay=delay)
        try:
            yield
        finally:
            self._outage = None

    def _take_fault(self, wire: Wire) -> _Fault | None:
        if outage := self._outage:
            return outage
        with self.lock:
            found = next((fault for fault in self._faults if fault.matches(wire)), None)
            if found:
                found.times -= 1
            return found

    # ------------------------------------------------------------------------------------ serving

    async def _endpoint(self, request: Request) -> Response:
        wire = Wire(
            request.method,
            request.scope["raw_path"].decode("ascii"),
            request.scope["query_string"].decode("ascii"),
            dict(request.headers),
            await request.body(),
        )
        fault = self._take_fault(wire)
        if fault and fault.delay:
            await asyncio.sleep(fault.delay)
        answer = self._answer(wire, fault)
        self.requests.append(
            SeenRequest(
                wire.method, wire.path, wire.query, get_token_name(self, wire), answer.status
            )
        )
        return Cut(status_code=201) if fault and fault.drop else _make_response(answer)

    def _answer(self, wire: Wire, fault: _Fault | None) -> Answer:
        spoiled = fault is not None and fault.status > 0
        if fault is None or not spoiled or fault.after or fault.drop:
            answer = self._answer_truly(wire)
            if fault is None or not spoiled or fault.drop:
                return answer
        return Answer(fault.status, {"message": f"{fault.status} simulated"}, fault.headers)

    def _answer_truly(self, wire: Wire) -> Answer:
        if (wire.method, wire.path, wire.query) == ("GET", oidc.KEYS_PATH, ""):
            return Answer(200, self.issuer.get_public_keys())
        with self.lock:
            try:
                route, call = check_request(self, ROUTES, wire)
                return route.handler(call)
            except Refused as refused:
                if refused.strange:
                    self.unexpected_requests.append(
                        f"{wire.method} {wire.path}?{wire.query}: {refused}"
                    )
                return refused.answer

    # -------------------------------------------------------------------------------------- hooks

    def make_pipeline_event(self, pipeline: Pipeline, status: str = "") -> Event:
        """Make headers and body of the pipeline's hook, for its present or an earlier `status`."""
        payload = hooks.make_pipeline_payload(pipeline, status)
        return hooks.make_delivery("Pipeline Hook", self.url, payload, self.receiver)

    def make_note_event(self, note: Note, action: str = "create") -> Event:
        """Make headers and body of a note's hook."""
        name = "Confidential Note Hook" if note.internal else "Note Hook"
        return hooks.make_delivery(
            name, self.url, hooks.make_note_payload(note, action), self.receiver
        )

    def add_reaction(self, note: Note, who: User, emoji: str) -> int:
        """Add an emoji to a note and fire the hook; returns the award's id."""
        with self.lock:
            number = self.make_id("award")
            note.awards[number] = (who.id, emoji)
        self._queue_reaction(note, who, emoji, number, "award")
        return number

    def remove_reaction(self, note: Note, who: User, award: int) -> None:
        """Remove an emoji from a note and fire the hook."""
        with self.lock:
            _, emoji = note.awards.pop(award)
        self._queue_reaction(note, who, emoji, award, "revoke")

    def _queue_reaction(self, note: Note, who: User, emoji: str, award: int, action: str) -> None:
        if self.receiver:
            payload = hooks.make_emoji_payload(note, who, emoji, award, action)
            self._outbox.put(hooks.make_delivery("Emoji Hook", self.url, payload, self.receiver))

    def make_id_token(self, pipeline: Pipeline, audience: str = "sandpiper", **claims: Any) -> str:
        """Make the ID token of one of the pipeline's jobs; `claims` replace or add claims."""
        return self.issuer.make_token(self.url, pipeline, audience, **claims)

    def deliver(self, event: Event) -> httpx.Response:
        """Deliver to the receiver at once. Raises httpx.HTTPError if it cannot be reached."""
        assert self.receiver is not None, "set `receiver` first"
        headers, body = event
        return self._http.post(self.receiver.url, headers=headers, content=body)

    def _post(self, url: str, event: Event) -> tuple[int, str]:
        headers, body = event
        try:
            return self._http.post(url, headers=headers, content=body).status_code, ""
        except httpx.HTTPError as error:
            return 0, str(error)

    def wait_for_deliveries(self) -> None:
        """Wait until all hooks of notes and emojis are delivered, ten seconds at most."""
        deadline = time.monotonic() + 10.0
        while self._outbox.unfinished_tasks:
            if time.monotonic() > deadline:
                raise TimeoutError("hooks are still undelivered")
            time.sleep(0.01)

    def _queue_note_event(self, note: Note, action: str) -> None:
        if self.receiver:
            self._outbox.put(self.make_note_event(note, action))

    def _deliver(self) -> None:
        while (event := self._outbox.get()) is not None:
            try:
                answer = self.deliver(event)
                done = Delivery(event[0]["X-Gitlab-Event"], answer.status_code, answer.text)
            except httpx.HTTPError as error:
                done = Delivery(event[0]["X-Gitlab-Event"], 0, str(error))
            self.deliveries.append(done)
            self._outbox.task_done()
        self._outbox.task_done()


def _make_response(answer: Answer) -> Response:
    headers = {"content-type": "application/json", **answer.headers}
    return Response(answer.body(), answer.status, headers)
