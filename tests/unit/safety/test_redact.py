"""Secrets go in every form they travel in; what only looks odd stays."""

import base64
import json
import random
import string
from urllib.parse import quote, quote_plus

import pytest

from tests.linear import takes_linear_time
from worker.safety.redact import Redactor

SECRET = 'pa"ss/w\u00f6rd+x=12&3 4'
PLAIN = Redactor()


def shifted(secret: str, before: int) -> str:
    return base64.b64encode(b"u:" + b"x" * before + secret.encode() + b":tail").decode()


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower(),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        shifted(SECRET, 0),
        shifted(SECRET, 1),
        shifted(SECRET, 2),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        base64.encodebytes(SECRET.encode() * 5).decode(),
        "\n    ".join(SECRET),
    ],
)
def test_a_known_secret_goes_in_every_form(form: str) -> None:
    text = f"before {form} after"
    redacted = Redactor([SECRET]).redact_text(text)
    assert "[redacted: secret]" in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert redacted.count("\n") == text.count("\n")
    for size in range(8, len(SECRET)):
        assert SECRET[:size] not in redacted
    assert SECRET.encode().hex()[:12] not in redacted
    for alignment in range(3):
        assert shifted(SECRET, alignment)[8:20] not in redacted


def test_short_secrets_are_ignored() -> None:
    assert Redactor(["", "abc1234"]).redact_text("abc1234 stays") == "abc1234 stays"


def test_a_secret_within_a_secret_does_not_tear_it() -> None:
    redacted = Redactor(["12345678", "abc-12345678-def"]).redact_text("x abc-12345678-def y")
    assert redacted == "x [redacted: secret] y"


def test_a_redactor_shows_nothing_of_its_secrets() -> None:
    assert "hunter2hunter2" not in repr(Redactor(["hunter2hunter2"]))


def test_bytes_that_are_no_text_pass_through() -> None:
    data = b"\xff\xfe hunter2hunter2 \x00"
    assert Redactor(["hunter2hunter2"]).redact_data(data) == b"\xff\xfe [redacted: secret] \x00"


def some(alphabet: str, size: int) -> str:
    return "".join(random.Random(size).choices(alphabet, k=size))


ALNUM = string.ascii_letters + string.digits
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6y"


def encode_part(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


JOB_TOKEN = ".".join(
    [
        encode_part(b'{"kid":"' + some(ALNUM, 43).encode() + b'","typ":"JWT","alg":"RS256"}'),
        encode_part(b'{"version":"0.1.0","o":"1","u":"2s","jti":"a1","iss":"gitlab.example.com"}'),
        some(ALNUM, 342),
    ]
)
"""The token of a job (CI_JOB_TOKEN) since GitLab 19.0."""

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    + "\n".join(some(ALNUM, 60 + n) for n in range(4))
    + "\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("gitlab-token", "glpat-" + some(ALNUM, 20)),
        ("gitlab-token", "glpat-" + some(ALNUM, 27) + ".01.0z1a2b3c4"),
        ("gitlab-token", "glcbt-64_" + some(ALNUM, 20)),
        ("gitlab-token", "GR1348941" + some(ALNUM, 20)),
        ("gitlab-token", f"glcbt-{JOB_TOKEN}"),
        ("jwt", JOB_TOKEN),
        ("anthropic-key", "sk-ant-api03-" + some(ALNUM, 80)),
        ("openai-key", "sk-proj-" + some(ALNUM, 48)),
        ("google-key", "AIza" + some(ALNUM, 35)),
        ("google-token", "ya29." + some(ALNUM, 60)),
        ("aws-key-id", "AKIA" + some(string.ascii_uppercase, 16)),
        ("github-token", "ghp_" + some(ALNUM, 36)),
        ("github-token", "github_pat_" + some(ALNUM, 50)),
        ("slack-token", "xoxb-" + some(string.digits, 12) + "-" + some(ALNUM, 24)),
        ("webhook-secret", "whsec_" + some(ALNUM, 32)),
        ("stripe-key", "sk_live_" + some(ALNUM, 24)),
        ("npm-token", "npm_" + some(ALNUM, 36)),
        ("pypi-token", "pypi-" + some(ALNUM, 80)),
        ("huggingface-token", "hf_" + some(ALNUM, 34)),
        ("age-key", "AGE-SECRET-KEY-1" + some(string.ascii_uppercase, 58)),
        ("vault-token", "hvs." + some(ALNUM, 30)),
        ("jwt", JWT),
        ("private-key", PEM),
        ("private-key", json.dumps(PEM)[1:-1]),
        ("private-key", PEM.split("-----END")[0]),
    ],
)
def test_a_token_is_known_by_its_shape(kind: str, secret: str) -> None:
    for text in (f"x={secret} y", f'"{secret}",\nnext', f"({secret})"):
        redacted = PLAIN.redact_text(text)
        assert f"[redacted: {kind}]" in redacted
        assert secret[12:] not in redacted
        assert redacted.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            "git clone https://ci:s3cr3t@host/x",
            "git clone https://ci:[redacted: url-password]@host/x",
        ),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer [redacted: authorization]"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [redacted: authorization]"),
        (
            '"Authorization": "token abcdefgh1"',
            '"Authorization": "token [redacted: authorization]"',
        ),
        ('{"auth": "dXNlcjpwYXNzd29yZA=="}', '{"auth": "[redacted: docker-auth]"}'),
        ("DB_PASSWORD=Tr0ub4dor&3", "DB_PASSWORD=[redacted: secret]"),
        ("api_key: 9f8a7b6c5d4e3f2a1b0c", "api_key: [redacted: secret]"),
        ('"client_secret":"kJ8dk2Lm9Qw3"', '"client_secret":"[redacted: secret]"'),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY21",
            "aws_secret_access_key = [redacted: secret]",
        ),
        ("PRIVATE-TOKEN: abcd1234efgh5678", "PRIVATE-TOKEN: [redacted: secret]"),
        (
            "curl https://x/y?private_token=a1b2c3d4e5f6g7",
            "curl https://x/y?private_token=[redacted: secret]",
        ),
    ],
)
def test_a_secret_is_known_by_its_place(text: str, redacted: str) -> None:
    assert PLAIN.redact_text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "commit 3f2a9c1d0b4e5f60718293a4b5c6d7e8f9012345",
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        "Digest: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        '"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17L=="',
        "h1:5rT4V3AeWlqvSPYOJ0PDYfd5V8JZ5rHkzMVOwSYsHZA=",
        'checksum = "e2d4f3b4a6c8f0e2d4f3b4a6c8f0e2d4f3b4a6c8"',
        "--hash=sha256:aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899",
        "index 83db48f..bf269f4 100644",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 user@host",
        "password: required",
        "Password must contain at least 12 characters",
        "token = self.tokenizer.get_v2_token_0()",
        "unexpected token: expected_identifier_name",
        "tokens: 128000",
        "test token_set::tests::test_mask_first_128 ... ok",
        "PASSWORD=$DB_PASSWORD_V2_2024",
        "PASSWORD=[MASKED]",
        "secret_file=/run/secrets/database_1_2",
        "token: ${{ secrets.GITHUB_TOKEN_2 }}",
        "https://gitlab.example.com/group/project/-/jobs/4711",
        "http://user:$PASSWORD@host",
        "author: someone123456789",
        "sk-loading-indicator-container-2",
        "glpat-short",
        "sorted by key: primary_key_2_asc",
        "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert PLAIN.redact_text(text) == text


