"""Tools that are found instead of announced, and documents that are shown once."""

import json
from functools import partial
from typing import Any

import pytest

from tests.contexts import call
from tests.fakes import FixedSource, MemorySandbox
from worker.conversation.messages import ToolSpec
from worker.gitlab.read.redactions import Redactions
from worker.tools.base import SavedDocuments, ToolContext
from worker.tools.documents import has_file
from worker.tools.source import Document, DocumentKind
from worker.tools.toolbox import FIND_TOOL_USES, WorkflowToolbox, make_find_tool

CLEAN = Redactions(bytes)
NO_ARGUMENTS = {"type": "object", "properties": {}}
RUNS = ToolSpec("gitlab_list_job_runs", "How a job has fared on the target branch.", NO_ARGUMENTS)
REPORT = ToolSpec("gitlab_get_test_report", "The tests that failed, as uploaded.", NO_ARGUMENTS)
OLD, NEW = (
    Document(CLEAN(text * 2000), DocumentKind.TEXT) for text in (b"line\n", b"other line\n")
)
SMALL = Document(CLEAN(b'{"title": "x"}'))


class Kit:
    """A toolbox with two sources, of which the model was told of none."""

    def __init__(self, answer: Document = OLD, finds: int = FIND_TOOL_USES) -> None:
        self.sandbox = MemorySandbox()
        self.sources = {spec.name: FixedSource(spec, answer) for spec in (RUNS, REPORT)}
        context = ToolContext(
            *(self.sandbox, self.sources, 120.0, str),
            documents=SavedDocuments(partial(has_file, self.sandbox)),
        )
        self.toolbox = WorkflowToolbox(context, lambda name: True, (RUNS, REPORT), finds)
        self.number = 0

    def run(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        (ran,) = self.toolbox.run([call("c", name, json.dumps(arguments))], self.number)
        content: dict[str, Any] = json.loads(ran.result.content)
        return content

    def fetch(self, path: str, **arguments: Any) -> dict[str, Any]:
        asked = {"source": REPORT.name, "arguments": arguments, "path": path}
        return self.run("fetch_to_sandbox", asked)


def test_a_tool_is_found_by_what_it_gives_with_its_arguments() -> None:
    found = Kit().run("find_tool", {"query": "has this job failed on the target branch before?"})
    assert found["tools"][0] == {
        "name": RUNS.name,
        "description": RUNS.description,
        "arguments": NO_ARGUMENTS,
    }
    assert "fetch_to_sandbox" in found["how"]


def test_what_does_not_match_is_named_at_least() -> None:
    found = Kit().run("find_tool", {"query": "weather"})
    assert found["tools"] == []
    assert found["others"] == [RUNS.name, REPORT.name]


@pytest.mark.parametrize(
    ("finds", "often"), [(FIND_TOOL_USES, "3 times"), (1, "once"), (5, "5 times")]
)
def test_it_may_be_used_as_often_as_is_set(finds: int, often: str) -> None:
    kit = Kit(finds=finds)
    for _ in range(finds):
        assert "tools" in kit.run("find_tool", {"query": "report"})
    assert f"may be used {often};" in kit.run("find_tool", {"query": "report"})["error"]
    assert f"At most {often}." in make_find_tool((RUNS, REPORT), finds).spec.description


def test_a_tool_that_was_found_can_be_called_and_fetched() -> None:
    kit = Kit()
    assert "saved_to" in kit.fetch("/tmp/data/report")
    assert "saved_to" in kit.run(RUNS.name, {})


def test_a_document_that_was_saved_is_answered_with_where_it_lies() -> None:
    kit = Kit()
    assert "line" in kit.fetch("/tmp/data/one")["preview"]
    again = kit.fetch("/tmp/data/two")
    assert again["saved_to"] == "/tmp/data/two"
    assert "was saved before: /tmp/data/one" in again["preview"]
    assert kit.sandbox.files["/tmp/data/two"] == kit.sandbox.files["/tmp/data/one"]
    shown = kit.run(REPORT.name, {})
    assert shown["saved_to"] == "/tmp/data/one"


def test_a_call_whose_result_was_saved_is_not_shown_again() -> None:
    kit = Kit()
    first = kit.run(REPORT.name, {})
    again = kit.run(REPORT.name, {})
    assert again["saved_to"] == first["saved_to"] == "/tmp/_out/1.txt"
    assert "was saved before" in again["preview"]


def test_what_has_changed_is_shown_again() -> None:
    kit = Kit()
    kit.fetch("/tmp/data/one")
    kit.sources[REPORT.name].answer = NEW
    assert "other line" in kit.fetch("/tmp/data/one")["preview"]


def test_what_is_gone_from_the_sandbox_is_shown_again() -> None:
    kit = Kit()
    kit.fetch("/tmp/data/one")
    kit.sandbox.files.clear()
    assert "was saved before" not in kit.fetch("/tmp/data/one")["preview"]


@pytest.mark.parametrize("path", ["/tmp/data/one", "/tmp/data/./one"])
def test_a_document_whose_file_was_overwritten_by_another_is_shown_again(path: str) -> None:
    kit = Kit()
    kit.fetch("/tmp/data/one", job_id=1)
    kit.sources[REPORT.name].answer = NEW
    kit.fetch(path, job_id=2)
    kit.sources[REPORT.name].answer = OLD
    assert "was saved before" not in kit.run(REPORT.name, {"job_id": 1})["preview"]


def test_a_document_that_is_saved_twice_in_one_file_is_not_shown_again() -> None:
    kit = Kit()
    for _ in range(2):
        kit.fetch("/tmp/data/one")
    assert kit.run(REPORT.name, {})["saved_to"] == "/tmp/data/one"


def test_another_question_to_the_same_source_is_another_document() -> None:
    kit = Kit()
    kit.fetch("/tmp/data/one", job_id=1)
    assert "was saved before" not in kit.fetch("/tmp/data/two", job_id=2)["preview"]


def test_a_small_document_is_shown_as_often_as_it_is_asked_for() -> None:
    kit = Kit(SMALL)
    for _ in range(2):
        assert kit.run(REPORT.name, {}) == {"result": {"title": "x"}}
