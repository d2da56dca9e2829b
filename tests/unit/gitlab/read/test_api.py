import gzip
import io
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import requests
from urllib3 import HTTPResponse

from tests.simulators.gitlab import GitLabSim, Scene
from worker.errors import SourceError
from worker.gitlab.client import (
    MAX_WAIT,
    Connections,
    TooMuch,
    decode_json,
    explain_failure,
    read_chunks,
    read_date,
)
from worker.gitlab.read import wire
from worker.gitlab.read.api import NotFound, ReadClient
from worker.gitlab.read.blobs import keep_ends


@pytest.mark.parametrize(
    ("size", "step", "cap"),
    [(0, 1, 8), (1, 1, 8), (8, 3, 8), (9, 3, 8), (100, 7, 8), (1000, 1000, 8), (1000, 1, 16)],
)
def test_two_ends_are_kept_however_the_bytes_arrive(size: int, step: int, cap: int) -> None:
    data = bytes(number % 251 for number in range(size))
    blob = keep_ends((data[at : at + step] for at in range(0, size, step)), cap)
    assert blob.size == size
    if size <= cap:
        assert blob.head + blob.tail == data
        assert blob.omitted_bytes == 0
    else:
        assert blob.head == data[: cap // 4]
        assert blob.tail == data[-(cap - cap // 4) :]
        assert blob.omitted_bytes == size - cap


def test_an_endless_log_is_read_in_bounded_memory() -> None:
    held: list[int] = []

    def chunks() -> Iterator[bytes]:
        for _ in range(3000):
            yield b"x" * 1000
            held.append(1)

    blob = keep_ends(chunks(), 4000)
    assert (len(blob.head), len(blob.tail), blob.size) == (1000, 3000, 3_000_000)


STATUSES = [
    (401, True, "GITLAB_READ_TOKEN revoked or expired"),
    (403, False, "too little access to the project"),
    (404, False, "not found, or the read token may not see it"),
    (409, True, "answered 409"),
    (422, False, "answered 422: 422 simulated"),
    (429, True, "rate limit is reached; try again later"),
    (500, True, "answered 500; try again later"),
    (502, True, "answered 502; try again later"),
]


@pytest.mark.parametrize(("status", "transient", "text"), STATUSES)
def test_every_refusal_says_what_it_was_and_what_to_do(
    sim: GitLabSim, client: ReadClient, status: int, transient: bool, text: str
) -> None:
    sim.fail_next("GET", "/projects/", status, times=9, headers={"Retry-After": "0"})
    with pytest.raises(SourceError, match=f"project 501: .*{re.escape(text)}") as caught:
        client.one("/projects/501", wire.Project, "project 501")
    assert caught.value.transient is transient
    assert isinstance(caught.value, NotFound) is (status == 404)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_read_is_tried_again_when_that_may_help(
    sim: GitLabSim, scene: Scene, client: ReadClient, status: int
) -> None:
    sim.fail_next("GET", "/projects/", status, times=2, headers={"Retry-After": "0"})
    found = client.one(f"/projects/{scene.project.id}", wire.Project, "the project")
    assert found.path_with_namespace == "team/service"
    assert [seen.status for seen in sim.requests] == [status, status, 200]


@pytest.mark.parametrize("wait", ["99999999", "Fri, 20 Nov 2026 09:00:00 GMT", "-5"])
def test_a_rate_limit_cannot_hold_a_worker_for_long(
    sim: GitLabSim, scene: Scene, wait: str
) -> None:
    sim.fail_next(
        "GET", "/user", 429, headers={"Retry-After": wait, "RateLimit-Reset": "99999999999"}
    )
    connection = Connections(sim.url, scene.read_token, (2.0, 2.0)).get()
    response = connection.session.get(f"{sim.url}/api/v4/user", timeout=2)
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) <= MAX_WAIT
    assert "RateLimit-Reset" not in response.headers


def test_a_wait_that_is_told_as_a_date_is_as_long_as_it_says(sim: GitLabSim, scene: Scene) -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=6), usegmt=True)
    sim.fail_next("GET", "/user", 429, headers={"Retry-After": until})
    connection = Connections(sim.url, scene.read_token, (2.0, 2.0)).get()
    response = connection.session.get(f"{sim.url}/api/v4/user", timeout=2)
    assert 1 <= int(response.headers["Retry-After"]) <= 7


