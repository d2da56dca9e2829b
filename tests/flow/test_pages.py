"""From the note's link to the page of what has happened, through the product's own processes."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from tests.flow.product import Product, product
from tests.simulators.gitlab import Note
from worker.clock import SystemClock
from worker.conversation.triggers import Replied, trigger_id
from worker.lab import story
from worker.queue.journal import Journal
from worker.queue.leases import Leases
from worker.sessions.folder import FolderStore

pytestmark = pytest.mark.usefixtures("bubblewrap")

PUBLIC = "https://sandpiper.example/pages"
TOKEN = "the-operators-token-0123"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Product]:
    with product(tmp_path, story.make_script(), "memory://") as made:
        made.write_settings(f"pages: {{url: '{PUBLIC}/'}}\n")
        made.env["SANDPIPER_OPERATOR_TOKEN"] = TOKEN
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []


class _Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.links = "", list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def linked(note: Note, url: str) -> str:
    """The page's address in a note, at the process that serves it."""
    found = re.search(rf"\[Session\]\({PUBLIC}(/sessions/[0-9a-f]{{20}}\?sig=[^)]*)\)", note.body)
    assert found, note.body
    return url + found[1]


def test_a_note_leads_to_the_page_of_its_session(told: Product) -> None:
    with told.serve() as serve:
        told.pipeline_failed()
        serve.until(lambda: told.objects("context.json"), "the analysis was not stored")
        first = told.notes()[0]
        told.gitlab.comment(told.scene.mr, told.scene.author, story.QUESTION, first.discussion_id)
        serve.until(lambda: len(told.objects("context.json")) == 2, "the answer was not stored")
        addresses = [linked(note, told.url) for note in told.notes()]
        assert len(addresses) == 2
        answer = httpx.get(addresses[0])
        assert answer.status_code == 200
        page = _Text(answer.text)
        for part in ("Caused by this change", "sandbox_exec", story.QUESTION, "Reply 1", "4 of 50"):
            assert part in page.text
        log = next(link for link in page.links if "unit-tests.log&" in link)
        fetched = httpx.get(f"{told.url}/sessions/{log}")
        assert fetched.text.startswith("Running with gitlab-runner")
        assert fetched.text.endswith("ERROR: Job failed: exit code 1\n")
        assert httpx.get(addresses[0][:-1]).status_code == 404
        listed = httpx.get(f"{told.url}/sessions", auth=("me", TOKEN))
        assert "northsound/ferrytimes" in listed.text
        assert "Caused by this change" in listed.text
        assert "<h2>Given up" not in listed.text
        assert httpx.get(f"{told.url}/sessions").status_code == 401
        assert TOKEN not in serve.log.read_text()


def test_operators_see_what_was_given_up(told: Product) -> None:
    clock, store = SystemClock(), FolderStore(told.folder / "store")
    leases = Leases(store, clock, "another")
    journal = Journal(store.records, leases, clock)
    trigger = Replied(501, 1, "thread", 99)
    with leases.register_work() as (owner, _):
        begun = journal.take_trigger(trigger, owner)
        journal.park_entry(begun, "three workers died at it")
    with told.serve():
        listed = _Text(httpx.get(f"{told.url}/sessions", auth=("me", TOKEN)).text)
    assert f"{trigger_id(trigger)} " in listed.text
    assert "note 99 on 501!1: three workers died at it" in listed.text
