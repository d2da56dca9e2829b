"""Files that are saved while the model thinks."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.fakes import MemorySandbox
from worker.conversation.messages import ToolCall, ToolResult
from worker.conversation.plan import PlannedFile
from worker.tools.source import Ran
from worker.turns import sandbox as prefetch
from worker.turns.sandbox import Prefetch

LOG = PlannedFile("gitlab_get_job_log", "/tmp/data/job-1.log", "the log", {"job_id": 1})
DIFF = PlannedFile("gitlab_get_mr_diff", "/tmp/data/mr.diff", "the diff")


@dataclass
class Saver:
    """Saves what it is asked for; `fails` are the sources that have nothing to give."""

    sandbox: MemorySandbox
    fails: tuple[str, ...] = ()
    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    def is_repeatable(self, call: ToolCall) -> bool:
        return True

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for call in calls:
            self.gate.wait(30)
            asked = json.loads(call.arguments)
            self.asked.append(asked["path"])
            if asked["source"] in self.fails:
                content = json.dumps({"unavailable": "GitLab says\n403"})
                yield Ran(ToolResult(call.id, call.name, content, True), 0, 0.0)
                continue
            self.sandbox.put(asked["path"], [b"content"])
            yield Ran(ToolResult(call.id, call.name, "{}"), 7, 0.0)


def test_all_is_there_when_it_was_waited_for() -> None:
    sandbox = MemorySandbox()
    saving = Prefetch([LOG, DIFF], Saver(sandbox), sandbox)
    saving.begin()
    saving.wait()
    assert set(sandbox.files) == {LOG.path, DIFF.path}
    assert saving.tell_news() == ""


def test_what_cannot_be_saved_is_told_once() -> None:
    sandbox = MemorySandbox()
    saving = Prefetch([LOG, DIFF], Saver(sandbox, ("gitlab_get_mr_diff",)), sandbox)
    saving.begin()
    saving.wait()
    assert saving.tell_news() == "(/tmp/data/mr.diff could not be saved: GitLab says 403)"
    assert saving.tell_news() == ""


def test_what_is_there_is_not_written_over() -> None:
    sandbox = MemorySandbox(files={LOG.path: b"the model's"})
    saver = Saver(sandbox)
    saving = Prefetch([LOG, DIFF], saver, sandbox)
    saving.begin()
    saving.wait()
    assert sandbox.files[LOG.path] == b"the model's"
    assert saver.asked == [DIFF.path]


def test_in_another_sandbox_it_is_saved_once_more() -> None:
    sandbox = MemorySandbox()
    saving = Prefetch([LOG], Saver(sandbox), sandbox)
    saving.begin()
    saving.wait()
    sandbox.files.clear()
    saving.begin()
    saving.wait()
    assert LOG.path in sandbox.files


def test_a_sandbox_that_is_gone_is_no_news() -> None:
    sandbox = MemorySandbox(gone=True)
    saving = Prefetch([LOG], Saver(sandbox), sandbox)
    saving.begin()
    saving.wait()
    assert saving.tell_news() == ""


def test_what_takes_too_long_is_told_and_not_waited_for() -> None:
    sandbox = MemorySandbox()
    saver = Saver(sandbox)
    saver.gate.clear()
    saving = Prefetch([LOG], saver, sandbox, patience=0.01)
    saving.begin()
    saving.wait()
    assert "it takes too long" in saving.tell_news()
    saver.gate.set()
    saving.close()


def test_after_the_end_nothing_more_is_begun() -> None:
    sandbox = MemorySandbox()
    saver = Saver(sandbox)
    saver.gate.clear()
    many = [PlannedFile("s", f"/tmp/data/{number}", "x") for number in range(20)]
    saving = Prefetch(many, saver, sandbox)
    saving.begin()
    saving.close()
    saver.gate.set()
    saving.begin()
    assert len(saver.asked) <= prefetch.WORKERS
