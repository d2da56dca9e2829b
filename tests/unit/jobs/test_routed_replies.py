"""What a reply starts: nothing, an answer without a sandbox, or work with one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sandbox.base import Sandbox
from tests.contexts import call
from tests.fakes import MemorySandbox, says
from tests.jobs import FINDING, Job, MemoryDriver, Ran
from tests.simulators.gitlab import GitLabSim
from worker.conversation.messages import Usage
from worker.conversation.model import HelperAnswer
from worker.errors import Busy
from worker.turns.day_budget import DayBudget
from worker.turns.parts import Finished, Skipped

pytestmark = pytest.mark.slow

UNSURE = "I changed the seed on purpose."


@dataclass
class CountedDriver(MemoryDriver):
    """Counts the sandboxes that were started."""

    started: int = 0

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        self.started += 1
        return MemorySandbox()


@dataclass
class OneWord:
    """A helper that always says the same; "" stands for a helper that fails."""

    word: str
    context_tokens: int = 8_000
    asked: list[str] = field(default_factory=list)

    def ask(self, task: str, text: str, max_tokens: int) -> HelperAnswer | None:
        self.asked.append(text)
        assert 8 <= max_tokens <= 200
        if not self.word:
            return None
        return HelperAnswer(self.word, Usage(50, output=1), 0.0004, "t/helper")


@dataclass
class Thread:
    """A failure that has been looked at, and replies to its note."""

    job: Job
    driver: CountedDriver = field(default_factory=CountedDriver)

    def says(self, text: str, helper: OneWord | None = None) -> Ran:
        root = self.job.list_notes()[0].discussion_id
        comment = self.job.write_comment(text, root)
        budget = DayBudget(self.job.store.records, self.job.clock, 100.0)
        return self.job.run_comment(comment, sandboxes=self.driver, helper=helper, budget=budget)


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    with GitLabSim() as sim:
        job = Job(sim, tmp_path)
        job.script_answers(FINDING)
        assert isinstance(job.run_failed(), Finished)
        yield Thread(job)
        assert sim.unexpected_requests == []


def test_a_question_about_the_note_starts_no_sandbox(thread: Thread) -> None:
    thread.job.script_answers(says("Because of the race."))
    assert isinstance(thread.says("Why do you think so?"), Finished)
    assert thread.driver.started == 0


def test_a_question_that_calls_a_tool_after_all_gets_one(thread: Thread) -> None:
    thread.job.script_answers(says("", call("c1")), says("Because of the race."))
    assert isinstance(thread.says("Why do you think so?"), Finished)
    assert thread.driver.started == 1


@pytest.mark.parametrize("text", ["Please check the log again.", UNSURE])
def test_work_and_what_is_unclear_start_one_at_once(thread: Thread, text: str) -> None:
    thread.job.script_answers(says("Nothing new."))
    assert isinstance(thread.says(text), Finished)
    assert thread.driver.started == 1


@pytest.mark.parametrize(
    ("word", "started"), [("QUESTION", 0), ("WORK", 1), ("nonsense", 1), ("", 1)]
)
def test_where_rules_are_unsure_the_helper_is_asked_once(
    thread: Thread, word: str, started: int
) -> None:
    thread.job.script_answers(says("I see."))
    helper = OneWord(word)
    assert isinstance(thread.says(UNSURE, helper), Finished)
    assert (thread.driver.started, helper.asked) == (started, [UNSURE])
    calls = [(each.task, each.cost_usd) for each in thread.job.load_context().calls if each.task]
    route = "question" if word == "QUESTION" else "work"
    assert calls == ([(f"route: {route}", 0.0004)] if word else [])


def test_no_helper_is_asked_while_the_session_is_at_work_on_something_else(thread: Thread) -> None:
    helper = OneWord("WORK")
    with thread.job.claim_elsewhere(thread.job.list_sessions()[0], 1), pytest.raises(Busy):
        thread.says(UNSURE, helper)
    assert helper.asked == []
    note = thread.job.scene.mr.list_notes()[-1]
    assert [name for _, name in note.awards.values()] == ["eyes"]


def test_where_rules_are_sure_no_helper_is_asked(thread: Thread) -> None:
    helper = OneWord("THANKS")
    thread.job.script_answers(says("Because."))
    assert isinstance(thread.says("Why do you think so?", helper), Finished)
    assert isinstance(thread.says("Thanks!", helper), Skipped)
    assert helper.asked == []


@pytest.mark.parametrize("text", ["Danke, passt!", "谢谢,明白了", "Merci, c'est noté 🙏"])
def test_thanks_get_an_emoji_and_no_note_without_a_helper(thread: Thread, text: str) -> None:
    asked = len(thread.job.model.requests)
    assert thread.says(text) == Skipped("it is thanks, and asks for nothing")
    note = thread.job.scene.mr.list_notes()[-1]
    assert [name for _, name in note.awards.values()] == ["eyes"]
    assert (len(thread.job.list_notes()), len(thread.job.model.requests)) == (1, asked)
    assert thread.driver.started == 0


def test_thanks_that_a_helper_sees_get_an_emoji_and_are_paid_for(thread: Thread) -> None:
    ended = thread.says("ok, will rebase tomorrow", OneWord("THANKS"))
    assert ended == Skipped("it is thanks, and asks for nothing")
    note = thread.job.scene.mr.list_notes()[-1]
    assert [name for _, name in note.awards.values()] == ["eyes"]
    assert len(thread.job.list_notes()) == 1
    (name,) = thread.job.store.records.list_names("spend/")
    stored = thread.job.store.records.read(name, 10_000)
    assert stored is not None
    assert b"0.0004" in stored.content
