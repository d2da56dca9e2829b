"""Sessions that commit 1cf5006 has stored: this version shows them and goes on with them.

Recorded on the bundled case with the embedded broker and a folder store: an analysis with its
sandbox, the same with a reply, and a failure that a rule has told. The address of the simulated
GitLab was replaced by SERVER.
"""

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest

from tests.flow.product import DOCKER, Product, product
from tests.simulators.gitlab import Note
from worker.conversation import context_json
from worker.conversation.context import Context, Status
from worker.conversation.messages import drop_wire
from worker.lab.script import Answer, Asked, Call, Say
from worker.safety.markdown import find_marker
from worker.settings import playbook

pytestmark = pytest.mark.usefixtures("sandbox_image")

STORED = Path(__file__).parent / "stored"
SERVER = b"https://gitlab.example.com"
TOKEN = "the-operators-token-0123"
QUESTION = "Is the file still there?"
DATA = {"analysis": "windows.py", "reply": "fixed.py windows.py", "rule": ""}
"""The Python files that each session's sandbox had in /tmp/data."""

PULL = b"""\
Running with gitlab-runner 18.5.0 (bda84871)
Pulling docker image docker.io/library/python:3.12 ...
ERROR: Job failed: failed to pull image "docker.io/library/python:3.12" with specified policies \
[always]: Error response from daemon: toomanyrequests: You have reached your unauthenticated pull \
rate limit (manager.go:238:1s)
"""


def go_on(asked: Asked) -> Answer:
    """A look into the sandbox, and what it shows."""
    if not asked.answers:
        return Call([("sandbox_exec", {"command": "echo There is: $(cd /tmp/data && ls *.py)"})])
    return Say(json.loads(asked.get_last_result("sandbox_exec").content)["stdout"])


@pytest.fixture(params=sorted(DATA))
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def told(tmp_path: Path, case: str) -> Iterator[Product]:
    """The stored session in the store of the product."""
    with product(tmp_path, go_on, "memory://", driver=DOCKER) as made:
        made.write_settings("pages: {url: 'https://sandpiper.example'}\n")
        made.env |= {"SANDPIPER_OPERATOR_TOKEN": TOKEN, "SANDPIPER_PAGE_SECRET": "p" * 32}
        shutil.copytree(STORED / case / "store", tmp_path / "store")
        for path in (tmp_path / "store").rglob("*.json"):
            path.write_bytes(path.read_bytes().replace(SERVER, made.gitlab.url.encode()))
        if case == "rule":
            pipeline = made.gitlab.run_pipeline(made.scene.mr)
            made.gitlab.add_job(pipeline, "build", status="failed", trace=PULL)
        yield made
        assert made.gitlab.unexpected_requests == []
        assert made.model.unexpected_requests == []


def post_notes(told: Product, case: str) -> Note:
    """Post the session's notes as they were; returns the last one."""
    text = (STORED / case / "notes.json").read_bytes().replace(SERVER, told.gitlab.url.encode())
    mr, bot, thread = told.scene.mr, told.scene.bot, ""
    for body in json.loads(text):
        note = told.gitlab.comment(mr, bot, body, thread, thread=not thread)
        assert note is not None
        thread = note.discussion_id
    return told.notes()[-1]


def read_turns(told: Product) -> list[Context]:
    return [context_json.load_context(path.read_bytes()) for path in told.objects("context.json")]


def read_page(told: Product, session: str) -> str:
    """The text of a session's page, by its link in the operators' list."""
    listed = httpx.get(f"{told.url}/sessions", auth=("me", TOKEN)).text
    link = re.search(rf"sessions/{session}\?sig=[^\"]*", listed)
    assert link, listed
    answer = httpx.get(f"{told.url}/{unescape(link[0])}")
    assert answer.status_code == httpx.codes.OK
    return unescape(re.sub(r"<[^>]*>", "", answer.text))


def test_a_stored_session_is_shown_and_goes_on_to_a_note(told: Product, case: str) -> None:
    last = post_notes(told, case)
    before = read_turns(told)
    stored = {path: path.read_bytes() for path in told.objects("context.json")}
    assert [turn.turn for turn in before] == list(range(1 + (case == "reply")))
    found = before[0].outcome
    assert found is not None
    assert found.status is Status.DONE
    with told.serve() as serve:
        page = read_page(told, before[0].session_id)
        for part in ("northsound/ferrytimes", found.text.splitlines()[-1].replace("`", "")):
            assert part in page
        told.gitlab.comment(told.scene.mr, told.scene.author, QUESTION, last.discussion_id)
        serve.until(lambda: len(read_turns(told)) > len(before), "the reply was not stored")
        page = read_page(told, before[0].session_id)
    assert QUESTION in page
    answer = told.notes()[-1]
    assert answer.discussion_id == last.discussion_id
    assert f"There is: {DATA[case]}".strip() in answer.body.split("\n")
    marker = find_marker(answer.body)
    assert marker is not None
    assert (marker.session_id, marker.turn) == (before[0].session_id, len(before))
    after = read_turns(told)[-1]
    # That version kept no prompt: the session goes on with what its workflow says now, and without
    # thinking that was signed for the former prompt.
    known = tuple(map(drop_wire, before[-1].messages))
    assert after.messages[: len(known)] == known
    assert playbook.load("").get(after.workflow).text in after.system
    assert len(list((told.folder / "store" / "prompts").iterdir())) == 1
    assert {path: path.read_bytes() for path in stored} == stored
