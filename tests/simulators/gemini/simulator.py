"""The server: the simulated API on a loopback port, with a request log and faults."""

import hashlib
import json
import re
from collections import deque
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from tests.simulators.gemini import answers, checks, model_list, signatures
from tests.simulators.gemini.cache import Counted, ImplicitCache
from tests.simulators.gemini.protocol import Json, Refused, compact, invalid
from tests.simulators.gemini.reading import read
from tests.simulators.model_api import ModelApi
from worker.lab.script import Script

_DIRECT = re.compile(r"/(?:v1|v1beta)/models/(?P<model>[^/:]+):generateContent")
_VERTEX = re.compile(
    r"/(?:v1|v1beta1)/(?P<route>projects/[^/]+/locations/[^/]+)"
    r"/publishers/google/models/(?P<model>[^/:]+):generateContent"
)
_LIST = re.compile(r"/(?:v1|v1beta)/models")
_BAD_KEY = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a request came in: `model` "" for no such path.

    `route` is "" with an API key, else project and location.
    """

    model: str
    route: str


class GeminiSim(ModelApi):
    """A running generateContent that answers from a script, with an API key and on Vertex AI.

        with GeminiSim(Scripted([Call([("look", {})]), Say("found it")])) as sim:
            model = table.build("gemini/gemini-4-argon", sim.url, "any", clock=clock)

    `key` is the only key or access token taken, "" takes any, but none that is in `revoked_keys`;
    `think` is in seconds; `window` in tokens.
    """

    def __init__(
        self,
        script: Script,
        *,
        key: str = "",
        think: float = 0.0,
        window: int = 1_048_576,
        cache: ImplicitCache | None = None,
    ) -> None:
        super().__init__(self._endpoint, think=think)
        self.revoked_keys: set[str] = set()
        self.model_list = list(model_list.SERVED)
        self._script = script
        self._key = key
        self._window = window
        self._cache = cache or ImplicitCache()
        self._reasons: deque[str] = deque()
        self._splits = 0
        self._halves: dict[str, tuple[Json, Json]] = {}

    def finish_next(self, reason: str, times: int = 1) -> None:
        """Answer the next `times` valid requests with this finishReason and without content."""
        self._reasons.extend([reason] * times)

    def split_next(self) -> None:
        """Give the next answer in two parts, the second for a continuationToken."""
        self._splits += 1

    def make_error(self, status: int) -> bytes:
        """Make the API's error body for a status."""
        return compact(Refused(status, "The simulator was told to fail.").body())

    # ----------------------------------------------------------------------------------- answering

    async def _endpoint(self, request: Request) -> Response:
        raw = await request.body()
        if _LIST.fullmatch(request.url.path):
            return self._list_models(request, raw)
        place = _place(request)
        try:
            body = self._admitted(request, place, raw)
            if spoiled := await self.spoil():
                return spoiled
            answer = self._answer(body, place)
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url.path}: {refused}")
            # The front end of Vertex AI wraps an error in a list.
            content = [refused.body()] if place.route else refused.body()
            return _json(content, refused.status)
        self.answers.append(answer)
        return _json(answer, 200)

    def _list_models(self, request: Request, raw: bytes) -> Response:
        try:
            if request.method != "GET" or raw:
                raise Refused(404, "Not Found")
            self._check_key(request.headers.get("x-goog-api-key", ""))
            if spoiled := self._fail_list():
                return spoiled
            part = model_list.part(self.model_list, dict(request.query_params), self.max_listed)
        except Refused as refused:
            self.unexpected_requests.append(f"{request.method} {request.url}: {refused}")
            return _json(refused.body(), refused.status)
        return _json(part, 200)

    def _admitted(self, request: Request, place: _Place, raw: bytes) -> Json:
        if request.method != "POST" or not place.model:
            raise Refused(404, "Not Found")
        self._check_caller(request, place)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise invalid("Invalid content-type: application/json is required")
        body = checks.parse(raw)
        self.raw.append(raw)
        self.requests.append(body)
        if not place.model.startswith("gemini-"):
            raise Refused(404, f"models/{place.model} is not found, or is not supported")
        try:
            checks.check_body(body, place.model, vertex=bool(place.route))
        except (AttributeError, KeyError, TypeError) as error:
            raise invalid(f"Invalid JSON payload received: {error!r}") from error
        signatures.check(body["contents"], place.model, place.route)
        return body

    def _check_caller(self, request: Request, place: _Place) -> None:
        if request.query_params:
            raise invalid("the URL must carry neither a key nor anything else")
        header = "authorization" if place.route else "x-goog-api-key"
        given = request.headers.get(header, "")
        if place.route:
            scheme, _, given = given.partition(" ")
            given = given if scheme == "Bearer" else ""
        if place.route and not self._fits(given):
            raise Refused(401, "Request had invalid authentication credentials.")
        self._check_key(given)

    def _check_key(self, given: str) -> None:
        if not given:
            raise Refused(403, "Method doesn't allow unregistered callers. Please use API Key.")
        if not self._fits(given):
            raise Refused(400, "API key not valid. Please pass a valid API key.", [_BAD_KEY])

    def _fits(self, given: str) -> bool:
        return bool(given) and given not in self.revoked_keys and self._key in {"", given}

    def _answer(self, body: Json, place: _Place) -> Json:
        if "continuationToken" in body:
            return self._second_half(body)
        asked = read(body)
        self._watch_frame(asked.first, _frame(body))
        counted = self._cache.count(place.model, body)
        if counted.prompt > self._window:
            raise invalid(
                f"The input token count ({counted.prompt}) exceeds the maximum number of tokens "
                f"allowed ({self._window})."
            )
        if self._reasons:
            return _bare(self._reasons.popleft(), counted, place.model)
        try:
            answer = self._script(asked)
        except LookupError as error:
            raise invalid(f"the script has no answer: {error}") from error
        whole = answers.response(answer, body, counted, place.model, place.route)
        return self._first_half(whole, body) if self._splits else whole

    def _first_half(self, whole: Json, body: Json) -> Json:
        self._splits -= 1
        candidate = whole["candidates"][0]
        parts = candidate["content"]["parts"]
        token = hashlib.sha256(compact(body)).hexdigest()
        first, rest = _halves(parts)
        content = {"role": "model", "parts": rest}
        self._halves[token] = (body, {**whole, "candidates": [{**candidate, "content": content}]})
        cut = answers.stopped("CONTINUATION", parts=first) | {"continuationToken": token}
        return {**whole, "candidates": [cut]}

    def _second_half(self, body: Json) -> Json:
        """Only for the very same request."""
        asked, rest = self._halves.get(str(body["continuationToken"]), ({}, {}))
        again = {name: value for name, value in body.items() if name != "continuationToken"}
        if _said(again) != _said(asked):
            raise invalid("Invalid continuation token.")
        return rest


def _frame(body: Json) -> dict[str, bytes]:
    """What must not change within a session."""
    return {name: compact(body.get(name)) for name in ("tools", "systemInstruction")}


def _said(body: Json) -> Json:
    """An empty message says as much as none."""
    return {name: value for name, value in body.items() if value != {}}


def _place(request: Request) -> _Place:
    for pattern in (_DIRECT, _VERTEX):
        if found := pattern.fullmatch(request.url.path):
            return _Place(found["model"], found.groupdict().get("route", ""))
    return _Place("", "")


def _bare(reason: str, counted: Counted, model: str) -> Json:
    candidate = answers.stopped(reason)
    counts = answers.usage(candidate, counted, 0)
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": model}


def _halves(parts: list[Json]) -> tuple[list[Json], list[Json]]:
    """Cut in the middle of the first part if it is text, else before the last one."""
    text = parts[0].get("text", "")
    if len(text) < 2:
        return parts[:-1], parts[-1:]
    middle = len(text) // 2
    return [{"text": text[:middle]}], [{**parts[0], "text": text[middle:]}, *parts[1:]]


def _json(content: Json | list[Json], status: int) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")
