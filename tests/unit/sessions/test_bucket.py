"""What S3's wire looks like, and its failures: against moto, and a server that follows a script."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest

from tests.stores import S3Server
from worker.conversation.context import SessionKey
from worker.errors import StoreError, TurnTaken
from worker.sessions.bucket import PART, S3Store
from worker.sessions.store import Claim

KEY = SessionKey(7, 42, "0123456789abcdef0123")
SESSION = boto3.Session("testing", "testing", region_name="us-east-1")


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Say:
    """An answer; `cut` hangs up instead of, or in the middle of, answering."""

    status: int = 200
    code: str = ""
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"v1"'})
    cut: bool = False

    def content(self) -> bytes:
        text = f"<Error><Code>{self.code}</Code><Message>no\nway</Message></Error>"
        return text.encode() if self.code else self.body


Script = Callable[[Seen, list[Seen]], Say]


@contextmanager
def scripted(script: Script) -> Iterator[tuple[str, list[Seen]]]:
    """A server on loopback that answers as `script(request, all requests before)` says."""
    seen: list[Seen] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Seen(self.command, self.path, headers, self.rfile.read(length))
            said = script(request, seen)
            seen.append(request)
            if said.cut and not said.body:
                self.close_connection = True
                return
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            announced = len(said.content()) + (1000 if said.cut else 0)
            self.send_header("content-length", str(announced))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said.content())
            self.close_connection = self.close_connection or said.cut

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def store(endpoint: str, attempts: int = 1) -> S3Store:
    return S3Store("bucket", "pre", endpoint, session=SESSION, attempts=attempts, read_timeout=5)


def test_a_commit_is_a_conditional_put_that_every_imitation_of_s3_understands() -> None:
    with scripted(lambda request, before: Say()) as (endpoint, seen):
        store(endpoint).commit_turn(KEY, 0, b'{"a": 1}')
    put = next(request for request in seen if request.path.endswith("context.json"))
    name = f"/bucket/pre/sessions/7/42/{KEY.session_id}/0000/context.json"
    assert (put.method, put.path, put.body) == ("PUT", name, b'{"a": 1}')
    assert put.headers["if-none-match"] == "*"
    assert put.headers["authorization"].startswith("AWS4-HMAC-SHA256 ")
    assert not [name for name in put.headers if name.startswith("x-amz-checksum")]
    assert "content-encoding" not in put.headers


def test_a_takeover_and_a_release_name_the_version_they_saw() -> None:
    held = b'{"owner": "dead", "trigger_id": "t", "until": 1}'

    def script(request: Seen, before: list[Seen]) -> Say:
        return Say(body=held if request.method == "GET" else b"", headers={"ETag": '"v1"'})

    with scripted(script) as (endpoint, seen):
        assert store(endpoint).claim_turn(KEY, 0, Claim("heir", "t", 9.0), 2.0) is None
        store(endpoint).release_turn(KEY, 0, Claim("dead", "t", 1.0))
    changes = [request for request in seen if request.headers.get("if-match")]
    assert [(each.method, each.headers["if-match"]) for each in changes] == [
        ("PUT", '"v1"'),
        ("DELETE", '"v1"'),
    ]


def test_a_lost_answer_does_not_make_a_commit_look_taken() -> None:
    def script(request: Seen, before: list[Seen]) -> Say:
        puts = [each for each in before if each.path.endswith("context.json")]
        if request.path.endswith("context.json") and request.method == "PUT":
            return Say(412, "PreconditionFailed") if puts else Say(cut=True)
        if request.method == "HEAD":
            writer = puts[0].headers["x-amz-meta-writer"]
            return Say(headers={"ETag": '"v1"', "x-amz-meta-writer": writer})
        return Say()

    with scripted(script) as (endpoint, seen):
        store(endpoint, attempts=2).commit_turn(KEY, 0, b"{}")
    assert [each.method for each in seen if each.path.endswith("context.json")] == [
        "PUT",
        "PUT",
        "HEAD",
    ]


def test_a_commit_of_somebody_else_is_not_taken_for_a_lost_answer() -> None:
    def script(request: Seen, before: list[Seen]) -> Say:
        if request.path.endswith("context.json"):
            theirs = Say(headers={"ETag": '"v1"', "x-amz-meta-writer": "theirs"})
            return theirs if request.method == "HEAD" else Say(412, "PreconditionFailed")
        return Say()

    with scripted(script) as (endpoint, _), pytest.raises(TurnTaken):
        store(endpoint).commit_turn(KEY, 0, b"{}")


def test_a_write_that_collides_with_another_is_tried_again() -> None:
    def script(request: Seen, before: list[Seen]) -> Say:
        if request.path.endswith("context.json") and len(before) < 3:
            return Say(409, "ConditionalRequestConflict")
        return Say()

    with scripted(script) as (endpoint, seen):
        store(endpoint).commit_turn(KEY, 0, b"{}")
    assert len([each for each in seen if each.path.endswith("context.json")]) == 3


@pytest.mark.parametrize(
    ("said", "words", "transient"),
    [
        (Say(404, "NoSuchBucket"), "create the bucket, or correct the store's address", False),
        (Say(403, "AccessDenied"), "set AWS_ACCESS_KEY_ID", False),
        (Say(403, "SignatureDoesNotMatch"), "set AWS_ACCESS_KEY_ID", False),
        (Say(501, "NotImplemented"), "honours conditional writes", True),
        (Say(503, "SlowDown"), "SlowDown", True),
        (Say(500, "InternalError"), "InternalError", True),
        (Say(502, body=b"<html>Bad gateway</html>"), "502", True),
        (Say(200, body=b"<html><br>not S3"), "cannot list", True),
        (Say(cut=True), "it closed the connection without an answer", True),
    ],
    ids=lambda value: value.code if isinstance(value, Say) else None,
)
def test_a_failing_store_says_what_failed_where_and_what_to_do(
    said: Say, words: str, transient: bool
) -> None:
    with (
        scripted(lambda request, before: said) as (endpoint, _),
        pytest.raises(StoreError) as caught,
    ):
        list(store(endpoint).list_sessions())
    assert words in str(caught.value)
    assert "s3://bucket/pre/sessions/" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.transient is transient


def test_an_endpoint_where_nobody_listens_is_a_transient_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        StoreError, match=f"no answer from http://127.0.0.1:{port}: nothing"
    ) as caught:
        store(f"http://127.0.0.1:{port}").read_context(KEY, 0)
    assert caught.value.transient


def test_missing_credentials_are_said_plainly(
    monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    nobody = S3Store("bucket", "", s3_server.endpoint, session=boto3.Session())
    with pytest.raises(StoreError, match=r"Unable to locate credentials.*AWS_ACCESS_KEY_ID"):
        nobody.find_latest_turn(KEY)


def test_a_download_that_breaks_off_is_a_transient_error() -> None:
    def script(request: Seen, before: list[Seen]) -> Say:
        return Say(
            body=b"half" + b"x" * 1000 * (request.method == "HEAD"), cut=request.method == "GET"
        )

    with scripted(script) as (endpoint, _):
        files = store(endpoint).open_files(KEY, 0)
        assert files is not None
        with (
            pytest.raises(StoreError, match=r"cannot read .*sandbox\.tar\.gz") as caught,
            files as chunks,
        ):
            list(chunks)
        assert caught.value.transient
        with pytest.raises(StoreError, match=r"cannot read .*context\.json") as caught:
            store(endpoint).read_context(KEY, 0)
        assert caught.value.transient


def test_an_object_that_is_too_large_is_refused_unread() -> None:
    def script(request: Seen, before: list[Seen]) -> Say:
        return Say(body=b" " * 100_000 if request.method == "GET" else b"")

    with (
        scripted(script) as (endpoint, _),
        pytest.raises(StoreError, match=r"more than 66048 bytes"),
    ):
        store(endpoint).claim_turn(KEY, 0, Claim("a", "t", 1.0), 0.0)


def test_a_broken_upload_is_aborted(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()

    def broken() -> Iterator[bytes]:
        yield bytes(2 * PART + 1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        s3_server.store(bucket).write_files(KEY, 0, broken())
    assert "Uploads" not in s3_server.client.list_multipart_uploads(Bucket=bucket)


def test_the_parts_of_an_upload_are_equal_but_for_the_last(s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    s3_server.store(bucket, "").write_files(KEY, 0, [bytes(PART + 5), bytes(PART), bytes(3)])
    name = f"sessions/7/42/{KEY.session_id}/0000/sandbox.tar.gz"
    sizes = [
        s3_server.client.head_object(Bucket=bucket, Key=name, PartNumber=number)["ContentLength"]
        for number in (1, 2, 3)
    ]
    assert sizes == [PART, PART, 8]


def test_a_listing_of_many_pages_is_read_as_far_as_it_is_asked_for() -> None:
    def script(request: Seen, before: list[Seen]) -> Say:
        last = "continuation-token=page3" in request.path
        name = f"pre/sessions/7/42/{len(before):020x}/0000/context.json"
        token = "" if last else f"<NextContinuationToken>page{len(before) + 2}"
        return Say(
            body=(
                f"<ListBucketResult><IsTruncated>{str(not last).lower()}</IsTruncated>"
                f"{token}{'</NextContinuationToken>' if token else ''}"
                f"<Contents><Key>{name}</Key></Contents></ListBucketResult>"
            ).encode()
        )

    with scripted(script) as (endpoint, seen):
        sessions = store(endpoint).list_sessions()
        assert next(sessions).session_id == f"{0:020x}"
        assert len(seen) == 1
        assert [key.session_id for key in sessions] == [f"{1:020x}", f"{2:020x}"]
        assert len(seen) == 3


def strip(name: str) -> Callable[..., None]:
    def forget(request: Any, **kwargs: Any) -> None:
        del request.headers[name]

    return forget


@pytest.mark.parametrize("name", ["If-None-Match", "If-Match"])
def test_the_probe_finds_out_a_store_that_ignores_conditions(
    s3_server: S3Server, name: str
) -> None:
    session = boto3.Session("testing", "testing", region_name="us-east-1")
    session.events.register("before-sign.s3.PutObject", strip(name))
    bucket = s3_server.bucket()
    careless = S3Store(bucket, "", s3_server.endpoint, session=session)
    with pytest.raises(StoreError, match="ignores conditional writes"):
        careless.probe()
    assert "Contents" not in s3_server.client.list_objects_v2(Bucket=bucket)


def test_the_probe_of_a_missing_bucket_says_to_create_it(s3_server: S3Server) -> None:
    with pytest.raises(StoreError, match=r"cannot write .*create the bucket"):
        s3_server.store("no-such-bucket").probe()
