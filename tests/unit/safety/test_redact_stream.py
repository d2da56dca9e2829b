"""A secret that lies in two pieces of a log is taken out of it."""

import random
from collections.abc import Iterator

import pytest

from worker.safety.redact import Redactor
from worker.safety.redacted_values import redact_stream

KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        *("MIIEpAIBAAKCAQEA" + "Zm9vYmFy" * 6 for _ in range(40)),
        "-----END RSA PRIVATE KEY-----",
    ]
)
KNOWN = "hunter2hunter2-hunter2hunter2"
WRAPPED = "\n    ".join(KNOWN[at : at + 4] for at in range(0, len(KNOWN), 4))


def log_with(secret: str, size: int) -> bytes:
    lines = [f"step {number} of very many, done" for number in range(size)]
    return "\n".join([*lines, secret, *lines, ""]).encode()


def pieces(text: bytes, seed: int) -> list[bytes]:
    """Whole lines, cut anywhere between them."""
    seeded = random.Random(seed)
    lines, made = text.splitlines(keepends=True), []
    while lines:
        count = seeded.choice([1, 7, 300, 4_000])
        made.append(b"".join(lines[:count]))
        lines = lines[count:]
    return made


@pytest.mark.parametrize("secret", [KEY, WRAPPED, KNOWN])
def test_pieces_are_redacted_as_the_whole_is(secret: str) -> None:
    redactor = Redactor([KNOWN])
    text = log_with(secret, 6_000)
    whole = redactor.redact_data(text)
    assert b"[redacted: " in whole
    for seed in range(6):
        assert b"".join(redact_stream(pieces(text, seed), redactor.redact_data)) == whole
    at = text.index(secret.encode()) + len(secret) // 2
    cut = text.index(b"\n", at) + 1
    assert b"".join(redact_stream([text[:cut], text[cut:]], redactor.redact_data)) == whole


def test_what_is_held_back_does_not_grow() -> None:
    text = b"".join(b"a line like any other %d\n" % number for number in range(100_000))
    sizes: list[int] = []
    held = given = 0
    for piece in redact_stream(_counting(text, sizes), bytes):
        given += len(piece)
        held = max(held, sum(sizes) - given)
    assert given == len(text)
    assert held < 400_000


def _counting(text: bytes, sizes: list[int]) -> Iterator[bytes]:
    lines = text.splitlines(keepends=True)
    for start in range(0, len(lines), 4_000):
        piece = b"".join(lines[start : start + 4_000])
        sizes.append(len(piece))
        yield piece


def test_a_log_of_one_piece_is_looked_at_once() -> None:
    seen: list[int] = []

    def count(data: bytes) -> bytes:
        seen.append(len(data))
        return data

    text = b"a line like any other\n" * 20_000
    assert b"".join(redact_stream([text], count)) == text
    assert seen == [len(text)]


@pytest.mark.parametrize("secret", [KEY, WRAPPED])
def test_a_secret_that_reaches_into_the_lines_held_back_is_not_parted(secret: str) -> None:
    redactor = Redactor([KNOWN])
    text = log_with(secret, 6_000)
    end = text.index(secret.encode()) + len(secret) + 1
    for after in (0, 1, 3):
        cut = end
        for _ in range(after):
            cut = text.index(b"\n", cut) + 1
        made = b"".join(redact_stream([text[:cut], text[cut:]], redactor.redact_data, overlap=5))
        assert made == redactor.redact_data(text)
