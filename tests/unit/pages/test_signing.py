"""What links are signed with, and that no page is served where none is asked for."""

import hmac
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from starlette.testclient import TestClient

from tests.accepting import queue_nothing
from tests.contexts import SUBJECT, context
from worker import wiring
from worker.conversation import context_json
from worker.conversation.context import SessionKey
from worker.errors import StoreError
from worker.pages.sign_in import Signer
from worker.sessions.folder import FolderStore
from worker.settings import Settings
from worker.wiring.stores import build_pages

KEY = SessionKey(SUBJECT.project_id, SUBJECT.mr_iid, "0123456789abcdef0123")
SESSION, UNTIL = KEY.session_id, 4_000_000_000
HOOK = "a-webhook-secret-0123456789"
SIGNING = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SECRET, TOKEN = "what-the-links-are-signed-with", "the-operators-token-0123"
URL = "https://pages.example.com"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """A store with one session, whose id the attacker knows."""
    made = FolderStore(tmp_path / "store")
    made.commit_turn(KEY, 0, context_json.dump_context(context()))
    return made


def settings(folder: Path, hook: str = HOOK, **pages: str) -> Settings:
    return Settings.model_validate(
        {"gitlab": {"webhook_secret": hook}, "pages": pages, "store": f"file://{folder}/store"}
    )


def serving(chosen: Settings) -> TestClient:
    return TestClient(wiring.build_receiver(chosen, queue_nothing))


def derive_hkdf(secret: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"sandpiper session pages").derive(secret.encode())


def forge_signatures(*secrets: str) -> Iterator[str]:
    """Everything that whoever knows these secrets could take for the key."""
    text = f"{SESSION}\n{UNTIL}".encode()
    for secret in secrets:
        for key in (derive_hkdf(secret), secret.encode(), b""):
            yield f"{UNTIL}.{hmac.digest(key, text, 'sha256').hex()}"


def list_addresses(signature: str) -> list[str]:
    page = f"/sessions/{SESSION}"
    return [f"{page}?sig={signature}", f"{page}/files?sig={signature}&turn=0&path=x.txt"]


@pytest.mark.attack("pages")
@pytest.mark.parametrize("hook", [HOOK, SIGNING])
def test_a_webhooks_secret_opens_no_page(store: FolderStore, tmp_path: Path, hook: str) -> None:
    client = serving(settings(tmp_path, hook, url=URL))
    for signature in forge_signatures(hook, ""):
        for address in list_addresses(signature):
            assert client.get(address).status_code == 404
    ours = build_pages(settings(tmp_path, hook, url=URL)).make_linker(store.read_installation_key())
    assert client.get(ours(SESSION).removeprefix(URL)).status_code == 200


@pytest.mark.attack("pages")
@pytest.mark.parametrize("pages", [{}, {"secret": SECRET}, {"operator_token": TOKEN}])
def test_without_an_address_of_the_pages_there_is_none(
    store: FolderStore, tmp_path: Path, pages: dict[str, str]
) -> None:
    client = serving(settings(tmp_path, **pages))
    nowhere = client.get("/nothing/here")

    def look(signature: str) -> None:
        for address in (
            *list_addresses(signature),
            "/sessions",
            "/sessions/report",
            "/incidents",
            "/tests",
        ):
            answer = client.get(address, auth=("me", TOKEN))
            assert (answer.status_code, answer.text) == (404, nowhere.text)

    for forged in forge_signatures(HOOK, SECRET):
        look(forged)
    look(Signer(store.read_installation_key()).sign(SESSION, UNTIL))


def test_links_signed_with_a_secret_of_their_own_outlive_an_upgrade(tmp_path: Path) -> None:
    link = build_pages(settings(tmp_path, url=URL, secret=SECRET)).make_linker("a" * 64)(SESSION)
    signature = re.sub(r".*sig=", "", link)
    until = signature.partition(".")[0]
    mac = hmac.digest(derive_hkdf(SECRET), f"{SESSION}\n{until}".encode(), "sha256").hex()
    assert signature == f"{until}.{mac}"


def test_a_store_that_is_away_is_said_and_asked_again(store: FolderStore, tmp_path: Path) -> None:
    link = build_pages(settings(tmp_path, url=URL)).make_linker(store.read_installation_key())
    key = tmp_path / "store" / "keys" / "installation"
    content = key.read_bytes()
    client = serving(settings(tmp_path, url=URL))
    for damaged in (b"", b"<html>502</html>"):
        key.write_bytes(damaged)
        with pytest.raises(StoreError, match="no key of 64 hex digits"):
            store.read_installation_key()
        assert client.get(link(SESSION).removeprefix(URL)).status_code == 503
        assert key.read_bytes() == damaged
    key.write_bytes(content)
    assert client.get(link(SESSION).removeprefix(URL)).status_code == 200


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ({"operator_token": TOKEN}, "without pages.url no page is served"),
        ({"operator_token": TOKEN, "url": URL}, ""),
        ({"url": URL}, ""),
        ({}, ""),
    ],
)
def test_a_start_says_what_the_operators_token_does_not_open(
    tmp_path: Path, pages: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        serving(settings(tmp_path, "hunter2", **pages))
    said = [record.getMessage() for record in caplog.records]
    assert (told in said[0]) if told else (said == [])
    assert TOKEN not in "".join(said)
