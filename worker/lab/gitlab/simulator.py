"""The server: the simulated GitLab on a loopback port, which fires the hooks of notes."""

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import httpx
from starlette.requests import Request
from starlette.responses import Response

from worker.lab.gitlab import deployments, evidence, pipelines, reads, repository, views, writes
from worker.lab.gitlab.protocol import Answer, Call, Refused, Route, Wire, check_request
from worker.lab.gitlab.state import Note, Pipeline
from worker.lab.gitlab.views import Event, Receiver
from worker.lab.gitlab.world import World
from worker.lab.loopback import Loopback

ROUTES = (
    *reads.ROUTES,
    *pipelines.ROUTES,
    *repository.ROUTES,
    *deployments.ROUTES,
    *evidence.ROUTES,
    *writes.ROUTES,
)


class GitLabSim(World):
    """A running GitLab; build the world inside the `with`, where `url` is known.

        with GitLabSim() as sim:
            stage = build_stage(sim, load_case())

    `unexpected_requests` lists the requests that no client of ours should make, `quick_actions` the
    commands run by notes. Notes fire hooks to `receiver`.
    """

    def __init__(self, routes: Sequence[Route] = ()) -> None:
        """`routes` are served besides those that the analysis of a pipeline needs."""
        super().__init__()
        self.receiver: Receiver | None = None
        self.unexpected_requests: list[str] = []
        self._routes = (*ROUTES, *routes)
        self._outbox: queue.Queue[Event | None] = queue.Queue()
        # Hooks go to this machine in plain HTTP, so that no certificates need to be read.
        self._http = httpx.Client(timeout=10.0, trust_env=False, verify=False)
        self._server = Loopback("gitlab-sim", self._endpoint)
        self._postman = threading.Thread(target=self._deliver, name="gitlab-sim-hooks", daemon=True)
        self.note_listeners.append(self._queue_note_event)

    def __enter__(self) -> Self:
        self.url = self._server.start()
        self._postman.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._outbox.put(None)
        self._server.stop()
        self._postman.join(timeout=10)
        self._http.close()

    async def _endpoint(self, request: Request) -> Response:
        wire = Wire(
            request.method,
            request.scope["raw_path"].decode("ascii"),
            request.scope["query_string"].decode("ascii"),
            dict(request.headers),
            await request.body(),
        )
        return await self.respond(wire)

    async def respond(self, wire: Wire) -> Response:
        """Answer one request; a simulator of faults overrides this."""
        return make_response(self.answer(wire))

    def answer(self, wire: Wire) -> Answer:
        """Answer as GitLab does, and record requests that no client of ours should make."""
        with self.lock:
            try:
                route, call = check_request(self, self._routes, wire)
                if route.method != "GET":
                    _refuse_if_archived(call)
                return route.handler(call)
            except Refused as refused:
                if refused.strange:
                    self.unexpected_requests.append(
                        f"{wire.method} {wire.path}?{wire.query}: {refused}"
                    )
                return refused.answer

    def make_pipeline_event(self, pipeline: Pipeline, status: str = "") -> Event:
        """Make headers and body of the pipeline's hook, for its present or an earlier `status`."""
        payload = views.make_pipeline_payload(pipeline, status)
        return views.make_delivery("Pipeline Hook", self.url, payload, self.receiver)

    def make_note_event(self, note: Note, action: str = "create") -> Event:
        """Make headers and body of a note's hook."""
        name = "Confidential Note Hook" if note.internal else "Note Hook"
        return views.make_delivery(
            name, self.url, views.make_note_payload(note, action), self.receiver
        )

    def deliver(self, event: Event) -> httpx.Response:
        """Deliver to the receiver at once. Raises httpx.HTTPError if it cannot be reached."""
        assert self.receiver is not None, "set `receiver` first"
        headers, body = event
        return self._http.post(self.receiver.url, headers=headers, content=body)

    def _queue_note_event(self, note: Note, action: str) -> None:
        if self.receiver:
            self._outbox.put(self.make_note_event(note, action))

    def _deliver(self) -> None:
        while (event := self._outbox.get()) is not None:
            with suppress(httpx.HTTPError):  # like GitLab, go on with the next event
                self.deliver(event)
            self._outbox.task_done()
        self._outbox.task_done()


def _refuse_if_archived(call: Call) -> None:
    """Nobody may change anything in an archived project."""
    project = call.world.find_project(call.params.get("id", ""))
    if project and project.archived:
        raise Refused(403, {"message": "403 Forbidden"})


def make_response(answer: Answer) -> Response:
    """Make the response that is sent."""
    headers = {"content-type": "application/json", **answer.headers}
    return Response(answer.body(), answer.status, headers)
