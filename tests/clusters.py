"""Strict loopback fakes of what sources read beside GitLab: Kubernetes with Tekton, Testing Farm.

What no client of ours should ask (another method, path, parameter, or a token where none belongs)
is answered 400 and kept in `unexpected_requests`.
"""

import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

Answer = tuple[int, bytes, Mapping[str, str]]
JSON = {"Content-Type": "application/json"}


class Loopback:
    """A server on a free port; a subclass answers in `get`. Wants the token `token` if it is set.

    `faults` maps a regex on the path to an answer that is given instead of the true one.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.asked: list[str] = []
        self.unexpected_requests: list[str] = []
        self.faults: dict[str, Answer] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Loopback":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def get(self, path: str, query: dict[str, str]) -> Answer:
        """The answer to a request that has passed the door."""
        return self.strange(path)

    def strange(self, what: str) -> Answer:
        """Refuse and remember."""
        self.unexpected_requests.append(what)
        return 400, b"{}", JSON

    def answer(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        """The answer to any request."""
        self.asked.append(target)
        parts = urlsplit(target)
        for pattern, fault in self.faults.items():
            if re.search(pattern, parts.path):
                return fault
        given = headers.get("Authorization", "")
        if method != "GET" or (given and not self.token):
            return self.strange(f"{method} {target} {given}")
        if self.token and given != f"Bearer {self.token}":
            return 401, b"{}", JSON
        return self.get(unquote(parts.path), dict(parse_qsl(parts.query, keep_blank_values=True)))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, extra = fake.answer(self.command, self.path, dict(self.headers))
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                if "Content-Length" not in extra:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def ok(value: Any) -> Answer:
    """200 with JSON."""
    return 200, json.dumps(value).encode(), JSON


def gone() -> Answer:
    """404 as Kubernetes says it."""
    return 404, json.dumps({"kind": "Status", "code": 404, "reason": "NotFound"}).encode(), JSON


class Cluster(Loopback):
    """A Kubernetes API server with one namespace of Tekton runs and pod logs (or KubeArchive)."""

    def __init__(self, namespace: str, token: str = "") -> None:
        super().__init__(token)
        self.namespace = namespace
        self.objects: dict[str, dict[str, dict[str, Any]]] = {"pipelineruns": {}, "taskruns": {}}
        self.logs: dict[tuple[str, str], bytes] = {}

    def add(self, kind: str, name: str, labels: Mapping[str, str], **status: Any) -> None:
        """A run; `status` is its status object."""
        created = f"2026-11-20T09:00:{len(self.objects[kind]):02d}Z"
        self.objects[kind][name] = {
            "apiVersion": "tekton.dev/v1",
            "metadata": {"name": name, "labels": dict(labels), "creationTimestamp": created},
            "spec": {"params": []},
            "status": status,
        }

    def get(self, path: str, query: dict[str, str]) -> Answer:
        tekton = rf"/apis/tekton\.dev/v1/namespaces/{self.namespace}/(pipelineruns|taskruns)"
        if found := re.fullmatch(tekton, path):
            return self._list(found[1], query)
        if (found := re.fullmatch(rf"{tekton}/([-a-z0-9.]+)", path)) and not query:
            run = self.objects[found[1]].get(found[2])
            return ok(run) if run else gone()
        pod = re.fullmatch(rf"/api/v1/namespaces/{self.namespace}/pods/([-a-z0-9]+)/log", path)
        if pod and set(query) == {"container"}:
            text = self.logs.get((pod[1], query["container"]))
            return gone() if text is None else (200, text, {"Content-Type": "text/plain"})
        if re.match(r"/(api|apis)/.*/namespaces/", path):
            return 403, b'{"kind":"Status","reason":"Forbidden"}', JSON
        return self.strange(f"{path} {query}")

    def _list(self, kind: str, query: dict[str, str]) -> Answer:
        if set(query) != {"labelSelector", "limit"} or "=" not in query["labelSelector"]:
            return self.strange(f"{kind} {query}")
        wanted = dict(pair.split("=") for pair in query["labelSelector"].split(","))
        items = [
            run
            for run in self.objects[kind].values()
            if wanted.items() <= run["metadata"]["labels"].items()
        ]
        limit = int(query["limit"])
        more = {"continue": "next"} if len(items) > limit else {}
        return ok({"kind": "List", "metadata": more, "items": items[:limit]})


class TestingFarm(Loopback):
    """Testing Farm's API and, on another path, the files of its results."""

    __test__ = False

    def __init__(self, token: str = "") -> None:
        super().__init__(token)
        self.requests: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}

    def get(self, path: str, query: dict[str, str]) -> Answer:
        if found := re.fullmatch(r"/v0\.1/requests/([-0-9a-f]{36})", path):
            request = self.requests.get(found[1])
            return ok(request) if request else gone()
        if path.startswith("/results/"):
            text = self.files.get(path)
            return gone() if text is None else (200, text, {"Content-Type": "application/xml"})
        return self.strange(f"{path} {query}")
