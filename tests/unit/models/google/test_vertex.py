"""Vertex AI: tokens by google-auth's own chain and exchange, against strict servers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes import HandClock
from tests.google_tokens import TokenServer
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.gemini import GeminiSim
from tests.unit.models.answers import ASK, fails, model
from worker.conversation.model import Reply
from worker.errors import ConfigError, ModelError
from worker.lab.script import Call, Say, Script, Scripted
from worker.models import table
from worker.models.base import OperatorRow
from worker.models.client import HttpModel

GEMINI = "gemini-vertex/gemini-4-argon"
CLAUDE = "anthropic-vertex/claude-sonnet-5-5"
SIMS: dict[str, Any] = {GEMINI: GeminiSim, CLAUDE: AnthropicSim}


def script() -> Script:
    return Scripted([Say("done")])


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    """A token endpoint, and its account as the default credentials."""
    with TokenServer() as server:
        account = server.account(tmp_path / "account.json")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", account)
        yield server


def vertex(spec: str, url: str, clock: HandClock | None = None) -> HttpModel:
    return table.build_model(
        spec,
        url,
        "",
        clock=clock or HandClock(),
        row=OperatorRow(project="my-project", location="eu"),
        jitter=lambda: 0.0,
    )


def ask(spec: str, sim: Any, clock: HandClock | None = None) -> Reply:
    made = vertex(spec, sim.url, clock)
    try:
        return made.reply(ASK)
    finally:
        made.close()


@pytest.mark.parametrize("spec", SIMS)
def test_an_answer_comes_with_a_token_of_the_default_credentials(
    spec: str, tokens: TokenServer
) -> None:
    with SIMS[spec](script(), key="ya29.test-1") as sim:
        assert ask(spec, sim).text == "done"

    assert sim.unexpected_requests == []
    assert (tokens.issued, tokens.refused) == (["ya29.test-1"], [])


def test_nothing_is_fetched_before_the_first_request(tokens: TokenServer) -> None:
    vertex(GEMINI, "http://127.0.0.1:9").close()

    assert tokens.asked == 0


def test_a_token_is_used_until_shortly_before_its_end(tokens: TokenServer) -> None:
    with GeminiSim(script()) as sim:
        made = vertex(GEMINI, sim.url)
        for _ in range(3):
            made.reply(ASK)
        assert tokens.asked == 1

        tokens.lifetime = 60
        sim.revoked_keys.add("ya29.test-1")
        for _ in range(3):
            made.reply(ASK)
        made.close()

    # The second comes after the 401, and is stale from the start: each request renews it.
    assert tokens.asked == 4


@pytest.mark.parametrize("spec", SIMS)
def test_a_refused_token_is_renewed_once(spec: str, tokens: TokenServer) -> None:
    with SIMS[spec](script()) as sim:
        sim.revoked_keys.add("ya29.test-1")
        assert ask(spec, sim).text == "done"
        assert tokens.asked == 2

        sim.revoked_keys |= {"ya29.test-3", "ya29.test-4"}
        with pytest.raises(ModelError, match=r"Google's credentials were refused \(401\)") as told:
            ask(spec, sim)

    assert tokens.asked == 4
    assert not told.value.transient
    assert "ya29" not in str(told.value)


def test_threads_that_start_together_fetch_one_token(tokens: TokenServer) -> None:
    tokens.pause = 0.05
    with GeminiSim(script()) as sim, ThreadPoolExecutor(4) as pool:
        made = vertex(GEMINI, sim.url)
        replies = list(pool.map(lambda _: made.reply(ASK).text, range(4)))
        made.close()

    assert replies == ["done"] * 4
    assert tokens.asked == 1


def test_after_a_refused_exchange_the_next_request_tries_anew(tokens: TokenServer) -> None:
    with GeminiSim(script()) as sim:
        made = vertex(GEMINI, sim.url)
        made.reply(ASK)
        sim.revoked_keys.add("ya29.test-1")
        tokens.faults = [401]
        with pytest.raises(ModelError, match=r"no access token: .*unauthorized_client"):
            made.reply(ASK)
        assert made.reply(ASK).text == "done"
        made.close()


def test_an_account_that_is_not_taken_is_final(
    tokens: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tokens.account(tmp_path / "account.json")
    changed = Path(account).read_text().replace("sandpiper@", "intruder@")
    Path(account).write_text(changed)
    clock = HandClock()
    with GeminiSim(script()) as sim, pytest.raises(ModelError, match="invalid_grant") as told:
        ask(GEMINI, sim, clock)

    assert not told.value.transient
    assert clock.slept == []
    assert tokens.refused == ["iss or scope"]


def test_an_unreachable_token_endpoint_is_transient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TokenServer() as gone:
        account = gone.account(tmp_path / "account.json")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", account)
    clock = HandClock()
    with GeminiSim(script()) as sim, pytest.raises(ModelError, match="no access token") as told:
        ask(GEMINI, sim, clock)

    assert told.value.transient
    assert len(clock.slept) == 5


@pytest.mark.parametrize("content", [None, "", "{}", '{"type":"service_account"}'])
def test_credentials_that_cannot_be_used_say_what_to_do(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(ModelError, match="set GOOGLE_APPLICATION_CREDENTIALS") as told:
        vertex(GEMINI, "http://127.0.0.1:9").reply(ASK)

    assert not told.value.transient


@pytest.mark.parametrize(
    ("spec", "location", "base_url", "url"),
    [
        (
            GEMINI,
            "",
            "",
            "https://aiplatform.googleapis.com/v1beta1/projects/my-project/locations/global"
            "/publishers/google/models/gemini-4-argon:generateContent",
        ),
        (
            "anthropic-vertex/claude-haiku-4-5@20251001",
            "us",
            "",
            "https://aiplatform.us.rep.googleapis.com/v1/projects/my-project/locations/us"
            "/publishers/anthropic/models/claude-haiku-4-5@20251001:rawPredict",
        ),
        (
            CLAUDE,
            "europe-west1",
            "",
            "https://europe-west1-aiplatform.googleapis.com/v1/projects/my-project"
            "/locations/europe-west1/publishers/anthropic/models/claude-sonnet-5-5:rawPredict",
        ),
        (
            GEMINI,
            "eu",
            "http://proxy:8000/v1/",
            "http://proxy:8000/v1/projects/my-project/locations/eu"
            "/publishers/google/models/gemini-4-argon:generateContent",
        ),
        (
            "gemini/gemini-4-argon",
            "",
            "",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-4-argon:generateContent",
        ),
        (
            "gemini/../x?y",
            "",
            "http://llm/v1",
            "http://llm/v1/models/..%2Fx%3Fy:generateContent",
        ),
    ],
)
def test_each_place_has_its_address(
    spec: str, location: str, base_url: str, url: str, tokens: TokenServer
) -> None:
    asked, transport = model(
        fails(404),
        spec=spec,
        base_url=base_url,
        key="" if "vertex" in spec else "key-0123456789",
        row=OperatorRow(project="my-project", location=location),
    )
    with pytest.raises(ModelError):
        asked.reply(ASK)

    assert str(transport.requests[0].url) == url


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"models\.providers\.gemini-vertex\.project \(\$GOOGLE_CLOUD_PROJECT\): it is not"),
        ({"row": OperatorRow(project="a/b")}, r"project \(\$GOOGLE_CLOUD_PROJECT\): found 'a/b'"),
        (
            {"row": OperatorRow(project="p", location="../x")},
            r"location \(\$GOOGLE.*: found",
        ),
        (
            {"row": OperatorRow(project="p"), "base_url": "host"},
            r"gemini-vertex\.base_url: expected http",
        ),
        (
            {"row": OperatorRow(project="p"), "base_url": "https://h/?key=secret"},
            "without user",
        ),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        model(fails(500), spec=GEMINI, key="", **options)


def test_the_model_and_the_version_are_where_vertex_wants_them(tokens: TokenServer) -> None:
    with AnthropicSim(Scripted([Call([("look", {})])])) as sim:
        ask(CLAUDE, sim)

    assert "model" not in sim.requests[0]
    assert sim.requests[0]["anthropic_version"] == "2026-10-21"


@pytest.mark.parametrize("spec", SIMS)
@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "the account may not use .* in this project .403.: give it the role Vertex AI User"),
        (404, "enable it in Model Garden"),
    ],
)
def test_a_refusal_of_the_front_end_says_what_to_do(
    spec: str, status: int, says: str, tokens: TokenServer
) -> None:
    body = b'[{"error":{"code":%d,"message":"no","status":"X"}}]' % status
    asked, _ = model(fails(status, body), spec=spec, key="", row=OperatorRow(project="p"))
    with pytest.raises(ModelError, match=says) as told:
        asked.reply(ASK)

    assert str(told.value).endswith("the API says: no")


def test_a_daily_quota_of_the_front_end_is_final_for_claude_too(tokens: TokenServer) -> None:
    body = (
        b'[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED",'
        b'"details":[{"violations":[{"quotaId":"RequestsPerDayPerProject"}]}]}}]'
    )
    asked, transport = model(fails(429, body), spec=CLAUDE, key="", row=OperatorRow(project="p"))
    with pytest.raises(ModelError, match="the quota is used up"):
        asked.reply(ASK)

    assert len(transport.requests) == 1


def test_a_token_is_in_no_error(tokens: TokenServer) -> None:
    def quotes(request: httpx.Request) -> httpx.Response:
        return httpx.Response(400, text=f"bad header {request.headers['authorization']}")

    asked, _ = model(quotes, spec=GEMINI, key="", row=OperatorRow(project="p"))
    with pytest.raises(ModelError, match=r"bad header Bearer \[token\]"):
        asked.reply(ASK)


@pytest.mark.parametrize("content", [None, b"[1]", b'"x"', b'{"type":"service_account"}'])
def test_credentials_of_no_use_are_an_error_of_the_model(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "account.json"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    asked, transport = model(fails(500), spec=GEMINI, key="", row=OperatorRow(project="p"))
    with pytest.raises(ModelError, match="no usable Google credentials"):
        asked.reply(ASK)

    assert transport.requests == []
