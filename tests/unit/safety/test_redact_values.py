"""The labelled table of values: secrets go, wherever they stand; what only looks like one stays."""

import json
import random
import time
from collections.abc import Callable

import pytest

from tests.attacks.redaction import find_left
from tests.attacks.redaction.harmless import HARMLESS
from tests.attacks.redaction.layouts import LAYOUTS, NEAR_MISSES, PLACEMENTS
from tests.attacks.redaction.values import SECRETS, TOKENS
from worker.safety.redact import Redactor
from worker.safety.redacted_values import redact_stream

pytestmark = pytest.mark.attack("redaction")
PLAIN = Redactor()

PLACES = (
    *(
        '{"a":"x\\n%s"}',
        "x\\t%s y",
        "next=https%%3A%%2F%%2Fa%%3Fb%%3D%s&c",
        'T="%s"',
        "(%s)",
        "x_%s",
    ),
    *(
        "'%s'",
        "%s",
        "\x1b[32m%s\x1b[0m",
        "/%s/",
        "a\n%s\nb",
        ">%s<",
        "v=%s;",
        "[%s]",
        "`%s`",
        "x:%s,",
    ),
)
"""Where a token may stand: after the letter of an escape too."""


def test_the_table_has_at_least_200_shapes_of_each_half() -> None:
    assert len(set(SECRETS)) >= 200
    assert len(set(HARMLESS)) >= 200


def test_no_secret_is_left(record_property: Callable[[str, object], None]) -> None:
    record_property("tried", len(SECRETS))
    assert [
        text for text, secret in SECRETS if find_left(secret, text, PLAIN.redact_text(text))
    ] == []


