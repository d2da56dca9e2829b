"""Private keys go whole, whatever a tool has put before their lines; what is around them stays."""

import random
from collections.abc import Callable

import pytest

from tests.attacks.redaction import BASE64, find_left
from tests.attacks.redaction import make_random as made
from tests.attacks.redaction.private_keys import KEY_CASES, KEYS, PREFIXES, KeyCase
from tests.linear import takes_linear_time
from worker.safety.redact import Redactor
from worker.safety.redacted_values import redact_stream

pytestmark = pytest.mark.attack("redaction")
PLAIN = Redactor()
MARK = "[redacted: private-key]"


def _wrong(case: KeyCase) -> str:
    clean = PLAIN.redact_text(case.text)
    if any(find_left(line, case.text, clean, 12) for line in case.hidden):
        return "a part of the key is left"
    if clean.count(MARK) != 1 or clean.count("\n") != case.text.count("\n"):
        return f"{clean.count(MARK)} marks, {clean.count(chr(10))} lines"
    if not (clean.startswith("BUILD STARTED\n") and clean.endswith("\nBUILD FAILED in 3s\n")):
        return "what is around the key is gone"
    return "" if PLAIN.redact_text(clean) == clean else "redacted twice"


def test_every_key_is_taken_out_of_every_place(
    record_property: Callable[[str, object], None],
) -> None:
    record_property("tried", len(KEY_CASES))
    wrong = {case.name: said for case in KEY_CASES if (said := _wrong(case))}
    assert wrong == {}


@pytest.mark.parametrize("name", ["removed by a diff", "grep -A", "spaced out", "timestamps"])
@pytest.mark.parametrize("kind", ["encrypted", "rsa-8192", "pgp", "putty"])
def test_a_key_in_pieces_is_redacted_as_the_whole_is(kind: str, name: str) -> None:
    key = PREFIXES[name](KEYS[kind])
    around = [f"step {number} of very many, done" for number in range(3_000)]
    lines = [*around, *key, *around, *key[:20], *around, *key[-9:], *around, ""]
    data = "\n".join(lines).encode()
    whole = PLAIN.redact_data(data)
    assert whole.count(MARK.encode()) == 3
    split = data.splitlines(keepends=True)
    seeded = random.Random(kind + name)
    for _ in range(4):
        pieces, at = [], 0
        while at < len(split):
            size = seeded.choice([1, 7, 300, 2_000])
            pieces.append(b"".join(split[at : at + size]))
            at += size
        assert b"".join(redact_stream(pieces, PLAIN.redact_data)) == whole


@pytest.mark.parametrize(
    "text",
    [
        "expected -----BEGIN RSA PRIVATE KEY----- at the beginning",
        "-----BEGIN PRIVATE KEY-----\nBUILD FAILED in 3s\n",
        "-----END PRIVATE KEY-----\n" + "a line of the log\n" * 40,
        "\n".join(["Downloading layer " + made(BASE64, 64)] * 3 + ["BUILD FAILED"]),
    ],
)
def test_a_marker_without_a_key_takes_nothing(text: str) -> None:
    assert PLAIN.redact_text(text) == text


def test_two_markers_far_apart_take_no_log_between_them() -> None:
    log = "".join(f"step {number} is done\n" for number in range(60))
    begin, end = KEYS["pkcs8"][0], KEYS["pkcs8"][-1]
    text = f"{begin}\n{log}{end}\n"
    assert PLAIN.redact_text(text) == text


@pytest.mark.slow
def test_hostile_keys_take_linear_time() -> None:
    begin, end = (line + "\n" for line in (KEYS["pkcs8"][0], KEYS["pkcs8"][-1]))
    body = made(BASE64, 64) + "\n"
    size = 75_000
    hostile = [
        *(begin, end, begin + body, end + body, begin + "\n", "BEGIN ", "BEGIN PRIVATE KEY "),
        *("Private-Lines: 3\n", begin.strip() + "\\n", "-" * 64, begin + body * 240, "PRIVATE KEY"),
        *(begin + "a" * 8_000, "BEGIN A A A A PRIVATE ", begin + "\n" * 9 + body),
    ]
    for each in hostile:
        assert takes_linear_time(PLAIN.redact_text, each, size), each[:40]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["A" * 16 + " ", "\\", "\\r", "%2B", "\\/", 'AA"', "aB3/", "\x1b[m", "AA ", "=", "%0"]
)
@pytest.mark.parametrize("last", ["", "!", "!" * 13])
def test_a_long_line_after_a_begin_marker_takes_linear_time(unit: str, last: str) -> None:
    begin = "-----BEGIN RSA PRIVATE KEY-----\n"
    assert takes_linear_time(PLAIN.redact_text, unit, 50_000, begin, last)
