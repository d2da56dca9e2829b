"""The doctor at a receiver that is none of ours, or takes what nobody signed."""

from collections.abc import Callable, Iterator

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.unit.doctor.bed import SECRET, Bed
from worker.doctor.base import CheckStatus
from worker.lab.loopback import Loopback
from worker.settings.gitlab import derive_secret

Answering = Callable[[dict[str, int]], str]


@pytest.fixture
def hidden() -> Iterator[str]:
    """The address of a receiver behind what forwards the webhook alone."""

    async def answer(request: Request) -> Response:
        if request.url.path != "/webhooks/gitlab":
            return JSONResponse({"error": "default backend"}, 404)
        known = request.headers["X-Gitlab-Token"] == SECRET
        return JSONResponse({}, 200 if known else 401)

    running = Loopback("receiver", answer)
    yield running.start()
    running.stop()


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Serves statuses by the end of the path; 200 for all others."""
    running: list[Loopback] = []

    def start(statuses: dict[str, int]) -> str:
        async def answer(request: Request) -> Response:
            leaf = request.url.path.rpartition("/")[2]
            return JSONResponse({"error": "of this kind"}, statuses.get(leaf, 200))

        running.append(Loopback("receiver", answer))
        return running[0].start()

    yield start
    for each in running:
        each.stop()


@pytest.mark.parametrize(
    ("statuses", "name", "found"),
    [
        ({"healthz": 404, "gitlab": 404}, "receiver", "is something else than Sandpiper"),
        ({"healthz": 404}, "signature", "a forged event was answered with 200, not 401"),
        ({"healthz": 404, "gitlab": 401}, "signature", "the receiver runs with another secret"),
        ({"readyz": 503}, "receiver", "it is not ready"),
        ({"gitlab": 200}, "signature", "a forged event was answered with 200, not 401"),
        ({"gitlab": 401}, "signature", "the receiver runs with another secret"),
        ({"gitlab": 502}, "signature", "a forged event was answered with 502"),
    ],
)
def test_a_receiver_that_is_not_right_is_said_to_be(
    patient: Bed, answering: Answering, statuses: dict[str, int], name: str, found: str
) -> None:
    patient.url = answering(statuses)
    lines = [line for line in patient.lines("receiver") if line.status is CheckStatus.FAILED]
    assert name in [line.name for line in lines]
    assert found in " / ".join(line.finding for line in lines)


def test_a_receiver_whose_health_is_not_forwarded_is_known_by_what_it_refuses(
    patient: Bed, hidden: str
) -> None:
    patient.url = hidden
    (line,) = patient.lines("receiver")
    assert (line.name, line.status) == ("signature", CheckStatus.GOOD)


def test_a_signing_token_signs_and_one_that_is_no_base64_is_said(
    patient: Bed, answering: Answering
) -> None:
    patient.url = answering({"gitlab": 401})
    patient.env["GITLAB_WEBHOOK_SECRET"] = "whsec_" + "c2FuZHBpcGVy" * 3
    assert "another secret" in patient.lines("receiver")[-1].finding
    patient.env["GITLAB_WEBHOOK_SECRET"] = "whsec_not base64 at all"
    assert patient.lines("receiver")[-1].status is CheckStatus.UNCHECKED


def test_with_a_key_the_secret_of_a_project_is_tried_and_never_the_key(patient: Bed) -> None:
    key = patient.env["GITLAB_WEBHOOK_KEY"] = "a-key-of-thirty-two-characters-00"
    seen: list[tuple[str, str]] = []

    async def answer(request: Request) -> Response:
        if request.url.path == "/webhooks/gitlab":
            seen.append((str(request.url.query), request.headers["X-Gitlab-Token"]))
        known = request.headers.get("X-Gitlab-Token") in (None, derive_secret(key, 1))
        return JSONResponse({}, 200 if known else 401)

    running = Loopback("receiver", answer)
    patient.url = running.start()
    (line,) = patient.lines("receiver")
    running.stop()
    assert (line.name, line.status) == ("signature", CheckStatus.GOOD)
    assert {query for query, _ in seen} == {"project=1"}
    assert key not in [token for _, token in seen]
