"""Amazon Bedrock: signatures by botocore's own chain, checked by a server that knows none of it."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.fakes import HandClock
from tests.simulators.anthropic.bedrock import BedrockSim
from tests.simulators.anthropic.signatures import Account
from tests.unit.models.answers import ASK, fails, good, model
from tests.wire.conversations import conversations
from worker.conversation.model import Reply
from worker.errors import ConfigError, ContextOverflow, ModelError
from worker.lab.loopback import Loopback
from worker.lab.script import Say, Script
from worker.models import table
from worker.models.base import OperatorRow
from worker.models.built_in_models import BUILT_IN
from worker.models.client import HttpModel

CLAUDE = "anthropic-bedrock/global.anthropic.claude-sonnet-5-5"
REGION = "eu-central-1"
ROW = OperatorRow(region=REGION)
ARN = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2c3"
SESSION = Account("ASIASIMULATED0000002", "another/secret+0123456789", "token//of+a+session==")


def script() -> Script:
    return lambda asked: Say("done")


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Amazon's shared file as the one place where botocore finds credentials."""
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    write(file, Account())
    return file


def write(file: Path, account: Account) -> None:
    token = f"aws_session_token = {account.token}\n" if account.token else ""
    file.write_text(
        f"[default]\naws_access_key_id = {account.key_id}\n"
        f"aws_secret_access_key = {account.secret}\n{token}",
        encoding="utf-8",
    )


def bedrock(url: str, spec: str = CLAUDE, key: str = "", **options: Any) -> HttpModel:
    row = options.pop("row", ROW)
    return table.build_model(
        *(spec, url, key), clock=HandClock(), row=row, jitter=lambda: 0.0, **options
    )


def ask(sim: BedrockSim, spec: str = CLAUDE, **options: Any) -> Reply:
    with closing(bedrock(sim.url, spec, **options)) as made:
        return made.reply(ASK)


@pytest.mark.parametrize("account", [Account(), SESSION], ids=["lasting", "session"])
def test_an_answer_comes_to_a_signature_of_the_default_credentials(
    account: Account, credentials: Path
) -> None:
    write(credentials, account)
    with BedrockSim(script(), region=REGION) as sim:
        sim.accounts = [account]
        assert ask(sim).text == "done"

    assert sim.unexpected_requests == []
    assert sim.requests[0]["anthropic_version"] == "bedrock-2023-05-31"
    assert {"model", "stream"}.isdisjoint(sim.requests[0])


@pytest.mark.parametrize("case", list(conversations("")))
def test_every_conversation_is_signed_as_it_is_sent(case: str, credentials: Path) -> None:
    request = replace(conversations("anthropic-bedrock/other")[case], marks=(0,))
    with BedrockSim(script()) as sim, closing(bedrock(sim.url)) as made:
        assert made.reply(request).text == "done"

    assert sim.unexpected_requests == []


@pytest.mark.parametrize(
    "name",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "eu.anthropic.claude-opus-4-6-v1",
        "global.anthropic.claude-opus-5-5",
        ARN,
    ],
)
def test_ids_and_arns_are_encoded_whole_and_signed_so(name: str, credentials: Path) -> None:
    with BedrockSim(script()) as sim:
        sim.arns = {ARN: "claude-opus-5-5"}
        assert ask(sim, f"anthropic-bedrock/{name}").text == "done"

    assert sim.unexpected_requests == []


