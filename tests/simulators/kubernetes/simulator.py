"""The server: a namespace of a cluster on a loopback port."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio.to_thread
import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from tests.simulators.kubernetes.admission import Rejected, check_pod
from tests.simulators.kubernetes.pods import Node, PodRecord, complete_manifest
from tests.simulators.kubernetes.streams import serve_exec
from worker.lab.loopback import Loopback

NAMESPACE = "sandboxes"
TOKEN = "a-token-of-a-service-account"
PROTOCOL = "v5.channel.k8s.io"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EXEC_KEYS = {"command", "container", "stdin", "stdout", "stderr"}


class KubernetesSim:
    """A running API server with one node.

    `pods` are those that exist. `quota` is how many may; `refusals` maps a method to the reason why
    the service account may not use it. `requests` has method and path of all that was asked;
    `exec_listeners` are told the command line of each process.
    """

    def __init__(self) -> None:
        self.pods: dict[str, PodRecord] = {}
        self.quota = 100
        self.token = TOKEN
        self.unschedulable = ""
        self.refusals: dict[str, str] = {}
        self.unexpected_requests: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.exec_listeners: list[Callable[[str], object]] = []
        self._lock = threading.Lock()
        self._node = Node()
        self._server = Loopback("kubernetes-sim", self._answer, self._serve_stream)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        for pod in list(self.pods.values()):
            self._node.remove(pod)
        self._server.stop()
        self._node.close()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write what $KUBECONFIG is to name."""
        named = {"cluster": "sim", "user": "sim", "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sim",
            "clusters": [{"name": "sim", "cluster": {"server": self._server.url}}],
            "users": [{"name": "sim", "user": {"token": self.token}}],
            "contexts": [{"name": "sim", "context": named}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    # ------------------------------------------------------------------------------------ requests

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        self.requests.append((request.method, request.url.path))
        try:
            self._check_token(request.headers.get("authorization"))
            self._check_right(request.method)
            found = await anyio.to_thread.run_sync(self._perform, request, body)
        except Rejected as refusal:
            return make_refusal(refusal)
        if found is None:
            asked = f"{request.method} {request.url.path}?{request.url.query}"
            self.unexpected_requests.append(asked)
            return make_refusal(Rejected(404, "NotFound", "the server could not find the resource"))
        return JSONResponse(found)

    def _check_token(self, header: str | None) -> None:
        if header != f"Bearer {self.token}":
            raise Rejected(401, "Unauthorized", "Unauthorized")

    def _check_right(self, method: str) -> None:
        if method in self.refusals:
            raise Rejected(403, "Forbidden", self.refusals[method])

    def _perform(self, request: Request, body: bytes) -> dict[str, Any] | None:
        method, path, query = request.method, request.url.path, dict(request.query_params)
        if (method, path) == ("GET", "/version"):
            return {"gitVersion": "v1.34.2"}
        if path == _PODS and method == "POST":
            return self._create(json.loads(body), query)
        if path == _PODS and method == "GET":
            return self._list(query)
        name = path.removeprefix(f"{_PODS}/")
        if name == path or "/" in name:
            return None
        if method == "GET":
            return self._describe(self._find(name))
        if method == "PATCH":
            self._find(name).labels.update(json.loads(body)["metadata"]["labels"])
            return self._describe(self._find(name))
        return self._delete(name, query, body) if method == "DELETE" else None

    def _create(self, manifest: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        check_pod(manifest, NAMESPACE)
        pod = PodRecord(complete_manifest(manifest, NAMESPACE))
        with self._lock:
            if len(self.pods) >= self.quota:
                told = f"exceeded quota: sandboxes, used: pods={self.quota}, limited: pods"
                raise Rejected(403, "Forbidden", f'pods "{pod.name}" is forbidden: {told}')
            if query.get("dryRun") == "All":
                return pod.manifest
            self.pods[pod.name] = pod
        if not self.unschedulable:
            threading.Thread(target=self._node.start, args=(pod,)).start()
        return self._describe(pod)

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        wanted = dict(
            part.split("=", 1) for part in query.pop("labelSelector", "").split(",") if part
        )
        if query:
            raise Rejected(400, "BadRequest", f"unknown parameters {sorted(query)}")
        found = [pod for pod in list(self.pods.values()) if wanted.items() <= pod.labels.items()]
        items = [self._describe(pod) for pod in found]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _delete(self, name: str, query: dict[str, str], body: bytes) -> dict[str, Any]:
        pod = self._find(name)
        if "0" not in (query.get("gracePeriodSeconds"), str(_get_grace(body))):
            raise Rejected(400, "BadRequest", "a sandbox is deleted without a grace period")
        del self.pods[name]
        self._node.remove(pod)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _find(self, name: str) -> PodRecord:
        if name not in self.pods:
            raise Rejected(404, "NotFound", f'pods "{name}" not found')
        return self.pods[name]

    def _describe(self, pod: PodRecord) -> dict[str, Any]:
        status = self._node.describe_status(pod)
        if self.unschedulable:
            condition = {"type": "PodScheduled", "status": "False", "message": self.unschedulable}
            status = {"phase": "Pending", "conditions": [condition]}
        return {**pod.manifest, "status": status}

    # ------------------------------------------------------------------------------------- streams

    async def _serve_stream(self, websocket: WebSocket) -> None:
        self.requests.append(("GET", websocket.url.path))
        try:
            pod = await anyio.to_thread.run_sync(self._find_for_exec, websocket)
        except Rejected as refusal:
            await websocket.send_denial_response(make_refusal(refusal))
            return
        for listen in self.exec_listeners:
            listen(" ".join(websocket.query_params.getlist("command")))
        await websocket.accept(subprotocol=PROTOCOL)
        context = pod.manifest["spec"]["securityContext"]
        user = f"{context['runAsUser']}:{context['runAsGroup']}"
        await serve_exec(websocket, self._node.api, pod.container, user)
        with suppress(RuntimeError):
            await websocket.close()

    def _find_for_exec(self, websocket: WebSocket) -> PodRecord:
        self._check_token(websocket.headers.get("authorization"))
        self._check_right("EXEC")
        name = websocket.url.path.removeprefix(f"{_PODS}/").removesuffix("/exec")
        asked = set(websocket.query_params)
        if PROTOCOL not in websocket.scope["subprotocols"] or asked != _EXEC_KEYS:
            self.unexpected_requests.append(f"EXEC {websocket.url}")
            raise Rejected(400, "BadRequest", "unable to upgrade: unknown parameters")
        pod = self._find(name)
        if self._node.describe_status(pod)["phase"] != "Running":
            raise Rejected(
                500, "InternalError", "unable to upgrade connection: container not found"
            )
        return pod


def _get_grace(body: bytes) -> object:
    with suppress(ValueError, AttributeError):
        return json.loads(body or b"{}").get("gracePeriodSeconds")
    return None


def make_refusal(refusal: Rejected) -> JSONResponse:
    """The API's Status for a refusal."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(refusal),
        "reason": refusal.reason,
        "code": refusal.code,
    }
    return JSONResponse(status, refusal.code)