@pytest.mark.parametrize(
    ("ahead", "status", "waits"),
    [(4.0, 429, (3, 4)), (99999.0, 429, (MAX_WAIT, MAX_WAIT)), (-9.0, 429, (0, 0)), (4.0, 200, ())],
)
def test_without_a_retry_after_the_rate_limits_reset_is_waited_for(
    sim: GitLabSim, scene: Scene, ahead: float, status: int, waits: tuple[int, ...]
) -> None:
    reset = str(int(time.time() + ahead))
    sim.fail_next("GET", "/user", status, headers={"RateLimit-Reset": reset})
    connection = Connections(sim.url, scene.read_token, (2.0, 2.0)).get()
    headers = connection.session.get(f"{sim.url}/api/v4/user", timeout=2).headers
    if waits:
        assert waits[0] <= int(headers["Retry-After"]) <= waits[1]
    else:
        assert "Retry-After" not in headers


def test_an_unknown_token_is_named_as_the_cause(sim: GitLabSim, scene: Scene) -> None:
    client = ReadClient(sim.url, "glpat-of-somebody-else")
    with pytest.raises(SourceError, match="GitLab refuses the read token") as caught:
        client.one("/user", wire.User, "the token's user")
    assert caught.value.doubtful
    assert "glpat" not in str(caught.value)


def test_a_token_without_the_scope_is_told_which_one_it_needs(sim: GitLabSim, scene: Scene) -> None:
    token = sim.add_token("repo", scene.bot, "read_repository")
    with pytest.raises(SourceError, match=r"GITLAB_READ_TOKEN has not the scope.*read_api"):
        ReadClient(sim.url, token).one("/projects/501", wire.Project, "project 501")


def test_a_guest_of_a_private_project_is_told_that_access_is_too_low(sim: GitLabSim) -> None:
    project, user = sim.add_project("team/private"), sim.add_user("gus")
    project.members[user.id] = 10  # type: ignore[assignment]
    client = ReadClient(sim.url, sim.add_token("read", user, "read_api"))
    with pytest.raises(SourceError, match="too little access"):
        client.one(f"/projects/{project.id}/pipelines/1", wire.Pipeline, "pipeline 1")


def test_a_server_that_is_not_there_is_transient() -> None:
    client = ReadClient("http://127.0.0.1:9", "t", timeout=(0.5, 0.5), retries=0)
    with pytest.raises(SourceError, match=r"from http://127\.0\.0\.1:9: nothing") as caught:
        client.one("/user", wire.User, "the user")
    assert caught.value.transient


def test_a_silent_server_ends_in_a_time_out(sim: GitLabSim, scene: Scene) -> None:
    sim.fail_next("GET", "/user", 0, delay=0.4)
    client = ReadClient(sim.url, scene.read_token, timeout=(1.0, 0.1), retries=0)
    with pytest.raises(SourceError, match="did not answer in time") as caught:
        client.one("/user", wire.User, "the user")
    assert caught.value.transient


