"""The demo's GitLab with a request log, faults, reactions, webhooks, and the id tokens of jobs."""

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.responses import Response

from tests.simulators.faults import Cut
from tests.simulators.gitlab import (
    accounts,
    issues,
    oauth,
    oidc,
    reactions,
    retries,
    trains,
    webhooks,
)
from tests.simulators.gitlab.webhook_state import Webhooks
from tests.simulators.odd_answers import Given, OddGitLab, make_odd_answer
from worker.lab.gitlab import simulator, views
from worker.lab.gitlab.protocol import Answer, Wire, get_token_value
from worker.lab.gitlab.state import Commit, Job, MergeRequest, Note, Pipeline, User
from worker.lab.gitlab.views import Event


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it was answered. `path` is still encoded.

    `token` is the token's name: "" for none, "?" for an unknown one.
    """

    method: str
    path: str
    query: str
    token: str
    status: int


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
    odd: OddGitLab | None = None
    late: float = 0.0

    def matches(self, wire: Wire) -> bool:
        is_method = self.method in ("", wire.method)
        return self.times > 0 and is_method and bool(re.search(self.path, wire.path))


class GitLabSim(simulator.GitLabSim):
    """A running GitLab; build the world inside the `with`, where `url` is known.

        with GitLabSim() as sim:
            scene = make_failing_merge_request(sim)

    `requests` lists the answered requests, `given` the odd answers among them. `retried` lists the
    jobs that were run again, `issues.issues` the issues of each project; `trains` are its trains.
    """

    def __init__(self) -> None:
        self.issues = issues.Endpoints()
        super().__init__(
            accounts.ROUTES
            + webhooks.Endpoints(self).list_routes()
            + retries.Endpoints(self).list_routes()
            + trains.Endpoints(self).list_routes()
            + self.issues.list_routes()
        )
        self.retried: list[Job] = []
        self.trains = trains.Trains(self)
        self.issuer = oidc.Issuer()
        self.provider = oauth.Provider(self.issuer, strange=self.unexpected_requests)
        self.requests: list[SeenRequest] = []
        self.webhooks = Webhooks(post=self.post)
        self._faults: list[_Fault] = []
        self._outage: _Fault | None = None
        self._late = list[asyncio.Task[None]]()
        self.given: list[Given] = []

    def push(self, mr: MergeRequest, files: Mapping[str, bytes], title: str = "More work") -> str:
        """Push a new commit to the merge request's branch; returns its new head sha."""
        mr.sha = self.commit(mr.source_project, mr.source_branch, files, title)
        parents = mr.source_project.records[mr.sha].parents
        made = Commit(mr.sha, title, mr.author, self.advance_clock(), parents=parents)
        mr.source_project.records[mr.sha] = made
        mr.commits.append(made)
        mr.updated_at = self.advance_clock()
        return mr.sha

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

    def clear_faults(self) -> None:
        """Spoil no further request that `fail_next` and its like were to spoil."""
        with self.lock:
            self._faults.clear()

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

    def answer_next(
        self, kind: OddGitLab, method: str = "", path: str = "", *, times: int = 1
    ) -> None:
        """Answer the next `times` requests oddly that match: any method if "", and the regex `path`
        on the encoded path. They are not processed."""
        self._faults.append(_Fault(method, path, 0, times, odd=OddGitLab(kind)))

    @contextmanager
    def answering(self, kind: OddGitLab, method: str = "", path: str = "") -> Iterator[None]:
        """Answer all requests oddly that match, as `answer_next` says, until the block ends."""
        assert self._outage is None, "there is an outage already"
        self._outage = _Fault(method, path, 0, 1, odd=OddGitLab(kind))
        try:
            yield
        finally:
            self._outage = None

    def carry_out_late(
        self, method: str, path: str, seconds: float, *, status: int = 504, times: int = 1
    ) -> None:
        """Answer the next `times` matching requests with `status` at once, and process each of them
        `seconds` later, as GitLab does whose proxy has given up waiting."""
        self._faults.append(_Fault(method, path, status, times, late=seconds))

    def _take_fault(self, wire: Wire) -> _Fault | None:
        if (outage := self._outage) and (not outage.odd or outage.matches(wire)):
            return outage
        with self.lock:
            found = next((fault for fault in self._faults if fault.matches(wire)), None)
            if found:
                found.times -= 1
            return found

    # ------------------------------------------------------------------------------------ serving

    async def respond(self, wire: Wire) -> Response:
        """Answer one request, or spoil it, and write it down."""
        fault = self._take_fault(wire)
        if fault and fault.delay:
            await asyncio.sleep(fault.delay)
        if fault and fault.late:
            self._late.append(asyncio.create_task(self._process_late(wire, fault.late)))
        answer = self._answer_or_fail(wire, fault)
        token = self._get_token_name(wire)
        seen = SeenRequest(wire.method, wire.path, wire.query, token, answer.status)
        self.requests.append(seen)
        if fault and fault.drop:
            return Cut(status_code=201)
        return simulator.make_response(answer)

    async def _process_late(self, wire: Wire, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.answer(wire)

    def _answer_or_fail(self, wire: Wire, fault: _Fault | None) -> Answer:
        if fault and fault.odd:
            self.given.append(Given(fault.odd, wire.method, wire.path, time.monotonic()))
            return make_odd_answer(fault.odd)
        spoiled = fault is not None and fault.status > 0
        if fault is None or not spoiled or fault.after or fault.drop:
            answer = self.answer(wire)
            if fault is None or not spoiled or fault.drop:
                return answer
        return Answer(fault.status, {"message": f"{fault.status} simulated"}, fault.headers)

    def answer(self, wire: Wire) -> Answer:
        """Answer as GitLab does; anybody may read the keys of the id tokens."""
        if (wire.method, wire.path, wire.query) == ("GET", oidc.KEYS_PATH, ""):
            return Answer(200, self.issuer.get_public_keys())
        if wire.path in oauth.PATHS:
            with self.lock:
                self.provider.url = self.url
                return self.provider.answer(wire)
        return super().answer(wire)

    def _get_token_name(self, wire: Wire) -> str:
        value = get_token_value(wire)
        known = self.tokens.get(value)
        return known.name if known else ("?" if value else "")

    # -------------------------------------------------------------------------------------- hooks

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
            payload = reactions.make_emoji_payload(note, who, emoji, award, action)
            self._outbox.put(views.make_delivery("Emoji Hook", self.url, payload, self.receiver))

    def make_id_token(self, pipeline: Pipeline, audience: str = "sandpiper", **claims: Any) -> str:
        """Make the ID token of one of the pipeline's jobs; `claims` replace or add claims."""
        return self.issuer.make_token(self.url, pipeline, audience, **claims)

    def post(self, url: str, event: Event) -> tuple[int, str]:
        """Deliver to `url`; returns the status, or 0 and why nobody answers."""
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
