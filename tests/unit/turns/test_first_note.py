"""The newest verdict stands where the first one stood, and what was said first below it."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes import says
from tests.jobs import FINDING, Job
from tests.simulators.gitlab import GitLabSim, Note
from worker.answer.note.older_note import put_above, replace_first, take_text
from worker.conversation.context import SessionKey, Status
from worker.errors import ForgeError, ModelError
from worker.gitlab.client import RETRIES
from worker.safety.lint import MAX_SIZE, find_faults
from worker.safety.markdown import Marker, find_marker
from worker.sessions.folder import FolderStore
from worker.turns.parts import Finished

SUMMARY = "What was said first, before a later answer changed it"


class Killed(BaseException):
    """The process ends here."""


def found(verdict: str, cause: str, quote: str = "it ran twice", lead: str = "") -> str:
    text = f"## Verdict\n{verdict}\n\n## Cause\n{cause}\n\n## Evidence\n- job 1 line 1: {quote}\n"
    return f"{lead}\n\n{text}" if lead else text


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> Job:
    made = Job(sim, tmp_path)
    made.script_answers(FINDING)
    made.run_failed()
    return made


def headline(note: Note) -> str:
    return note.body.split("\n")[2]


def ask(at: Job, *answers: str, **changes: Any) -> object:
    """Somebody asks back, under the first note."""
    at.script_answers(*map(says, answers))
    return at.run_comment(at.write_comment("Really?", at.list_notes()[0].discussion_id), **changes)


def test_a_reply_that_changes_the_verdict_takes_the_first_notes_place(at: Job) -> None:
    first = at.list_notes()[0].body
    ask(at, found("infrastructure", "The runner is slow.", lead="No, it was the runner."))
    head, reply = at.list_notes()
    assert headline(head) == "**Infrastructure: not caused by this change**, in the model's view"
    assert find_marker(head.body) == find_marker(first)
    assert "**Cause:** The runner is slow." in head.body
    assert "No, it was the runner." not in head.body
    visible, _, folded = head.body.partition(SUMMARY)
    assert first.partition("\n")[2].strip() in folded
    assert f"[A later answer]({reply.web_url}) has changed the verdict." in folded
    assert "A race in the test" not in visible
    assert reply.body.split("\n")[2:5] == [
        "No, it was the runner.",
        "",
        "**Infrastructure: not caused by this change**, in the model's view",
    ]
    assert at.load_context().verdict == "infrastructure"


def test_a_verdict_that_changes_again_leaves_the_first_text_below_it_once(at: Job) -> None:
    ask(at, found("infrastructure", "The runner is slow."))
    ask(at, found("caused by this change", "Line 7 sleeps."))
    head, *replies = at.list_notes()
    assert headline(head) == "**Caused by this change**"
    assert head.body.count(SUMMARY) == 1
    assert head.body.count("A race in the test.") == 1
    assert "The runner is slow." not in head.body
    assert "The runner is slow." in replies[0].body


@pytest.mark.parametrize(
    "answer",
    [
        "Because of the race.",
        "Verdict: infrastructure, I should think.",
        found("flaky", "It is a race in other words."),
        found("infrastructure", "The runner is slow.", quote="nobody ever wrote this"),
        "## Verdict\ninfrastructure\n\n## Cause\nThe runner is slow.\n",
    ],
)
def test_an_answer_without_another_proven_verdict_leaves_the_first_note(
    at: Job, answer: str
) -> None:
    before = at.list_notes()[0].body
    ask(at, answer)
    assert at.list_notes()[0].body == before
    assert len(at.list_notes()) == 2


def test_a_first_note_that_explained_nothing_gives_way_to_the_first_explanation(
    sim: GitLabSim, tmp_path: Path
) -> None:
    at = Job(sim, tmp_path)
    at.script_answers(ModelError("the model is down"))
    at.run_failed()
    assert headline(at.list_notes()[0]).startswith("**No analysis this time.**")
    ask(at, FINDING.text)
    head = at.list_notes()[0]
    assert headline(head) == "**Flaky: not caused by this change**, in the model's view"
    assert "No analysis this time." in head.body.partition(SUMMARY)[2]


class Dying(FolderStore):
    """A store that dies with its process before a turn is committed."""

    dies = False

    def commit_turn(self, key: SessionKey, turn: int, context: bytes) -> None:
        if self.dies:
            raise Killed
        super().commit_turn(key, turn, context)


def test_a_turn_that_is_taken_again_after_a_death_writes_the_same(at: Job, tmp_path: Path) -> None:
    store = Dying(tmp_path)
    store.dies = True
    at.script_answers(says(found("infrastructure", "The runner is slow.")))
    asked = at.write_comment("Really?", at.list_notes()[0].discussion_id)
    with pytest.raises(Killed):
        at.run_comment(asked, sessions=store)
    before = [note.body for note in at.list_notes()]
    assert headline(at.list_notes()[0]).startswith("**Infrastructure")
    requests = len(at.model.requests)
    ended = at.run_comment(asked)
    assert isinstance(ended, Finished)
    assert [note.body for note in at.list_notes()] == before
    assert len(at.model.requests) == requests
    assert at.load_context().turn == 1


def test_a_first_note_that_cannot_be_changed_for_a_while_is_changed_later(
    at: Job, sim: GitLabSim
) -> None:
    head = at.list_notes()[0]
    sim.fail_next("PUT", f"/notes/{head.id}$", 502, times=RETRIES + 1)
    at.script_answers(says(found("infrastructure", "The runner is slow.")))
    asked = at.write_comment("Really?", head.discussion_id)
    with pytest.raises(ForgeError) as caught:
        at.run_comment(asked)
    assert caught.value.transient
    assert isinstance(at.run_comment(asked), Finished)
    assert headline(at.list_notes()[0]).startswith("**Infrastructure")
    assert len(at.list_notes()) == 2


def test_a_first_note_that_may_not_be_changed_costs_no_answer(at: Job, sim: GitLabSim) -> None:
    head = at.list_notes()[0]
    sim.fail_next("PUT", f"/notes/{head.id}$", 403, times=9)
    ended = ask(at, found("infrastructure", "The runner is slow."))
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.DONE
    assert headline(head).startswith("**Flaky")


def test_a_first_note_that_says_what_became_of_its_pipeline_stays(at: Job) -> None:
    at.sim.push(at.scene.mr, {"a": b"fixed"})
    at.run_passed(at.sim.run_pipeline(at.scene.mr, status="success"))
    before = at.list_notes()[0].body
    assert headline(at.list_notes()[0]).startswith("**Fixed by ")
    ask(at, found("infrastructure", "The runner is slow."))
    assert at.list_notes()[0].body == before


def test_a_changed_first_note_is_folded_when_the_pipeline_passes(at: Job) -> None:
    ask(at, found("infrastructure", "The runner is slow."))
    at.sim.push(at.scene.mr, {"a": b"fixed"})
    at.run_passed(at.sim.run_pipeline(at.scene.mr, status="success"))
    head = at.list_notes()[0]
    assert headline(head).startswith("**Fixed by ")
    assert "The runner is slow." in head.body
    assert "A race in the test." in head.body


def test_a_changed_first_note_is_never_too_long_to_be_folded_once_more() -> None:
    marker = Marker("0" * 20, 0)
    details = "<details>\n<summary>Details</summary>\n\n" + "word " * 11_000 + "\n\n</details>"
    note = f"{marker.text()}\n\n**Flaky**\n\n{details}\n\n<sub>small</sub>"
    made = replace_first(note, marker, note.replace("Flaky", "Caused by this change"), "")
    assert len(made) < MAX_SIZE - 500
    assert "**Caused by this change**" in made
    assert "(Its details are left out here.)" in made
    assert find_faults(made, frozenset()) == []


def test_an_answer_above_a_finding_keeps_the_findings_marker() -> None:
    marker = Marker("0" * 20, 3)
    finding = f"{marker.text()}\n\n**Flaky**"
    answer = take_text(f"{marker.text()}\n\nYes.")
    assert put_above(finding, answer) == f"{marker.text()}\n\nYes.\n\n**Flaky**"
    assert put_above(finding, take_text(marker.text())) == finding