def test_an_answer_that_breaks_off_is_transient(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    sim.fail_next("GET", "/user", drop=True)
    with pytest.raises(SourceError, match="its answer broke off") as caught:
        client.one("/user", wire.User, "the user")
    assert caught.value.transient


def test_gitlabs_clock_is_read_from_the_dates_of_its_answers(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    assert client.get_time() is None
    path = f"/projects/{scene.project.id}"
    client.with_deadline(time.monotonic() + 9.0).one(path, wire.Project, "the project")
    shown = client.get_time()
    assert shown is not None
    assert abs(shown - time.time()) < 5.0  # a header has whole seconds


@pytest.mark.parametrize(
    ("header", "date"), [("Thu, 01 Jan 1970 00:01:40 GMT", 100.0), ("soon", None), (None, None)]
)
def test_a_date_that_is_none_says_no_time(header: str | None, date: float | None) -> None:
    response = requests.Response()
    response.headers.update({"Date": header} if header else {})
    assert read_date(response) == date


def test_the_token_does_not_follow_a_redirect(sim: GitLabSim, client: ReadClient) -> None:
    with GitLabSim() as elsewhere:
        target = f"{elsewhere.url}/api/v4/user"
        sim.fail_next("GET", "/user", 302, headers={"Location": target})
        with pytest.raises(SourceError, match=f"redirects to {target}: set gitlab.url to"):
            client.one("/user", wire.User, "the user")
        assert elsewhere.requests == []


def test_a_renamed_project_is_found_by_its_former_path(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    project = f"{sim.url}/api/v4/projects/{scene.project.id}"
    old = "/projects/team%2Fold"
    sim.fail_next("GET", "/projects/team(%2F|/)old$", 302, headers={"Location": project})
    assert client.one(old, wire.Project, "it").path_with_namespace == scene.project.path
    moved = f"{project}/merge_requests?per_page=1"
    sim.fail_next("GET", "old/merge_requests", 302, headers={"Location": moved})
    (found,) = client.page(f"{old}/merge_requests", wire.MergeRequest, "them", 1, 20).items
    assert found.iid == scene.mr.iid
    for twisted in (f"{sim.url}/api/v4/user", f"{sim.url}/api/v4/projects/1x", f"{project}0.evil/"):
        sim.fail_next("GET", "/projects/", 302, headers={"Location": twisted})
        with pytest.raises(SourceError, match="redirects to"):
            client.one(old, wire.Project, "it")


def test_an_answer_without_a_needed_field_names_the_field(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    with pytest.raises(SourceError, match="no usable path_with_namespace"):
        client.one("/user", wire.Project, "the user")


def test_a_page_that_is_not_json_points_at_the_url(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    path = f"/projects/{scene.project.id}/jobs/{scene.job.id}/trace"
    with pytest.raises(
        SourceError, match=r"something else than JSON: set gitlab\.url to where GitLab"
    ):
        client.one(path, wire.Job, "job")


def test_an_answer_over_the_cap_is_refused() -> None:
    response = requests.Response()
    body = io.BytesIO(b"[" + b"1," * 500 + b"1]")
    response.status_code, response.raw = 200, HTTPResponse(body, preload_content=False)
    with pytest.raises(TooMuch, match="larger than 1000 bytes") as caught:
        decode_json(response, 1000)
    assert explain_failure(caught.value, "the diff", "read", "https://g.example").text == (
        "the diff: GitLab's answer is refused: larger than 1000 bytes"
    )


@pytest.mark.parametrize("framing", ["Content-Length: 900", "Transfer-Encoding: chunked"])
def test_a_body_that_drips_is_given_up_in_time(framing: str) -> None:
    head = f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode()
    drop = b"1\r\nx\r\n" if "chunked" in framing else b"x"

    def drip(server: socket.socket) -> None:
        with server.accept()[0] as peer, suppress(OSError):
            peer.sendall(head)
            for _ in range(90):
                peer.sendall(drop)
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        begun = time.monotonic()
        client = ReadClient(
            f"http://127.0.0.1:{server.getsockname()[1]}", "t", deadline=begun + 0.5
        )
        with pytest.raises(SourceError, match="still sending"):
            list(client.stream("/x", "it", 1000))
        assert time.monotonic() - begun < 3.0


def test_a_compressed_body_is_unpacked_whole() -> None:
    body = b"one line\n" * 50_000
    response, packed = requests.Response(), io.BytesIO(gzip.compress(body))
    headers = {"Content-Encoding": "gzip"}
    response.raw = HTTPResponse(packed, headers=headers, preload_content=False)
    assert b"".join(read_chunks(response)) == body


def test_an_object_where_a_list_was_asked_for_is_refused(
    sim: GitLabSim, scene: Scene, client: ReadClient
) -> None:
    # The strict simulator would refuse the paging parameters of `/user`.
    sim.fail_next("GET", "/user", 200)
    with pytest.raises(SourceError, match="not a list"):
        client.many("/user", wire.User, "users")


@pytest.mark.parametrize(("count", "pages", "got", "more"), [
    (0, 3, 0, False),
    (100, 3, 100, False),
    (101, 3, 101, False),
    (300, 3, 300, False),
    (301, 3, 300, True),
])  # fmt: skip
def test_lists_are_read_page_by_page_up_to_a_cap(
    sim: GitLabSim, scene: Scene, client: ReadClient, count: int, pages: int, got: int, more: bool
) -> None:
    scene.mr.commits *= count
    path = f"/projects/{scene.project.id}/merge_requests/{scene.mr.iid}/commits"
    listing = client.many(path, wire.Commit, "commits", pages=pages)
    assert (len(listing.items), listing.more) == (got, more)


def test_each_thread_has_its_own_connection(sim: GitLabSim, scene: Scene) -> None:
    connections = Connections(sim.url, scene.read_token, (1.0, 1.0))
    found = [connections.get(), connections.get()]
    other = threading.Thread(target=lambda: found.append(connections.get()))
    other.start()
    other.join(5)
    assert found[0] is found[1]
    assert found[2] is not found[0]
