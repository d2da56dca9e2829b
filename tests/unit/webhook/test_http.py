import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from tests.accepting import one_by_one, queue_nothing
from tests.unit.webhook.cases import CASES, PROJECTS, headers, payload
from worker.conversation.triggers import Trigger, trigger_id
from worker.errors import ConfigError, QueueError
from worker.webhook.connections import MAX_BODY, Connection, build_server
from worker.webhook.http import PATH, build_app

SECRET = "a-long-secret"
TOKEN = {"x-gitlab-token": SECRET}
FAILED = "pipeline__merge_request_failed"


def door(
    queue: list[Trigger] | None = None,
    enqueue: Callable[[Trigger], None] | None = None,
    ready: Callable[[], str | None] = lambda: None,
) -> Starlette:
    taken: list[Trigger] = [] if queue is None else queue
    return build_app(SECRET, one_by_one(enqueue or taken.append), PROJECTS, lambda: 0.0, ready)


def send(
    app: Starlette,
    method: str = "POST",
    path: str = PATH,
    *,
    headers: dict[str, str] | None = None,
    content: bytes | AsyncIterator[bytes] = b"",
) -> httpx.Response:
    async def talk() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            return await client.request(method, path, headers=headers, content=content)

    return anyio.run(talk)


def deliver(app: Starlette, name: str) -> httpx.Response:
    return send(app, headers=TOKEN | headers(name), content=payload(name))


@pytest.mark.parametrize("name", CASES)
def test_every_delivery_is_answered_with_2xx(name: str) -> None:
    queue: list[Trigger] = []
    answer, expected = deliver(door(queue), name), CASES[name]
    if isinstance(expected, str):
        assert (answer.status_code, answer.json()) == (200, {"ignored": expected})
        assert queue == []
    else:
        assert (answer.status_code, answer.json()) == (202, {"trigger": trigger_id(expected)})
        assert queue == [expected]


def test_a_door_without_a_secret_is_not_built() -> None:
    with pytest.raises(ConfigError, match="GITLAB_WEBHOOK_SECRET"):
        build_app("", queue_nothing, (), lambda: 0.0, lambda: None)


def test_a_wrong_token_is_turned_away_before_the_body_is_read() -> None:
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"{")
        yield b"{"

    answer = send(door(), headers={"x-gitlab-token": "wrong"}, content=body())
    assert answer.status_code == 401
    assert answer.json() == {"error": "the X-Gitlab-Token header is wrong"}
    assert read == []


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]"])
def test_nonsense_with_the_right_token_is_a_400(body: bytes) -> None:
    answer = send(door(), headers=TOKEN | headers(FAILED), content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("not a GitLab event: the body: ")


@pytest.mark.parametrize("length", [str(MAX_BODY + 1), "9" * 19, "9" * 5000])
def test_a_body_announced_too_large_is_refused_unread(length: str) -> None:
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"x")
        yield b"x"

    answer = send(door(), headers=TOKEN | {"content-length": length}, content=body())
    assert answer.status_code == 413
    assert str(MAX_BODY) in answer.json()["error"]
    assert read == []


@pytest.mark.parametrize("length", ["-1", "x", "1.5", ""])
def test_a_content_length_that_is_no_number_is_a_400(length: str) -> None:
    answer = send(door(), headers=TOKEN | {"content-length": length}, content=b"{}")
    assert answer.status_code == 400


def test_a_body_that_grows_too_large_is_refused_without_reading_on() -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1024 * 1024
            yield bytes(1024 * 1024)

    answer = send(door(), headers=TOKEN | headers(FAILED), content=body())
    assert answer.status_code == 413
    assert sent <= MAX_BODY + 2 * 1024 * 1024


def test_a_body_of_exactly_the_limit_is_read() -> None:
    padded = payload(FAILED).rstrip() + b" " * (MAX_BODY - len(payload(FAILED).rstrip()))
    assert len(padded) == MAX_BODY
    assert send(door(), headers=TOKEN | headers(FAILED), content=padded).status_code == 202


def test_a_broker_that_is_down_is_a_503_that_says_when_to_come_again() -> None:
    def enqueue(trigger: Trigger) -> None:
        raise QueueError("redis://user:hunter2@broker refuses connections", transient=True)

    answer = deliver(door(enqueue=enqueue), FAILED)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "hunter2" not in answer.text
    assert list(answer.json()) == ["error"]


def test_a_broker_that_is_down_does_not_fail_what_is_ignored() -> None:
    def enqueue(trigger: Trigger) -> None:
        raise QueueError("down")

    assert deliver(door(enqueue=enqueue), "pipeline__running").status_code == 200


def test_a_slow_broker_does_not_stop_the_door() -> None:
    blocked, release = threading.Event(), threading.Event()

    def enqueue(trigger: Trigger) -> None:
        blocked.set()
        assert release.wait(10)

    app = door(enqueue=enqueue)
    answers: list[int] = []

    async def talk() -> None:
        transport = httpx.ASGITransport(app=app)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://door") as client,
            anyio.create_task_group() as group,
        ):

            async def post() -> None:
                answer = await client.post(
                    PATH, headers=TOKEN | headers(FAILED), content=payload(FAILED)
                )
                answers.append(answer.status_code)

            group.start_soon(post)
            assert await anyio.to_thread.run_sync(blocked.wait, 10)
            answers.append((await client.get("/healthz")).status_code)
            release.set()

    anyio.run(talk)
    assert answers == [200, 202]