@pytest.mark.attack("binding")
@pytest.mark.parametrize("name", ["..", ".", "../x", "a/../../y;z", "x?y=z", "a#b", "%2e%2e", "ä"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is no id and no ARN"):
        bedrock("", f"anthropic-bedrock/{name}")


def test_a_bedrock_api_key_is_sent_instead_of_a_signature(credentials: Path) -> None:
    credentials.unlink()
    with BedrockSim(script(), key="bedrock-api-key-0123456789") as sim:
        assert ask(sim, key="bedrock-api-key-0123456789").text == "done"
        with pytest.raises(ModelError, match=r"AWS's credentials were refused \(403"):
            ask(sim, key="another-api-key-0123456789")


def test_credentials_that_are_refused_are_looked_up_once_more(credentials: Path) -> None:
    """As where a profile's session was renewed by another program."""
    with BedrockSim(script()) as sim, closing(bedrock(sim.url)) as made:
        sim.accounts = [Account(), SESSION]
        assert made.reply(ASK).text == "done"
        sim.accounts = [SESSION]
        write(credentials, SESSION)
        assert made.reply(ASK).text == "done"
        sim.expired_tokens.add(SESSION.token)
        with pytest.raises(ModelError, match=r"credentials were refused") as raised:
            made.reply(ASK)

    assert len(sim.unexpected_requests) == 2  # the second time there are no others to try
    assert not raised.value.transient


def test_a_refusal_that_is_not_about_credentials_is_not_asked_again(credentials: Path) -> None:
    said = b'{"message":"You don\'t have access to the model with the specified model ID."}'
    with BedrockSim(script()) as sim:
        sim.fail_next(403, said)
        with pytest.raises(ModelError, match="allow bedrock:InvokeModel on it"):
            ask(sim)

    assert len(sim.raw) == 1


def test_a_pod_s_credentials_are_renewed_before_they_expire(
    credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the token service of containers, which botocore asks itself."""
    credentials.unlink()
    given = [replace(SESSION, key_id=f"ASIASIMULATED000001{at}", token=f"t-{at}") for at in "123"]
    until = [timedelta(minutes=5), timedelta(hours=6), timedelta(hours=6)]
    asked: list[str] = []

    async def issue(request: Request) -> Response:
        asked.append(request.headers["authorization"])
        account = given[len(asked) - 1]
        return JSONResponse(
            {
                "AccessKeyId": account.key_id,
                "SecretAccessKey": account.secret,
                "Token": account.token,
                "Expiration": (datetime.now(UTC) + until[len(asked) - 1]).isoformat(),
            }
        )

    service = Loopback("tokens", issue)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.start()}/v1")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-the-pod")
    try:
        with BedrockSim(script()) as sim, closing(bedrock(sim.url)) as made:
            sim.accounts = given
            assert [made.reply(ASK).text for _ in range(3)] == ["done"] * 3
    finally:
        service.stop()

    assert sim.unexpected_requests == []
    assert asked == ["of-the-pod"] * 2


def test_a_token_service_that_is_down_is_said_to_be(
    credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials.unlink()
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match="no usable AWS credentials"):
        bedrock("http://127.0.0.1:9", max_attempts=1).reply(ASK)


def test_many_threads_share_one_look_up(credentials: Path) -> None:
    with (
        BedrockSim(script()) as sim,
        closing(bedrock(sim.url)) as made,
        ThreadPoolExecutor(8) as pool,
    ):
        replies = list(pool.map(lambda _: made.reply(ASK).text, range(16)))

    assert replies == ["done"] * 16
    assert sim.unexpected_requests == []


def test_each_attempt_is_signed_anew(credentials: Path) -> None:
    with BedrockSim(script()) as sim:
        sim.fail_next(503)
        assert ask(sim).text == "done"

    assert sim.unexpected_requests == []


def test_without_credentials_it_is_said_what_to_do(credentials: Path) -> None:
    credentials.unlink()
    with pytest.raises(ModelError, match="no AWS credentials: set AWS_ACCESS_KEY_ID"):
        bedrock("http://127.0.0.1:9").reply(ASK)


def test_nothing_is_looked_up_before_the_first_request(credentials: Path) -> None:
    credentials.write_text("[default", encoding="utf-8")
    made = bedrock("http://127.0.0.1:9")
    with pytest.raises(ModelError, match="no usable AWS credentials"):
        made.reply(ASK)


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("way", ["signature", "echo"])
def test_no_secret_of_an_account_is_in_an_error(way: str, credentials: Path) -> None:
    """Amazon repeats what should have been signed, the session's token in it."""
    write(credentials, replace(SESSION, secret="a-wrong-secret-0123456789"))
    with BedrockSim(script()) as sim:
        sim.accounts = [SESSION]
        if way == "echo":
            write(credentials, SESSION)
            said = f"should have been 'POST x-amz-security-token:{SESSION.token} x'"
            sim.fail_next(400, json.dumps({"message": said}).encode())
        with pytest.raises(ModelError) as raised:
            ask(sim)

    assert SESSION.token not in str(raised.value)
    assert SESSION.secret not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "said", "says", "transient"),
    [
        (400, "The provided model identifier is invalid.", "is not served at http", False),
        (
            400,
            "Invocation of model ID anthropic.x with on-demand throughput isn’t supported. Retry "
            "your request with the ID or ARN of an inference profile that contains this model.",
            "newer models want an inference profile's",
            False,
        ),
        (400, "Malformed input request: x, please reformat", "the request was refused", False),
        (404, "The resource you requested does not exist", "check the region", False),
        (403, "The security token included in the request is invalid", "were refused", False),
        (408, "Model has timed out in processing the request", "overloaded or failing", True),
        (424, "The model returned an error", "overloaded or failing", True),
        (429, "Too many tokens, please wait before trying again.", "too many requests", True),
        (500, "Internal", "overloaded or failing", True),
        (503, "Service unavailable", "overloaded or failing", True),
    ],
)
def test_what_amazon_says_is_understood(
    status: int, said: str, says: str, transient: bool, credentials: Path
) -> None:
    body = json.dumps({"message": said}).encode()
    asked, _ = model(fails(status, body), spec=CLAUDE, key="", row=ROW, max_attempts=1)
    with pytest.raises(ModelError, match=says) as raised:
        asked.reply(ASK)

    assert raised.value.transient is transient
    assert not isinstance(raised.value, ContextOverflow)


@pytest.mark.parametrize(
    "said",
    [
        "Input is too long for requested model.",
        "The model returned the following errors: prompt is too long: 200001 tokens > 200000 "
        "maximum",
    ],
)
def test_a_conversation_that_is_too_long_is_known_as_that(said: str, credentials: Path) -> None:
    body = json.dumps({"message": said}).encode()
    asked, _ = model(fails(400, body), spec=CLAUDE, key="", row=ROW)
    with pytest.raises(ContextOverflow):
        asked.reply(ASK)


def test_thinking_that_is_bound_elsewhere_is_left_out_here_too(credentials: Path) -> None:
    said = {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}
    asked, transport = model(
        fails(400, json.dumps(said).encode()), good(), spec=CLAUDE, key="", row=ROW
    )

    assert asked.reply(conversations(CLAUDE)["thinking_verbatim"]).bare
    assert [b"sig_" in each.content for each in transport.requests] == [True, False]


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ("cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("eusc-de-east-1", "https://bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
    ],
)
def test_each_region_has_its_address(region: str, host: str, credentials: Path) -> None:
    row = OperatorRow(api="anthropic", auth="bedrock", region=region)
    asked, transport = model(fails(404), spec="mine/eu.anthropic.claude-opus-5", key="", row=row)
    with pytest.raises(ModelError):
        asked.reply(ASK)

    sent = transport.requests[0]
    assert str(sent.url) == f"{host}/model/eu.anthropic.claude-opus-5/invoke"
    assert f"/{region}/bedrock/aws4_request" in sent.headers["authorization"]


