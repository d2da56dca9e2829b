"""Values lose their secrets as they are, before anything encodes them."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from tests.attacks.redaction.documents import PLACES, TOKENS
from worker.safety.redact import Redactor
from worker.safety.redacted_values import Redacted, redact_bytes, redact_json, redact_values
from worker.tools.source import Document

SHAPES: dict[str, Callable[[str], dict[str, Any]]] = {
    "a value": lambda text: {"description": text},
    "a key": lambda text: {"a": {text: 1}},
    "in a list": lambda text: {"labels": ["first", text, "last"]},
    "deep": lambda text: {"a": [{"b": [{"c": [{"d": text}]}]}]},
    "a tuple": lambda text: {"a": (1, text)},
    "among others": lambda text: {"a": [{"body": "a text"}, {"body": text}, {"line": 3}]},
    "JSON in a string": lambda text: {"log": json.dumps({"text": text})},
    "JSON in JSON in a string": lambda text: {"log": json.dumps({"x": json.dumps({"t": text})})},
}


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("shape", SHAPES)
def test_no_token_is_in_the_json_nor_in_what_it_decodes_to(
    shape: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", len(TOKENS) * len(PLACES))
    for kind, token in TOKENS.items():
        for place, text in PLACES.items():
            made = redact_json(SHAPES[shape](text.format(token)), Redactor().redact_text)
            decoded = repr(json.loads(made))
            assert token[-12:] not in made.decode(), (kind, place)
            assert token[-12:] not in decoded, (kind, place)
            assert "[redacted: " in decoded


@pytest.mark.attack("redaction")
def test_no_token_is_left_in_values_of_any_form(
    attack_inputs: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", attack_inputs)
    seeded, redactor = random.Random(12), Redactor()
    for _ in range(attack_inputs):
        token, place = seeded.choice([*TOKENS.values()]), seeded.choice([*PLACES.values()])
        value: Any = place.format(token)
        for _ in range(seeded.randrange(4)):
            value = seeded.choice(
                [{"a": value}, [value, 1], ["x\n", value], (None, value), {"t": json.dumps(value)}]
            )
        made = redact_json({"value": value}, redactor.redact_text)
        assert token[-12:] not in made.decode(), value
        assert token[-12:] not in repr(json.loads(made)), value


def test_a_name_may_say_that_its_value_is_a_secret() -> None:
    value = {"db": {"password": "Tr0ub4dor&3", "user": "Tr0ub4dor&3"}}
    clean = redact_values(value, Redactor().redact_text)
    assert clean == {"db": {"password": "[redacted: secret]", "user": "Tr0ub4dor&3"}}


@pytest.mark.parametrize("told", ["name", "key"])
def test_the_name_beside_a_value_may_say_that_it_is_a_secret(told: str) -> None:
    value = {"env": [{told: "DB_PASSWORD", "value": "Tr0ub4dor&3", "note": "Tr0ub4dor&3"}]}
    clean = redact_values(value, Redactor().redact_text)
    assert clean["env"] == [
        {told: "DB_PASSWORD", "value": "[redacted: secret]", "note": "Tr0ub4dor&3"}
    ]
    for plain in ({told: "DB_USER", "value": "Tr0ub4dor&3"}, {told: 1, "value": "Tr0ub4dor&3"}):
        assert redact_values(plain, Redactor().redact_text) == plain


def test_a_key_whose_lines_are_items_is_taken_out_whole() -> None:
    body = ["A" * 64, "B" * 64, "C" * 20]
    lines = ["begin", "-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]
    clean = redact_values({"lines": [*lines, "two\nlines"]}, Redactor().redact_text)
    assert clean == {"lines": ["begin", "[redacted: private-key]", "", "", "", "", "two\nlines"]}


def test_two_names_that_are_secrets_keep_their_values() -> None:
    value = {TOKENS["gitlab"]: 1, TOKENS["gitlab-ci"]: 2}
    clean = redact_values(value, Redactor().redact_text)
    assert clean == {"[redacted: gitlab-token]": 1, "[redacted: gitlab-token]'": 2}


class Kind(StrEnum):
    """A word of ours."""

    ONE = "one"


@dataclass(frozen=True)
class Part:
    """A value of core."""

    name: str
    kind: Kind
    parts: tuple["Part", ...] = ()
    number: int = 0


def test_dataclasses_stay_what_they_are() -> None:
    token = TOKENS["npm"]
    part = Part(f"a\n{token}", Kind.ONE, (Part(token, Kind.ONE, number=3),))
    mark = "[redacted: npm-token]"
    clean = redact_values(part, Redactor().redact_text)
    assert clean == Part(f"a\n{mark}", Kind.ONE, (Part(mark, Kind.ONE, number=3),))
    assert clean.kind is Kind.ONE


@pytest.mark.attack("redaction")
def test_what_was_not_redacted_becomes_no_document() -> None:
    raw: Any = b"glpat-"
    clean = redact_bytes(b"x", bytes)
    assert Document(clean).data == b"x"
    for wrong in (lambda: Document(raw), lambda: Redacted(raw, raw), lambda: Document(clean + raw)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError, match="not redacted"):
        Redacted.join_all([clean, raw])
