"""The Messages API under Vertex AI's path: what is different, and that the rest is checked."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.simulators.anthropic import AnthropicSim
from worker.lab.script import Say, Scripted

PATH = (
    "/v1/projects/p/locations/global/publishers/anthropic/models/claude-haiku-4-5@20251001"
    ":rawPredict"
)
HEADERS = {"authorization": "Bearer ya29.test"}
BODY = {
    "anthropic_version": "2026-10-21",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "x"}],
}


@pytest.fixture
def sim() -> Iterator[AnthropicSim]:
    with AnthropicSim(Scripted([Say("done")])) as running:
        yield running


def post(sim: AnthropicSim, body: Any, path: str = PATH, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.post(sim.url + path, json=body, headers={**HEADERS, **headers})


def test_the_model_of_the_path_answers(sim: AnthropicSim) -> None:
    answer = post(sim, BODY | {"anthropic_version": "vertex-2023-10-16"})

    assert answer.json()["model"] == "claude-haiku-4-5@20251001"
    assert sim.unexpected_requests == []


@pytest.mark.parametrize(
    "body",
    [
        {name: value for name, value in BODY.items() if name != "anthropic_version"},
        BODY | {"anthropic_version": "2023-06-01"},
        BODY | {"model": "claude-sonnet-5-5"},
    ],
)
def test_a_body_that_is_not_vertex_s_is_refused(sim: AnthropicSim, body: dict[str, Any]) -> None:
    assert post(sim, body).json()["error"]["type"] == "invalid_request_error"
    assert len(sim.unexpected_requests) == 1


@pytest.mark.parametrize("given", ["Basic ya29.test", "Bearer ya29.gone"])
def test_the_front_end_refuses_other_credentials_in_its_own_form(
    sim: AnthropicSim, given: str
) -> None:
    sim.revoked_keys.add("ya29.gone")
    answer = post(sim, BODY, authorization=given)

    assert answer.status_code == 401
    assert answer.json()[0]["error"]["status"] == "UNAUTHENTICATED"


def test_no_other_path_is_served(sim: AnthropicSim) -> None:
    assert post(sim, BODY, PATH.replace("rawPredict", "predict")).status_code == 404
