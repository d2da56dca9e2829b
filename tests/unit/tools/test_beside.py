"""What lies beside a log in the sandbox stays what it was said to be."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.contexts import call
from tests.fakes import FixedSource, MemorySandbox
from worker.conversation.messages import ToolSpec
from worker.gitlab.read.redactions import Redactions
from worker.safety.redacted_values import Redacted
from worker.tools.base import ToolContext
from worker.tools.source import GREEN, Document, DocumentKind, SideFile
from worker.tools.toolbox import WorkflowToolbox

CLEAN = Redactions(bytes)
LOG, OTHER, HOSTS = CLEAN(b"failed\n"), CLEAN(b"another\n"), CLEAN(b"passed\n")
PATH = "/tmp/data/unit.log"
FILE = {"source": "get_log", "path": PATH}
BESIDE = {"source": "get_green", "path": PATH + GREEN}


def source(name: str, document: Document) -> FixedSource:
    spec = ToolSpec(name, "A log.", {"type": "object", "properties": {}})
    return FixedSource(spec, document)


@pytest.fixture
def sandbox() -> MemorySandbox:
    return MemorySandbox()


@pytest.fixture
def fetch(sandbox: MemorySandbox) -> Callable[..., list[dict[str, Any]]]:
    def beside() -> list[SideFile]:
        return [SideFile(GREEN, lambda: iter([HOSTS]), "the log of job 7")]

    sources = {
        "get_log": source("get_log", Document(LOG, DocumentKind.LOG, side_files=beside)),
        "get_green": source("get_green", Document(OTHER, DocumentKind.LOG)),
    }
    toolbox = WorkflowToolbox(ToolContext(sandbox, sources, 9.0, str), lambda name: True)

    def run(*requests: dict[str, str], batch: bool = False) -> list[dict[str, Any]]:
        name = "fetch_batch_to_sandbox" if batch else "fetch_to_sandbox"
        given = [{"requests": list(requests)}] if batch else list(requests)
        calls = [call(str(at), name, json.dumps(each)) for at, each in enumerate(given)]
        made = [json.loads(ran.result.content) for ran in toolbox.run(calls, 0)]
        return made[0]["results"] if batch else made

    return run


Fetch = Callable[..., list[dict[str, Any]]]


def kept(sandbox: MemorySandbox) -> Redacted | bytes:
    return sandbox.files[PATH + GREEN]


def test_the_result_says_what_is_saved_beside_a_log(sandbox: MemorySandbox, fetch: Fetch) -> None:
    (made,) = fetch(FILE)
    assert made["also_saved"] == {PATH + GREEN: "the log of job 7"}
    assert kept(sandbox) == HOSTS


@pytest.mark.parametrize("batch", [False, True])
def test_another_log_is_not_saved_over_it(
    sandbox: MemorySandbox, fetch: Fetch, batch: bool
) -> None:
    _, refused = fetch(FILE, BESIDE, batch=batch)
    assert "error" in refused
    assert kept(sandbox) == HOSTS


def test_nor_later_and_the_answer_says_where_it_is(sandbox: MemorySandbox, fetch: Fetch) -> None:
    fetch(FILE)
    (refused,) = fetch(BESIDE)
    assert "is there already: the log of the job's last run that passed" in refused["error"]
    assert "choose another path" in refused["error"]
    assert kept(sandbox) == HOSTS


def test_where_there_is_none_the_model_may_save_one(sandbox: MemorySandbox, fetch: Fetch) -> None:
    (made,) = fetch(BESIDE)
    assert made["saved_to"] == PATH + GREEN
    (log,) = fetch(FILE)
    assert kept(sandbox) == OTHER
    assert log["also_saved"] == {PATH + GREEN: "it was there before and is kept as it was"}


def test_a_log_that_is_fetched_again_has_its_own_beside_it(
    sandbox: MemorySandbox, fetch: Fetch
) -> None:
    fetch(FILE)
    sandbox.files[PATH + GREEN] = b"spoilt by a command\n"
    (again,) = fetch(FILE)
    assert again["also_saved"] == {PATH + GREEN: "the log of job 7"}
    assert kept(sandbox) == HOSTS
