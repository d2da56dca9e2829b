"""The door over loopback, beside the least that a receiver can do; needs a Redis.

Both serve from a process of their own, with the same server (uvicorn), and are asked in turns by
one load process with 16 connections. The body is a failed pipeline of 20 KB. Then ours alone, under
peers that are slow or lie.
"""

import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import redis

from tests.bench import slow_peers
from tests.bench.load import drive
from tests.bench.processes import running
from tests.unit.webhook.cases import payload

SECRET = "bench-webhook-secret-0123456789"
SIGNING = "whsec_" + base64.b64encode(SECRET.encode()).decode()
PATH = "/webhooks/gitlab"
SIZE = 20_000
ROUNDS = 5
AIM_IGNORED, AIM_ACCEPTED, AIM_P99 = 0.8, 1.3, 0.050

HEADERS = {
    "content-type": "application/json",
    "user-agent": "GitLab/19.1.0",
    "x-gitlab-event": "Pipeline Hook",
    "x-gitlab-token": SECRET,
    "x-gitlab-instance": "https://gitlab.example.com",
    "x-gitlab-webhook-uuid": "0f3c6f0e-2f6c-4c0e-9d3a-000000000000",
    "x-gitlab-event-uuid": "7d1c6f0e-2f6c-4c0e-9d3a-000000000000",
    "idempotency-key": "3a9c6f0e-2f6c-4c0e-9d3a-000000000000",
}

FLOOR = """
import hmac, json, os
from itertools import count
from pathlib import Path
from celery import Celery
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
import uvicorn
from worker.sessions.folder import FolderStore

records, numbers = FolderStore(Path(os.environ["STORE"])).records, count()
queue = Celery("floor", broker=os.environ["BROKER"], set_as_current=False)
queue.conf.task_ignore_result = True
secret = os.environ["SECRET"].encode()

@queue.task(name="run")
def run(project, pipeline, sha, ref, iid): ...

async def take(request):
    if not hmac.compare_digest(request.headers.get("x-gitlab-token", "").encode(), secret):
        return JSONResponse({}, 401)
    event = json.loads(await request.body())
    told = event["object_attributes"]
    if told["status"] != "failed":
        return JSONResponse({"ignored": "not failed"})
    about = (event["project"]["id"], told["id"], told["sha"], told["ref"],
             event["merge_request"]["iid"])
    records.create(f"journal/{told['id']}-{next(numbers)}.json", json.dumps(about).encode())
    asked = run.delay(*about)
    return JSONResponse({"trigger": asked.id}, 202)

app = Starlette(routes=[Route("/webhooks/gitlab", take, methods=["POST"]),
                        Route("/healthz", lambda request: JSONResponse({}))])
uvicorn.run(app, port=int(os.environ["PORT"]), log_config=None, access_log=False)
"""


def main() -> None:
    """Print requests per second of both, their ratio, and the latency at half load."""
    url = os.environ.get("SANDPIPER_TEST_REDIS")
    if not url:
        sys.exit("receiver: SANDPIPER_TEST_REDIS names no Redis: run `make bench`")
    print("receiver: requests/s, ours / floor / ratio (aim), 20 KB pipeline event, 16 connections")
    with tempfile.TemporaryDirectory() as folder, redis.Redis.from_url(url) as broker:
        with (
            running(("serve",), _ours(url, folder), folder) as ours,
            running((sys.executable, "-c", FLOOR), _theirs(url, folder), folder) as floor,
        ):
            ports = ours.port, floor.port
            _ratio("ignored: token + JSON", ports, "running", broker)
            most = _ratio("accepted: + a write, Celery delay", ports, "failed", broker)
            _half("accepted, at half of that", ours.port, most / 2, broker)
        signing = _ours(url, folder) | {"GITLAB_WEBHOOK_SECRET": SIGNING}
        with running(("serve",), signing, folder) as signed:
            slow_peers.main(signed, PATH, _forged())
        broker.flushdb()


def _ratio(what: str, ports: tuple[int, int], status: str, broker: "redis.Redis") -> float:
    expected, aim = (202, AIM_ACCEPTED) if status == "failed" else (200, AIM_IGNORED)
    rates: tuple[list[float], list[float]] = [], []
    for number in range(ROUNDS + 1):
        for port, kept in zip(ports, rates, strict=True):
            told = drive(port, PATH, HEADERS, _event(status), expected, seconds=1.5)
            broker.flushdb()
            if number:  # the first one warms up
                kept.append(told.rate)
    ours, bare = rates
    shares = median(mine / other for mine, other in zip(ours, bare, strict=True))
    row = f"{median(ours):7.0f} / {median(bare):7.0f} / {shares:5.2f}"
    print(f"  {what:36s} {row} (≥ {aim})")
    return median(ours)


def _half(what: str, door: int, rate: float, broker: "redis.Redis") -> None:
    times = [
        drive(door, PATH, HEADERS, _event("failed"), 202, seconds=2, rate=rate)
        for _ in range(ROUNDS)
    ]
    broker.flushdb()
    p50, p99 = (median(getattr(told, name) for told in times) for name in ("p50", "p99"))
    print(f"  {what:36s} p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms (< {AIM_P99 * 1000:.0f})")


def _event(status: str) -> bytes:
    """A pipeline event as large as those of some twenty jobs; every request has its own id."""
    event = json.loads(payload("pipeline__merge_request_failed"))
    event["object_attributes"] |= {"status": status, "id": 123456789}
    jobs, body = list(event["builds"]), b""
    for number in range(10_000):
        body = json.dumps(event).encode()
        if len(body) >= SIZE:
            break
        event["builds"].append({**jobs[number % len(jobs)], "id": 5_000_000 + number})
    return body


def _forged() -> dict[str, str]:
    """What a stranger can send to a webhook with a signing token, until the body has ended."""
    signature = f"v1,{base64.b64encode(bytes(32)).decode()}"
    return HEADERS | {
        "webhook-id": "1",
        "webhook-timestamp": str(int(time.time())),
        "webhook-signature": signature,
    }


def _ours(broker: str, folder: str) -> dict[str, str]:
    store = f"file://{folder}/ours"
    return {"SANDPIPER_BROKER": broker, "SANDPIPER_STORE": store, "GITLAB_WEBHOOK_SECRET": SECRET}


def _theirs(broker: str, folder: str) -> Mapping[str, str]:
    store = f"{folder}/theirs"
    return {"BROKER": broker, "STORE": store, "SECRET": SECRET, "PYTHONPATH": str(Path.cwd())}
