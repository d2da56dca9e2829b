"""Whoever writes two lines of a log hides nothing of what stands between them."""

import json
import random
from collections.abc import Callable

import pytest

from tests.attacks.redaction import find_left
from tests.attacks.redaction.hidden_lines import HIDDEN_CASES, HONEST, PAIRS
from tests.attacks.redaction.private_keys import KEYS, PREFIXES
from worker.safety.redact import Redactor
from worker.safety.redacted_values import redact_stream, redact_values

pytestmark = pytest.mark.attack("redaction")
PLAIN = Redactor()


def test_what_stands_between_two_lines_stays(
    record_property: Callable[[str, object], None],
) -> None:
    record_property("tried", len(HIDDEN_CASES))
    wrong = {}
    for case in HIDDEN_CASES:
        clean = PLAIN.redact_text(case.text)
        if lost := [line for line in case.honest if json.dumps(line)[1:-1] not in clean]:
            wrong[case.name] = lost
    assert wrong == {}


def test_two_texts_of_a_list_hide_nothing_of_those_between_them() -> None:
    for first, last in PAIRS.values():
        for lines in HONEST.values():
            clean = redact_values({"titles": [first, *lines, last]}, PLAIN.redact_text)["titles"]
            assert clean[1:-1] == list(lines), first


NOISE = ("db-1  | checkpoint starting: time", "INFO src/app/Main.java:3 ready", "Downloading 12 %")


def _mix(lines: list[str], seed: int) -> list[str]:
    """Other output between the lines of a key, as of jobs that run beside each other."""
    seeded, mixed = random.Random(seed), []
    for line in lines:
        mixed += [line, *seeded.choices(NOISE, k=seeded.choice((0, 0, 1, 3)))]
    return mixed


@pytest.mark.parametrize("name", ["plain", "timestamps", "added by a diff", "grep -A", "compose"])
@pytest.mark.parametrize("kind", ["rsa", "openssh", "pgp", "pkcs8"])
def test_a_key_goes_and_the_output_that_is_mixed_with_it_stays(kind: str, name: str) -> None:
    for seed in range(8):
        lines = _mix(PREFIXES[name](KEYS[kind]), seed)
        text = "\n".join(lines)
        clean = PLAIN.redact_text(text)
        for line in KEYS[kind][1:-1]:
            # A short last line that stands alone is no secret by itself.
            assert len(line) < 40 or find_left(line, text, clean, 12) == []
        assert [line for line in clean.split("\n") if line in NOISE] == [
            line for line in lines if line in NOISE
        ]
        assert PLAIN.redact_text(clean) == clean


def test_a_mixed_key_in_pieces_is_redacted_as_the_whole_is() -> None:
    around = [f"step {number} of very many, done" for number in range(3_000)]
    text = "\n".join([*around, *_mix(KEYS["pgp"], 1), *around, *_mix(KEYS["rsa"], 2), *around, ""])
    data = text.encode()
    whole, split = PLAIN.redact_data(data), data.splitlines(keepends=True)
    for size in (7, 100, 333, 1_500):
        pieces = [b"".join(split[at : at + size]) for at in range(0, len(split), size)]
        assert b"".join(redact_stream(pieces, PLAIN.redact_data)) == whole


def test_a_key_is_no_longer_than_its_algorithm_makes_it() -> None:
    begin, end = KEYS["ec"][0], KEYS["ec"][-1]
    body = KEYS["pgp"][4:84]
    clean = PLAIN.redact_text("\n".join([begin, *body, end]))
    assert "[redacted: private-key]" in clean
    assert all(line in clean for line in body[30:50])
