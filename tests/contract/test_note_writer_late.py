"""GitLab carries out a write after its client gave up waiting (gitlab.ports.NoteWriter)."""

import time
from collections.abc import Callable

import pytest

from tests.contract.notes import written
from tests.simulators.gitlab import GitLabSim, Scene
from worker.conversation.context import Subject
from worker.errors import ForgeError
from worker.gitlab.write.api import SETTLE
from worker.gitlab.write.writer import GitLabWriter
from worker.safety.markdown import Marker

MARKER = Marker("0123456789abcdef0123", 0)
PLACEHOLDER, PROGRESS, FINDING = (
    f"{MARKER.text()}\n\n{said}"
    for said in ("It is analysed.", "Iteration 7.", "The build failed.")
)
PATIENCE = (1.0, 0.3)
LATE = 0.8
"""Seconds that GitLab takes: longer than the writer waits."""


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_so()


def count(sim: GitLabSim, method: str) -> int:
    return sum(seen.method == method for seen in sim.requests)


def test_a_progress_edit_that_comes_late_does_not_replace_the_finding(
    sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    waits: list[float] = []

    def settle(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:  # both edits are carried out, the finding first
            wait_until(lambda: written(scene) == [PROGRESS])

    writer = GitLabWriter(sim.url, scene.write_token, (1.0, 2.0), settle)
    ref = writer.post_note(subject, PLACEHOLDER, "")
    sim.fail_next("PUT", "/notes/", 0, delay=4.8)
    with pytest.raises(ForgeError):
        writer.edit_note(subject, ref, PROGRESS, hurried=True)
    writer.edit_note(subject, ref, FINDING)
    assert waits == list(SETTLE)
    assert written(scene) == [FINDING]
    writer.edit_note(subject, ref, FINDING)
    assert waits == list(SETTLE)


def test_an_edit_that_was_refused_is_not_waited_for(
    sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    waits: list[float] = []
    writer = GitLabWriter(sim.url, scene.write_token, (1.0, 2.0), waits.append)
    ref = writer.post_note(subject, PLACEHOLDER, "")
    sim.fail_next("PUT", "/notes/", 429, headers={"Retry-After": "0"})
    with pytest.raises(ForgeError):
        writer.edit_note(subject, ref, PROGRESS, hurried=True)
    asked = count(sim, "GET")
    writer.edit_note(subject, ref, FINDING)
    assert (waits, count(sim, "GET")) == ([], asked)


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_post_is_looked_for_several_times_before_it_is_repeated(
    sim: GitLabSim, scene: Scene, subject: Subject, in_thread: bool
) -> None:
    waits: list[float] = []

    def settle(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            wait_until(lambda: written(scene) == [PLACEHOLDER])

    asked = sim.comment(scene.mr, scene.developer, "Why?")
    assert asked is not None
    writer = GitLabWriter(sim.url, scene.write_token, PATIENCE, settle)
    writer.get_user_id()
    sim.fail_next("POST", "/notes$", 0, delay=LATE)
    writer.post_note(subject, PLACEHOLDER, asked.discussion_id if in_thread else "")
    assert waits == list(SETTLE)
    assert (written(scene), count(sim, "POST")) == ([PLACEHOLDER], 1)


@pytest.mark.parametrize("in_thread", [False, True])
def test_of_two_notes_that_became_of_one_post_the_older_one_stays(
    sim: GitLabSim, scene: Scene, subject: Subject, in_thread: bool
) -> None:
    asked = sim.comment(scene.mr, scene.developer, "Why?")
    assert asked is not None
    writer = GitLabWriter(sim.url, scene.write_token, (1.0, 1.0), lambda seconds: None)
    writer.get_user_id()
    sim.fail_next("POST", "/notes$", 0, delay=1.6)  # is made after the last look,
    sim.fail_next("POST", "/notes$", 0, delay=0.9)  # and before the second one
    ref = writer.post_note(subject, PLACEHOLDER, asked.discussion_id if in_thread else "")
    assert written(scene) == [PLACEHOLDER]
    writer.edit_note(subject, ref, FINDING)
    assert written(scene) == [FINDING]
