"""Errors of OpenAI's wires, as the servers that speak them word them."""

import json
from typing import Any

import pytest

from worker.models.base import Cause
from worker.models.error_bodies import classify_openai


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "cause", "transient"),
    [
        (400, openai("nonsense"), Cause.INVALID, False),
        (401, openai("Incorrect API key", "invalid_api_key"), Cause.BAD_KEY, False),
        (402, b'{"error":{"code":402,"message":"no credits"}}', Cause.BILLING, False),
        (403, openai("not allowed"), Cause.FORBIDDEN, False),
        (404, openai("no such model", "model_not_found"), Cause.NOT_FOUND, False),
        (400, openai("no such model", "model_not_found"), Cause.NOT_FOUND, False),
        (404, b'{"error":"model \'x\' not found, try pulling it first"}', Cause.NOT_FOUND, False),
        (408, b"", Cause.INVALID, True),
        (409, b"", Cause.INVALID, True),
        (413, b"too large", Cause.TOO_LARGE, False),
        (429, openai("slow down", "rate_limit_exceeded"), Cause.RATE_LIMIT, True),
        (429, openai("no money", "insufficient_quota"), Cause.SPEND_LIMIT, False),
        (429, openai("no money", None, "insufficient_quota"), Cause.SPEND_LIMIT, False),
        (500, openai("oops", None, "server_error"), Cause.OVERLOADED, True),
        (503, b"<html>no backend</html>", Cause.OVERLOADED, True),
        (418, b"\xff", Cause.INVALID, False),
        (400, b"[" * 100_000, Cause.INVALID, False),
        (400, b"[1]", Cause.INVALID, False),
        (400, b'{"error":{"code":{},"type":[1],"message":{}}}', Cause.INVALID, False),
        (422, b'{"detail":{"loc":1}}', Cause.INVALID, False),
    ],
)
def test_a_failure_is_classified_by_code_and_status_whatever_its_body(
    status: int, body: bytes, cause: Cause, transient: bool
) -> None:
    found = classify_openai(status, body)

    assert (found.cause, found.transient) == (cause, transient)


OVERFLOWS: list[tuple[int, Any]] = [
    (400, openai("Your input is too long.", "context_length_exceeded")),
    (400, openai("This model's maximum context length is 8192 tokens. However, you asked for 9")),
    (400, openai("Your input exceeds the context window of this model.")),
    (
        400,
        b'{"error":{"code":400,"message":"the request exceeds the available context size",'
        b'"type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}',
    ),
    (400, b'{"object":"error","message":"longer than the maximum model length of 8","code":400}'),
    (413, openai("prompt is too long: 9 tokens")),
    (400, b'{"error":"This model\'s maximum prompt length is 8 but the request contains 9"}'),
    (400, openai("Invalid request: Your request exceeded model token limit: 8")),
    (400, b'{"message":"Input is too long for requested model."}'),
    (400, openai("Please reduce the length of the messages or completion.")),
    (400, b'{"error":"the request is greater than the context length of the model"}'),
    (400, b'{"error":{"message":"invalid params, context window exceeds limit (2013)"}}'),
    (400, b'{"error":"prompt too long; exceeded max context length by 4 tokens"}'),
    (
        400,
        b'{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: ...",'
        b'"type":null,"param":null,"code":"400"}}',
    ),
    (400, b'{"detail":"The input token count (9)\\nexceeds the maximum number of tokens (8)."}'),
    (422, b'{"detail":[{"loc":["body","messages"],"msg":"prompt is too long","type":"x"}]}'),
    (404, b"Maximum Context Length"),
]


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_an_overflow_is_recognised_in_each_server_s_words(status: int, body: bytes) -> None:
    assert classify_openai(status, body).cause is Cause.OVERFLOW


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_the_same_words_under_another_status_are_no_overflow(status: int) -> None:
    for _, body in OVERFLOWS:
        assert classify_openai(status, body).cause is not Cause.OVERFLOW


UNSEALED = "The encrypted content gAAA... could not be verified."
NOT_STORED = "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."
ALONE = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
TORN = (
    "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'"
)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai(UNSEALED)),
        (400, openai("no", "invalid_encrypted_content")),
        (404, openai(NOT_STORED)),
        (400, openai(ALONE)),
        (400, openai(TORN)),
        (400, openai("Expecting ',' delimiter: line 1 column 54 (char 53)")),
        (400, openai("Unterminated string starting at: line 1 column 9 (char 8)")),
        (500, openai("Failed to parse tool call arguments as JSON")),
    ],
)
def test_an_answer_that_cannot_go_back_as_it_was_is_told_apart(status: int, body: bytes) -> None:
    assert classify_openai(status, body).cause is Cause.BOUND


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (openai("nonsense"), "nonsense"),
        (b'{"error":"text"}', "text"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (
            b'{"detail":[{"loc":["body","messages",0],"msg":"Field required"},"odd"]}',
            "body.messages.0: Field required; odd",
        ),
        (b'{"object":"error","message":"no such model","type":"NotFoundError"}', "no such model"),
        (b"Bad Gateway", "Bad Gateway"),
        (b'{"novel":"shape"}', '{"novel":"shape"}'),
    ],
)
def test_the_reason_is_what_the_server_says(body: bytes, reason: str) -> None:
    assert classify_openai(400, body).reason == reason
