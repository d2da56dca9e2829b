"""What links are signed with where only the webhook's secret is there."""

import hmac
import logging

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.accepting import queue_nothing
from worker import wiring
from worker.errors import ConfigError
from worker.settings import Settings
from worker.wiring.receiver import build_pages

SESSION, UNTIL = "0123456789abcdef0123", 1_900_000_000
HOOK = "a-webhook-secret-0123456789"
URL = "https://pages.example.com"


def settings(hook: str = HOOK, **pages: str) -> Settings:
    return Settings.model_validate({"gitlab": {"webhook_secret": hook}, "pages": pages})


def warnings(chosen: Settings, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.WARNING):
        wiring.build_receiver(chosen, queue_nothing)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.attack("pages")
@pytest.mark.parametrize("hook", [HOOK, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="])
def test_links_have_a_key_of_their_own(hook: str) -> None:
    signer = build_pages(settings(hook, url=URL)).signer
    assert signer is not None
    given = signer.sign(SESSION, UNTIL)
    text = f"{SESSION}\n{UNTIL}".encode()
    key = HKDF(SHA256(), 32, salt=None, info=b"sandpiper session pages").derive(hook.encode())
    assert given == f"{UNTIL}.{hmac.digest(key, text, 'sha256').hex()}"
    assert hmac.digest(hook.encode(), text, "sha256").hex() not in given


@pytest.mark.attack("pages")
@pytest.mark.parametrize("hook", ["", "hunter2", "x" * 15])
def test_a_secret_that_a_link_would_give_away_signs_none(hook: str) -> None:
    published = build_pages(settings(hook, url=URL))
    assert published.signer is None
    with pytest.raises(ConfigError, match="set SANDPIPER_PAGE_SECRET"):
        published.make_linker()


@pytest.mark.parametrize(
    ("hook", "pages", "told"),
    [
        (HOOK, {"url": URL}, "signed with a key from the webhook's secret"),
        (HOOK, {"operator_token": "x" * 16}, "signed with a key from the webhook's secret"),
        ("hunter2", {"url": URL}, "cannot be signed"),
    ],
)
def test_a_start_without_a_secret_for_links_says_so(
    hook: str, pages: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = warnings(settings(hook, **pages), caplog)
    assert told in line
    assert "set SANDPIPER_PAGE_SECRET" in line
    assert hook not in line


@pytest.mark.parametrize("pages", [{}, {"url": URL, "secret": "y" * 16}])
def test_a_start_with_nothing_to_sign_or_a_secret_for_it_says_nothing(
    pages: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings(settings("hunter2", **pages), caplog) == []