def test_a_gateway_of_one_s_own_is_asked_with_a_signature_for_the_region(
    credentials: Path,
) -> None:
    asked, transport = model(
        fails(404), spec=CLAUDE, key="", row=ROW, base_url="https://vpce.example/bedrock"
    )
    with pytest.raises(ModelError):
        asked.reply(ASK)

    assert str(transport.requests[0].url).startswith("https://vpce.example/bedrock/model/global.")


@pytest.mark.parametrize(
    ("name", "like", "factor"),
    [
        ("global.anthropic.claude-opus-5-5", "claude-opus-5-5", 1.0),
        ("anthropic.claude-opus-5-5", "claude-opus-5-5", 1.0),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5", 1.1),
        ("jp.anthropic.claude-haiku-5-5", "claude-haiku-5-5", 1.1),
        ("eu.anthropic.claude-opus-4-6-v1", "claude-opus-4-6", 1.1),
        ("us-gov.anthropic.claude-opus-5", "claude-opus-5", 1.2),
    ],
)
def test_a_profile_has_its_model_s_window_and_its_own_price(
    name: str, like: str, factor: float
) -> None:
    entry, plain = BUILT_IN.resolve_name(f"anthropic-bedrock/{name}"), BUILT_IN.get_info(like)

    assert not entry.is_assumed
    assert (entry.info.window, entry.info.levels) == (plain.window, plain.levels)
    assert [rate.input for rate in entry.info.rates] == [
        pytest.approx(rate.input * factor) for rate in plain.rates
    ]
    assert entry.info.rates[0].read == pytest.approx((plain.rates[0].read or 0) * factor)


def test_an_arn_is_what_the_operator_says_that_it_is_like() -> None:
    known = BUILT_IN.extend({ARN: {"like": "us.anthropic.claude-opus-5-5", "window": 500_000}})
    info, plain = known.get_info(f"mine/{ARN}"), BUILT_IN.get_info("us.anthropic.claude-opus-5-5")

    assert info == replace(plain, window=500_000, max_output=info.max_output)
    assert not known.resolve_name(f"mine/{ARN}").is_assumed
    with pytest.raises(ConfigError, match=r"models\.catalogue\.x\.like: unknown model 'nobody'"):
        BUILT_IN.extend({"x": {"like": "nobody"}})


def test_the_server_that_checks_signatures_finds_every_change(credentials: Path) -> None:
    """The test's own server: a signature over something else is none."""
    with BedrockSim(script()) as sim, closing(bedrock(sim.url)) as made:
        made.reply(ASK)
        asked, transport = model(fails(404), spec=CLAUDE, key="", row=ROW, base_url=sim.url)
        with pytest.raises(ModelError):
            asked.reply(ASK)
        sent = transport.requests[0]
        with httpx.Client() as client:
            assert client.send(remake(sent)).status_code == 200
            changes: list[dict[str, Any]] = [
                {"content": sent.content.replace(b"max_tokens", b"max_tokenz")},
                {"url": str(sent.url).replace("sonnet", "opus")},
                {"headers": {"x-amz-date": "20260101T000000Z"}},
                {"headers": {"x-amz-security-token": "other"}},
                {"headers": {"content-type": "text/plain"}},
                {"headers": {"authorization": ""}},
            ]
            statuses = [client.send(remake(sent, **change)).status_code for change in changes]
        assert statuses == [403] * len(changes)
        sim.region = "us-east-1"
        with pytest.raises(ModelError, match="credentials were refused"):
            made.reply(ASK)


def remake(
    sent: httpx.Request,
    url: str = "",
    content: bytes = b"",
    headers: dict[str, str] | None = None,
) -> httpx.Request:
    return httpx.Request(
        sent.method,
        url or sent.url,
        headers={**sent.headers, **(headers or {})},
        content=content or sent.content,
    )
