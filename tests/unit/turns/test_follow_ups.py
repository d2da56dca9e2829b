"""What a reply is told of the turns before it: their files, their notes, who has looked."""

import threading
from collections.abc import Callable, Iterable, Iterator

from sandbox.base import Sandbox, SandboxError
from tests.contexts import call
from tests.fakes import EchoToolbox, MemorySandbox, says
from tests.jobs import FINDING, EchoToolset, Job
from worker.conversation.context import Status
from worker.conversation.messages import User
from worker.errors import ModelError, SandboxLost
from worker.jobs.commands import CommandAnswered
from worker.turns.parts import Explain, Finished
from worker.verdict.jobs import FailingJob, Group, RuleMatch, Survey
from worker.verdict.recalled_tests import Recall

LOOKED = says("", call("c1"))
DOWN = ModelError("the model is down")
VIEW = "**Flaky: not caused by this change**, in the model's view"


class Engine:
    """Sandboxes whose files are the numbers of the archives made so far; it refuses `damaged`."""

    def __init__(self) -> None:
        self.restored: list[bytes | None] = []
        self.damaged: set[bytes] = set()
        self.made = 0
        self.started = threading.Event()

    def wait(self) -> None:
        """Until the next sandbox has started, and the thread that starts it has said so."""
        assert self.started.wait(10)
        for thread in threading.enumerate():
            if thread.name.startswith("sandbox-start"):
                thread.join(10)

    def start(self, session: str, archive: Iterable[bytes] | None = None) -> Sandbox:
        content = None if archive is None else b"".join(archive)
        if content in self.damaged:
            raise SandboxError("that is no archive")
        self.restored.append(content)
        if content:
            self.started.set()
        return _Numbered(self)

    def adopt(self, session: str) -> Sandbox | None:
        return None

    def check(self) -> None:
        """There is nothing to check."""


class _Numbered(MemorySandbox):
    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    def export(self, tell_left_out: Callable[[str], object] | None = None) -> Iterator[bytes]:
        self.engine.made += 1
        yield b"files %d" % self.engine.made


class RuledKit(EchoToolset):
    """A failure that a rule explains."""

    def survey_failures(
        self, shown: int = 0, explain: Explain | None = None, recall: Recall | None = None
    ) -> Survey:
        ruled = RuleMatch("disk", "infrastructure", "The disk is full.", "Retry.")
        return Survey(groups=(Group("ab" * 8, "E", (FailingJob(1, "unit"),), rule_match=ruled),))


def asked(at: Job) -> str:
    """The newest request's last human text."""
    messages = at.model.requests[-1].messages
    return [each.text for each in messages if isinstance(each, User)][-1]


def test_where_no_tool_was_used_no_file_is_said_to_be_lost(at: Job) -> None:
    at.script_answers(FINDING, says("Because."))
    at.run_failed()
    at.ask("Why?", at.list_notes()[0].discussion_id)
    assert "no tool has been used in this session" in asked(at)
    assert "lost" not in asked(at)


def test_after_a_turn_that_failed_the_files_of_the_last_good_one_are_restored(at: Job) -> None:
    engine = Engine()
    at.script_answers(LOOKED, FINDING, DOWN, LOOKED, says("Because."))
    at.run_failed(sandboxes=engine)
    thread = at.list_notes()[0].discussion_id
    failed = at.run_comment(at.write_comment("Why?", thread), sandboxes=engine)
    assert isinstance(failed, Finished)
    assert failed.outcome.status is Status.FAILED
    ended = at.run_comment(at.write_comment("And now?", thread), sandboxes=engine)
    assert isinstance(ended, Finished)
    assert engine.restored == [None, b"files 1"]
    assert "/tmp/_out have been restored;" in asked(at)


def test_where_the_newest_files_are_damaged_older_ones_are_restored_and_both_are_told(
    at: Job,
) -> None:
    engine = Engine()
    at.script_answers(LOOKED, FINDING, LOOKED, says("So."), LOOKED, LOOKED, says("Because."))
    at.run_failed(sandboxes=engine)
    thread = at.list_notes()[0].discussion_id
    at.run_comment(at.write_comment("Why?", thread), sandboxes=engine)
    engine.damaged = {b"files 2"}
    engine.started.clear()
    at.on_asking = lambda iteration: engine.wait() if iteration > 1 else None
    ended = at.run_comment(at.write_comment("And now?", thread), sandboxes=engine)
    assert isinstance(ended, Finished)
    assert engine.restored == [None, b"files 1", b"files 1"]
    assert "are as turn 0 has left them" in str(at.model.requests[-1].messages)
    assert "newest of the sandbox's files could not be restored" in ended.body


def ruled(subject: object, workflow: object) -> RuledKit:
    return RuledKit()


def test_a_first_look_is_not_told_that_nothing_was_looked_into_if_a_reply_has(at: Job) -> None:
    at.script_answers(says("I can't say."), LOOKED, says("The disk was full."), FINDING, FINDING)
    at.run_failed(toolset=ruled)
    (root,) = at.list_notes()
    at.run_comment(at.write_comment("Sure?", root.discussion_id), toolset=ruled)
    at.run_comment(at.write_comment("Look at the disk.", root.discussion_id), toolset=ruled)
    at.run_comment(at.write_comment("/sandpiper analyze", root.discussion_id), toolset=ruled)
    assert "nothing has been looked into" not in asked(at).lower()
    assert "looked into until now stands above" in asked(at)
    assert "Run the whole workflow now" in asked(at)