def test_a_broker_that_never_answers_is_a_503_in_time() -> None:
    release = threading.Event()

    def enqueue(trigger: Trigger) -> None:
        release.wait(10)

    app = build_app(SECRET, one_by_one(enqueue), (), lambda: 0.0, lambda: None, queue_seconds=0.05)
    started = time.monotonic()
    answer = send_to_blocked(app, release)
    assert answer.status_code == 503
    assert time.monotonic() - started < 5


def test_a_readiness_check_that_never_answers_is_a_503_in_time() -> None:
    release = threading.Event()

    def ready() -> str | None:
        release.wait(10)
        return None

    app = build_app(SECRET, queue_nothing, (), lambda: 0.0, ready, queue_seconds=0.05)
    answer = send_to_blocked(app, release, "GET", "/readyz")
    assert (answer.status_code, list(answer.json())) == (503, ["error"])


def test_a_body_that_never_ends_is_a_408() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep(10)

    app = build_app(SECRET, queue_nothing, (), lambda: 0.0, lambda: None, body_seconds=0.05)
    answer = send(app, headers=TOKEN | headers(FAILED), content=body())
    assert (answer.status_code, list(answer.json())) == (408, ["error"])


def test_readiness_tells_its_reason() -> None:
    assert send(door(), "GET", "/readyz").json() == {"status": "ready"}
    answer = send(door(ready=lambda: "the broker\nis down"), "GET", "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"error": "the broker is down"})


def test_health_needs_no_token_and_no_broker() -> None:
    answer = send(door(ready=lambda: "the broker is down"), "GET", "/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/", "/webhooks", PATH + "/", "/webhooks/gitlab/x", "//"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_a_404_that_names_the_right_one(method: str, path: str) -> None:
    answer = send(door(), method, path, headers=TOKEN)
    assert answer.status_code == 404
    assert f"POST {PATH}" in answer.json()["error"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_the_right_path_by_the_wrong_method_is_a_405_that_says_so(method: str) -> None:
    answer = send(door(), method, PATH)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert "right address" in answer.json()["error"]


def test_each_delivery_is_one_log_line_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sandpiper.webhook")
    deliver(door(), FAILED)
    deliver(door(), "pipeline__running")
    send(door(), headers={"x-gitlab-token": "wr0ng"}, content=b"{}")
    lines = [
        record.getMessage() for record in caplog.records if record.name.startswith("sandpiper")
    ]
    assert lines == [
        f"event='Pipeline Hook' project=platform/certs accepted pipeline {trigger_id(trigger())}",
        "event='Pipeline Hook' project=platform/certs ignored: the pipeline is running, not failed",
        "event='-' project=- rejected 401: the X-Gitlab-Token header is wrong",
    ]
    assert not any(word in line for line in lines for word in (SECRET, "wr0ng", "renewal"))


def test_a_hostile_header_or_path_cannot_forge_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "sandpiper.webhook")
    body = json.loads(payload(FAILED))
    body["project"]["path_with_namespace"] = "a/b\nevent='x'\x1b[31m" + "y" * 1500
    send(door(), headers=TOKEN | headers(FAILED), content=json.dumps(body).encode())
    line = caplog.records[-1].getMessage()
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 1000


def send_to_blocked(
    app: Starlette, release: threading.Event, method: str = "POST", path: str = PATH
) -> httpx.Response:
    """One request; what the app left blocked is let go once the answer is there."""

    async def talk() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
                return await client.request(
                    method, path, headers=TOKEN | headers(FAILED), content=payload(FAILED)
                )
        finally:
            release.set()

    return anyio.run(talk)


def trigger() -> Trigger:
    expected = CASES[FAILED]
    assert not isinstance(expected, str)
    return expected


@contextmanager
def serving(app: Starlette, kind: type[Connection] = Connection) -> Iterator[int]:
    """The product's server on a free port; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = build_server(app, "127.0.0.1", 0, kind)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


def stream(port: int, head: str, megabytes: int) -> tuple[bytes, int]:
    """Send a chunked body until the server answers; the answer, and the MB sent by then."""
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(head.encode())
        for sent in range(megabytes):
            link.setblocking(False)
            try:
                answer = link.recv(4096)
            except BlockingIOError:
                link.settimeout(10)
                link.sendall(piece)
            else:
                return answer, sent
        link.settimeout(10)
        return link.recv(4096), megabytes


HEAD = (
    f"POST {PATH} HTTP/1.1\r\nHost: door\r\nX-Gitlab-Event: Pipeline Hook\r\n"
    "Transfer-Encoding: chunked\r\nX-Gitlab-Token: {token}\r\n\r\n"
)


def test_an_endless_body_is_cut_off_by_a_real_server() -> None:
    queue: list[Trigger] = []
    with serving(door(queue)) as port:
        answer, sent = stream(port, HEAD.format(token=SECRET), 200)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert 25 <= sent < 60
    assert queue == []


def test_an_endless_body_of_a_stranger_is_cut_off_at_once() -> None:
    with serving(door()) as port:
        answer, sent = stream(port, HEAD.format(token="wrong"), 200)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert sent < 20


def test_a_sender_that_hangs_up_leaves_the_server_well() -> None:
    with serving(door()) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
            link.sendall(HEAD.format(token=SECRET).encode() + b"5\r\nhello\r\n")
        deadline = time.monotonic() + 10
        while httpx.get(f"http://127.0.0.1:{port}/healthz").status_code != 200:
            assert time.monotonic() < deadline
        answer = httpx.post(
            f"http://127.0.0.1:{port}{PATH}",
            headers=TOKEN | headers(FAILED),
            content=payload(FAILED),
        )
    assert answer.status_code == 202
