"""The placeholder tells how far a run is: seldom, never late, and at no cost to the run."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.contexts import call
from tests.fakes import says
from tests.jobs import FINDING, Job
from tests.simulators.gitlab import GitLabSim
from worker.answer.note.progress import Progress, write_progress
from worker.conversation.events import Answered, Asking, Event, Stage, ignore_event
from worker.conversation.messages import ToolCall, Usage
from worker.errors import ForgeError
from worker.turns.parts import Finished, NoteOptions
from worker.turns.placeholder import FAILURES, MOST, ProgressNote

OFTEN = NoteOptions(progress=0.01)
LOOK = ToolCall("c1", "sandbox_exec", '{"command": "grep -n ERROR log"}')


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def asking(number: int) -> Event:
    return Asking(number, 50)


def answered(*calls: ToolCall) -> Event:
    return Answered(Usage(), 0.1, 0.0, 1.0, "", calls)


def test_the_newest_state_is_told_and_nothing_twice() -> None:
    seen: list[Progress] = []
    ticker = ProgressNote(seen.append, 0.01)
    watch = ticker.wrap_watcher(ignore_event)
    watch(asking(1))
    until(lambda: seen == [Progress(1, 50)])
    watch(asking(1))
    watch(answered(LOOK))
    until(lambda: seen[-1] == Progress(1, 50, (LOOK,)))
    ticker.close()
    assert len(seen) == 2


def test_what_happens_between_two_edits_is_left_out() -> None:
    seen: list[Progress] = []
    ticker = ProgressNote(seen.append, 0.2)
    watch = ticker.wrap_watcher(ignore_event)
    for number in range(1, 40):
        watch(asking(number))
    until(lambda: seen)
    ticker.close()
    assert seen == [Progress(39, 50)]


def test_a_slow_edit_does_not_hold_the_run_up_but_its_end_waits_for_it() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(seen: Progress) -> None:
        begun.set()
        assert go.wait(10)
        ended.set()

    ticker = ProgressNote(slow, 0.0)
    watch = ticker.wrap_watcher(ignore_event)
    watch(asking(1))
    assert begun.wait(10)
    started = time.monotonic()
    for number in range(2, 1000):
        watch(asking(number))
    assert time.monotonic() - started < 5
    threading.Timer(0.05, go.set).start()
    ticker.close()
    assert ended.is_set()


def test_nothing_is_told_after_the_end() -> None:
    seen: list[Progress] = []
    ticker = ProgressNote(seen.append, 0.0)
    ticker.close()
    ticker.wrap_watcher(ignore_event)(asking(1))
    assert seen == []


def test_edits_are_bounded() -> None:
    seen: list[Progress] = []
    ticker = ProgressNote(seen.append, 0.0)
    watch = ticker.wrap_watcher(ignore_event)
    for number in range(1, MOST + 1):
        watch(asking(number))
        until(lambda number=number: len(seen) == number)  # type: ignore[misc]
    watch(asking(99))
    ticker.close()
    assert len(seen) == MOST


@pytest.mark.parametrize(("transient", "tries"), [(True, FAILURES), (False, 1)])
def test_a_note_that_cannot_be_edited_is_left_alone(transient: bool, tries: int) -> None:
    tried: list[Progress] = []

    def fails(seen: Progress) -> None:
        tried.append(seen)
        raise ForgeError("no", transient=transient)

    ticker = ProgressNote(fails, 0.0)
    watch = ticker.wrap_watcher(ignore_event)
    for number in range(1, tries + 1):
        watch(asking(number))
        until(lambda number=number: len(tried) == number)  # type: ignore[misc]
    watch(asking(99))
    ticker.close()
    assert len(tried) == tries


def test_what_ends_the_run_reaches_the_run() -> None:
    def stops(event: Event) -> None:
        raise ForgeError("stop")

    ticker = ProgressNote(lambda seen: None, 0.0)
    with pytest.raises(ForgeError):
        ticker.wrap_watcher(stops)(Stage("x"))
    ticker.close()


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ((), "Iteration 2 of at most 50 · the model is thinking · 7 s"),
        (
            (LOOK,),
            "Iteration 2 of at most 50 · looking at `sandbox_exec`: `grep -n ERROR log` · 7 s",
        ),
        (
            (ToolCall("1", "gitlab_get_job_log", '{"job_id": 7}'), LOOK, LOOK),
            "Iteration 2 of at most 50 · looking at `gitlab_get_job_log`: `7` and 2 more · 7 s",
        ),
        ((ToolCall("1", "x", "not json"),), "Iteration 2 of at most 50 · looking at `x` · 7 s"),
        ((ToolCall("1", "x", "[1]"),), "Iteration 2 of at most 50 · looking at `x` · 7 s"),
    ],
)
def test_the_line_says_what_is_looked_at(calls: tuple[ToolCall, ...], line: str) -> None:
    assert write_progress(Progress(2, 50, calls), 7.9, lambda text: text) == line


def test_the_line_is_redacted_and_short() -> None:
    token = "glpat-" + "aB3" * 8
    long = ToolCall("1", "sandbox_exec", f'{{"command": "curl {token} hush {"x" * 200}"}}')
    line = write_progress(
        Progress(1, 1, (long,)), 62, lambda text: text.replace("hush", "[hidden]")
    )
    assert token not in line
    assert "hush" not in line
    assert len(line) < 180
    assert line.endswith("1 min 2 s")


def test_a_running_note_tells_how_far_it_is_and_then_the_finding(at: Job) -> None:
    at.script_answers(says("", call("c1")), FINDING)
    bodies: list[str] = []

    def wait(iteration: int) -> None:
        if iteration == 2:
            until(lambda: "<sub>Iteration 1 of at most 50" in at.list_notes()[0].body)
            bodies.append(at.list_notes()[0].body)

    at.on_asking = wait
    ended = at.run_failed(note=OFTEN)
    assert isinstance(ended, Finished)
    assert "is finding out why pipeline" in bodies[0]
    assert "looking at `look`" in bodies[0]
    (note,) = at.list_notes()
    assert note.body == ended.body
    assert "Iteration" not in note.body.split("<sub>")[0]


def test_a_gitlab_that_takes_no_progress_gets_the_finding_all_the_same(
    at: Job, sim: GitLabSim
) -> None:
    at.script_answers(says("", call("c1")), FINDING)

    def spoil(iteration: int) -> None:
        if iteration == 1:
            sim.fail_next("PUT", "/notes/", 500, times=1)
        if iteration == 2:
            until(lambda: any(seen.method == "PUT" for seen in sim.requests))

    at.on_asking = spoil
    assert isinstance(at.run_failed(note=OFTEN), Finished)
    assert at.list_notes()[0].body.split("\n")[2].startswith("**Flaky")