def test_a_first_look_after_replies_that_looked_at_nothing_says_so(at: Job) -> None:
    at.script_answers(says("I can't say."), FINDING)
    at.run_failed(toolset=ruled)
    (root,) = at.list_notes()
    at.run_comment(at.write_comment("Sure?", root.discussion_id), toolset=ruled)
    at.run_comment(at.write_comment("/sandpiper analyze", root.discussion_id), toolset=ruled)
    assert "Nothing has been looked into yet." in asked(at)


def test_analyze_runs_the_whole_workflow_until_a_model_has_explained_the_failure(at: Job) -> None:
    at.script_answers(DOWN, DOWN, FINDING)
    at.run_failed()
    (root,) = at.list_notes()
    for _ in range(2):
        at.ask("/sandpiper analyze", root.discussion_id)
        assert "Run the whole workflow now" in asked(at)
    assert at.list_notes()[0].body.split("\n")[2] == VIEW
    ended = at.ask("/sandpiper analyze", root.discussion_id)
    assert isinstance(ended, CommandAnswered)


UNPROVEN = says(
    "## Verdict\nflaky\n\n## Cause\nA race in the test.\n\n## Evidence\n"
    "- job 1 line 1: it ran twice\n- job 1 line 7: it never said this\n\n## Details\nSeen so far.\n"
)


def test_a_reply_is_shown_the_note_as_it_was_posted(at: Job) -> None:
    at.script_answers(UNPROVEN, UNPROVEN, says("So."), says("Because."))
    at.run_failed()
    (root,) = at.list_notes()
    at.ask("Why?", root.discussion_id)
    told = asked(at)
    assert f"\n> {VIEW}\n" in told
    assert "\n> Seen so far.\n" in told
    assert "it never said this" not in told
    assert "1 quote could not be proven" in told
    assert "<!--" not in told
    at.ask("And?", root.discussion_id)
    assert "Your last answer was posted as you wrote it." in asked(at)


REWRITTEN = """\
The feed goes to @all, see [the page](https://pages.example/x) and https://pages.example/y.
It breaks where a < b & c > d, with ![a chart](chart.png).
The log shows the token glpat-aB3dE5gH7jK9mN1pQ3sT. &#64;all can read it.

    if a < b and token == "glpat-aB3dE5gH7jK9mN1pQ3sT":

```go
if a < b && token == "glpat-aB3dE5gH7jK9mN1pQ3sT" { // @all
```
"""


def test_what_was_only_made_harmless_counts_as_posted_as_it_was_written(at: Job) -> None:
    at.script_answers(FINDING, says(REWRITTEN), says("Because."))
    at.run_failed()
    (root,) = at.list_notes()
    at.ask("Why?", root.discussion_id)
    posted = at.list_notes()[-1].body
    assert "(`https://pages.example/x`)" in posted
    assert "glpat" not in posted
    assert "image removed" in posted
    at.ask("And?", root.discussion_id)
    assert "Your last answer was posted as you wrote it." in asked(at)


def test_a_reply_is_told_of_a_note_that_could_not_be_posted(at: Job) -> None:
    at.script_answers(FINDING, says("Lost words."), says("Because."))
    at.run_failed()
    (root,) = at.list_notes()

    def lock(iteration: int) -> None:
        at.scene.mr.discussion_locked = True

    at.on_asking = lock
    at.ask("Why?", root.discussion_id)
    at.on_asking = lambda iteration: None
    at.scene.mr.discussion_locked = False
    at.ask("And?", root.discussion_id)
    assert "Your last answer was not posted: the note could not be posted" in asked(at)


def test_how_long_ago_the_last_turn_was_is_counted_from_its_end(at: Job) -> None:
    at.script_answers(LOOKED, FINDING, says("Because."))
    at.on_asking = lambda iteration: at.clock.sleep(100)
    at.run_failed()
    at.on_asking = lambda iteration: None
    at.clock.sleep(50)
    at.ask("Why?", at.list_notes()[0].discussion_id)
    assert "The last turn was 50 seconds ago." in asked(at)


def test_a_reply_that_calls_no_tool_starts_no_sandbox(at: Job) -> None:
    engine = Engine()
    at.script_answers(LOOKED, FINDING, says("Because."), LOOKED, says("So."))
    at.run_failed(sandboxes=engine)
    thread = at.list_notes()[0].discussion_id
    at.run_comment(at.write_comment("What do you mean?", thread), sandboxes=engine)
    assert engine.restored == [None]
    at.run_comment(at.write_comment("Look once more.", thread), sandboxes=engine)
    assert engine.restored == [None, b"files 1"]


def test_a_long_run_saves_its_files_and_goes_on_with_them_when_its_sandbox_dies(at: Job) -> None:
    engine = Engine()
    deaths: list[Exception | None] = [None, SandboxLost("killed"), None]
    toolset = EchoToolset(EchoToolbox(fails=lambda call: deaths.pop(0)))
    at.on_asking = lambda iteration: at.clock.sleep(61)
    at.script_answers(LOOKED, LOOKED, FINDING)
    ended = at.run_failed(sandboxes=engine, toolset=lambda subject, workflow: toolset)
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE
    assert engine.restored == [None, b"files 1"]
    assert "with the files that were saved last" in str(at.model.requests[-1].messages)


def test_a_short_run_saves_its_files_once(at: Job) -> None:
    engine = Engine()
    at.script_answers(LOOKED, LOOKED, FINDING)
    at.run_failed(sandboxes=engine)
    assert engine.made == 1
