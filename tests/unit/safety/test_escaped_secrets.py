"""A token is known wherever a text holds it, also right after what an encoder wrote."""

from collections.abc import Callable

import pytest

from tests.attacks.redaction.documents import PLACES, TOKENS
from worker.safety.redact import Redactor

pytestmark = pytest.mark.attack("redaction")


@pytest.mark.parametrize("place", PLACES)
def test_a_token_is_found_after_an_escape(
    place: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("tried", len(TOKENS))
    for kind, token in TOKENS.items():
        redacted = Redactor().redact_text(PLACES[place].format(token))
        assert token[-12:] not in redacted, kind


@pytest.mark.parametrize("slashes", [0, 1, 3])
def test_a_named_value_is_found_in_json_within_json(slashes: int) -> None:
    quote = "\\" * slashes + '"'
    for name in ("client_secret", "Authorization", "auth"):
        text = f"{quote}{name}{quote}: {quote}kJ8dk2Lm9Qw3Zx{quote}"
        assert "kJ8dk2Lm9Qw3Zx" not in Redactor().redact_text(text), name
