"""What the simulators of odd answers say, and that they say it only where they were asked to."""

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.simulators.gitlab import GitLabSim, OddGitLab, make_failing_merge_request
from tests.simulators.odd_answers import OddS3
from tests.simulators.s3_gateway import S3Gateway
from tests.stores import S3Server, running_s3
from worker.sessions.bucket import connect_bucket

KINDS = {
    OddGitLab.PAGE: (200, "text/html"),
    OddGitLab.LOGIN: (302, "text/html"),
    OddGitLab.UNAUTHORIZED: (401, "application/json"),
    OddGitLab.FORBIDDEN: (403, "text/html"),
    OddGitLab.MISSING: (404, "application/json"),
    OddGitLab.EMPTY: (200, "application/json"),
}


@pytest.mark.parametrize("kind", list(OddGitLab))
def test_gitlab_answers_oddly_as_often_as_it_was_asked_to(kind: OddGitLab) -> None:
    with GitLabSim() as sim:
        scene = make_failing_merge_request(sim)
        url, headers = f"{sim.url}/api/v4/user", {"PRIVATE-TOKEN": scene.read_token}
        sim.answer_next(kind, "GET", "/user$", times=2)
        with sim.answering(kind, path="/nothing"):
            answers = [httpx.get(url, headers=headers) for _ in range(3)]
        status, media = KINDS[kind]
        assert [each.status_code for each in answers] == [status, status, 200]
        assert answers[0].headers["content-type"].startswith(media)
        assert [(each.kind, each.path) for each in sim.given] == [(kind, "/api/v4/user")] * 2


def test_a_write_is_carried_out_after_it_was_answered() -> None:
    with GitLabSim() as sim:
        scene = make_failing_merge_request(sim)
        place = f"{sim.url}/api/v4/projects/{scene.project.id}/merge_requests/{scene.mr.iid}/notes"
        sim.carry_out_late("POST", "/notes$", 0.2)
        headers = {"PRIVATE-TOKEN": scene.write_token}
        assert httpx.post(place, headers=headers, json={"body": "late"}).status_code == 504
        assert scene.mr.list_notes() == []
        deadline = time.monotonic() + 10
        while not scene.mr.list_notes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [note.body for note in scene.mr.list_notes()] == ["late"]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3() as running:
        yield running


@pytest.mark.parametrize("kind", list(OddS3))
def test_the_gateway_gives_a_wrong_200_and_then_what_the_server_has(
    kind: OddS3, server: S3Server
) -> None:
    bucket = server.bucket()
    server.client.put_object(Bucket=bucket, Key="journal/1", Body=b"0123456789")
    with S3Gateway(server.endpoint) as gateway:
        client = connect_bucket(server.session, gateway.url, attempts=1, read_timeout=10)
        gateway.answer_next(kind, "GET", "/journal/")
        odd, true = (client.get_object(Bucket=bucket, Key="journal/1") for _ in range(2))
        assert odd["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert odd["Body"].read() != b"0123456789"
        assert true["Body"].read() == b"0123456789"
        assert ("ETag" in odd) == (kind is OddS3.HALF)
        assert [each.kind for each in gateway.given] == [kind]
        assert client.head_object(Bucket=bucket, Key="journal/1")["ContentLength"] == 10