@pytest.mark.parametrize("place", PLACEMENTS)
def test_a_value_that_stands_apart_from_its_name_goes(
    place: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", len(LAYOUTS))
    wrong = []
    for text, secret in LAYOUTS:
        placed = PLACEMENTS[place](text)
        written = json.dumps(secret)[1:-1] if place == "in json" else secret
        clean = PLAIN.redact_text(placed)
        if find_left(written, placed, clean) or PLAIN.redact_text(clean) != clean:
            wrong.append((placed, clean))
    assert wrong == []


@pytest.mark.parametrize("place", PLACEMENTS)
def test_what_stands_where_a_secret_might_stays(
    place: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", len(NEAR_MISSES))
    texts = [PLACEMENTS[place](text) for text in NEAR_MISSES]
    assert [text for text in texts if PLAIN.redact_text(text) != text] == []


def test_a_token_is_found_wherever_it_stands(
    record_property: Callable[[str, object], None],
) -> None:
    texts = [(place % secret, secret) for _, secret in SECRETS[: len(TOKENS)] for place in PLACES]
    record_property("tried", len(texts))
    assert [
        text for text, secret in texts if find_left(secret, text, PLAIN.redact_text(text))
    ] == []


@pytest.mark.parametrize(
    "prefix", ["glpat-", "ghp_", "github_pat_", "npm_", "AKIA", "GOCSPX-", "hf_"]
)
def test_a_distinct_token_is_found_after_a_letter(prefix: str) -> None:
    secret = next(secret for _, secret in SECRETS if secret.startswith(prefix))
    assert find_left(secret, f"x{secret} y", PLAIN.redact_text(f"x{secret} y")) == []


def test_at_most_one_in_a_hundred_harmless_texts_is_touched(
    record_property: Callable[[str, object], None],
) -> None:
    record_property("tried", len(HARMLESS))
    touched = [text for text in HARMLESS if PLAIN.redact_text(text) != text]
    assert len(touched) * 100 <= len(HARMLESS), touched


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be"])
def test_wide_text_is_redacted_as_narrow_text_is(encoding: str) -> None:
    text = "first line\r\n" + "\n".join(text for text, _ in SECRETS if text.isascii()) + "\nlast"
    data = text.encode(encoding)
    clean = PLAIN.redact_data(data)
    assert clean.decode(encoding) == PLAIN.redact_text(text)
    assert (
        PLAIN.redact_data(b"\x7fELF\x01\x02" + data + b"\xff\xfe")
        == b"\x7fELF\x01\x02" + clean + b"\xff\xfe"
    )


def test_wide_text_knows_the_secrets_of_the_process() -> None:
    redactor = Redactor(["hunter2hunter2"])
    data = "my hunter2hunter2!".encode("utf-16")
    assert redactor.redact_data(data).decode("utf-16") == "my [redacted: secret]!"
    assert redactor.redact_text(data.decode("latin-1")).count("h\0u\0n") == 0


def test_any_mixture_keeps_its_lines_and_is_redacted_once(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    tried = attack_inputs // 20
    record_property("tried", tried)
    seeded = random.Random(12)
    lines = [*(text for text, _ in (*SECRETS, *LAYOUTS)), *HARMLESS, *NEAR_MISSES]
    joints = ["\n", " ", "", "\n\n", ", ", "\\n", "=", '"', ": "]
    for _ in range(tried):
        text = "".join(
            each for line in seeded.sample(lines, 12) for each in (line, seeded.choice(joints))
        )
        once = PLAIN.redact_text(text)
        assert once.count("\n") == text.count("\n")
        assert PLAIN.redact_text(once) == once, text


def test_pieces_of_any_mixture_are_redacted_as_the_whole_is() -> None:
    seeded = random.Random(13)
    lines = [*(text for text, _ in (*SECRETS, *LAYOUTS)), *HARMLESS, *NEAR_MISSES]
    text = "\n".join(seeded.choice(lines) for _ in range(6_000)).encode() + b"\n"
    whole = PLAIN.redact_data(text)
    split = text.splitlines(keepends=True)
    for size in (50, 700, 3_000):
        pieces = [b"".join(split[at : at + size]) for at in range(0, len(split), size)]
        assert b"".join(redact_stream(pieces, PLAIN.redact_data)) == whole


SEEDS = (
    *(prefix for prefix, _, _ in TOKENS),
    *(
        "://",
        "://a:",
        "://a1B2",
        "authorization: ",
        "Authorization: Bearer ",
        "Authorization: Digest ",
        "Cookie: a=b;",
    ),
    *("Set-Cookie: a=", "curl -u a:", "login -p ", "mysql -p", "login a password ", "<token>"),
    *(
        "<RSAKeyValue><D>a</D>",
        "IDENTIFIED BY '",
        "password '",
        "password=",
        "password: ",
        "token=",
    ),
    *("token: a1", "secret%3D", "--token ", "X_KEY=", "api_key=", "?token=", "sig=", "&Signature="),
    *("eyJ", ".eyJ", "eyJhbGciOi", "Z2xwYXQt", "LS0tLS1CRUdJTi", "bearer ", '"auth":"', "Q~"),
    *("token\n", 'token",\n', 'token","a":"b",', "token\nvalue: ", "token\x1b[0m=\x1b[0m"),
    *("ENV TOKEN ", "_authToken ", ";pwd=", "-storepass ", "-storepass a."),
    *(
        "password    ",
        "token|",
        "| token | ",
        "token</td>",
        "token</td><td>",
        'token"\\n',
        "token..",
    ),
    *(
        '"token", "',
        "set -x token ",
        "a config set token ",
        "token -> ",
        "--token\n- ",
        "\\u0074oken",
    ),
    *(
        '"kty":"RSA"',
        '{"kty":"EC","d":"',
        "pass%77ord=",
        "token=&quot;",
        '"value": "a", "name": "token"',
    ),
    *("password for a is ", "password\t", "http-basic.a b ", "ssh-keygen -N ", "<RSAKeyValue><D>"),
)
FILLERS = ("", " ", "a1B", "x1_", "aaaaaaaa.", "=", "@", "\\n")


@pytest.mark.slow
def test_every_shape_takes_linear_time_for_hostile_text(
    record_property: Callable[[str, object], None],
) -> None:
    record_property("tried", len(SEEDS) * len(FILLERS))
    slow = [
        (seed, filler)
        for seed in SEEDS
        for filler in FILLERS
        # 16 times for what is quadratic. A second look forgives a busy machine.
        if _spent(seed, filler, 8_000) > 8 * _spent(seed, filler, 2_000) + 0.05
        and _spent(seed, filler, 32_000) > 8 * _spent(seed, filler, 8_000) + 0.05
    ]
    assert slow == []


def _spent(seed: str, filler: str, size: int) -> float:
    """CPU seconds for a shape again and again, and for one that goes on and on."""
    texts = ((seed + filler) * (size // len(seed + filler)), seed + (filler or "a") * size)
    started = time.process_time()
    for text in texts:
        PLAIN.redact_text(text)
    return time.process_time() - started