def test_a_key_that_is_never_closed_takes_no_ordinary_lines_with_it() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + some(ALNUM, 64) + "\nBUILD FAILED in 3s\n"
    assert PLAIN.redact_text(text) == "[redacted: private-key]\n\nBUILD FAILED in 3s\n"


def test_redacting_twice_changes_nothing() -> None:
    redactor = Redactor([SECRET])
    text = "\n".join(
        [SECRET, PEM, JWT, "token=a1b2c3d4e5f6g7h8", "https://u:pw@h/", shifted(SECRET, 1)]
    )
    once = redactor.redact_text(text)
    assert redactor.redact_text(once) == once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "begin"),
    [
        ("a", ""),
        ("eyJ", ""),
        ("eyJaaaaaaaa.", ""),
        ("-----BEGIN PRIVATE KEY-----", ""),
        ("-", "-----BEGIN PRIVATE KEY-----"),
        ("://a:", ""),
        ("token", ""),
        ("password=", ""),
        ("authorization: ", ""),
        ("a", "sk-"),
        ("sk-a ", ""),
        (" ", "bearer "),
        ("p\n", ""),
        (" ", '"auth":'),
        ("_", "secret"),
    ],
)
def test_redacting_takes_linear_time_for_hostile_text(part: str, begin: str) -> None:
    redactor = Redactor([SECRET, "hunter2hunter2"])
    assert takes_linear_time(redactor.redact_text, part, 100_000, begin)


@pytest.mark.attack("redaction")
@pytest.mark.parametrize(
    "form",
    [
        f"https://gitlab-ci-token:{JOB_TOKEN}@gitlab.example.com/g/p.git",
        f"?job_token={JOB_TOKEN}&x",
        json.dumps({"token": JOB_TOKEN}),
        base64.b64encode(JOB_TOKEN.encode()).decode(),
        base64.encodebytes(JOB_TOKEN.encode()).decode(),  # as `base64` without -w0 wraps it
        base64.encodebytes(f"gitlab-ci-token:{JOB_TOKEN}".encode()).decode(),
    ],
)
def test_a_jobs_token_goes_in_every_form(form: str) -> None:
    redacted = PLAIN.redact_text(f"before {form}\nafter")
    assert redacted.startswith("before ")
    assert redacted.endswith("after")
    header, claims, signature = JOB_TOKEN.split(".")
    for part in (header, claims, signature):
        for size in (12, 24):
            assert part[-size:] not in redacted
    for line in form.split("\n"):
        assert not line.strip("=") or line not in redacted or len(line) < 24
