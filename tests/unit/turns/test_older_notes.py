"""One living note for each merge request: superseded, fixed, passed again; never lost."""

import json

import pytest

from tests.contexts import call
from tests.fakes import says
from tests.jobs import FINDING, Job, run_trigger
from tests.simulators.gitlab import Access, GitLabSim, Note, Pipeline
from worker.conversation.context import SessionKey, Status
from worker.conversation.triggers import PipelineFailed, PipelinePassed
from worker.errors import Busy, ForgeError, ModelError
from worker.safety.markdown import find_marker
from worker.sessions.folder import FolderStore
from worker.settings.runs import NoteSettings
from worker.turns.parts import Finished, NotesMarked, Skipped
from worker.turns.session import CHECK_SECONDS

pytestmark = pytest.mark.slow

THREAD = NoteSettings(thread=True)


def pushed(at: Job, status: str = "failed") -> Pipeline:
    """A new commit and its pipeline."""
    at.sim.push(at.scene.mr, {"a": status.encode() + str(len(at.sim.pipelines)).encode()})
    return at.sim.run_pipeline(at.scene.mr, status=status)


def headline(note: Note) -> str:
    return note.body.split("\n")[2]


def became(at: Job, pipeline: Pipeline) -> dict[str, object]:
    kept = at.store.read_aftermath(at.find_key(pipeline), 0)
    assert kept is not None
    found = json.loads(kept)
    assert isinstance(found, dict)
    return found


def test_a_newer_finding_folds_the_older_note_under_a_link(at: Job) -> None:
    at.script_answers(FINDING, FINDING)
    at.run_failed()
    before = at.list_notes()[0].body
    newer = pushed(at)
    at.run_failed(newer)
    old, new = at.list_notes()
    assert (
        headline(old) == f"**Superseded by [a newer note]({new.web_url})** (pipeline {newer.id})."
    )
    assert find_marker(old.body) == find_marker(before)
    assert before.partition("\n")[2].strip() in old.body
    assert became(at, at.scene.pipeline)["became"] == "superseded"
    assert became(at, at.scene.pipeline)["pipeline_id"] == newer.id
    assert headline(new) == "**Flaky: not caused by this change**, in the model's view"


class Killed(BaseException):
    """The process ends here."""


class Deadly(FolderStore):
    """A store whose worker dies as soon as a turn is committed."""

    def commit_turn(self, key: SessionKey, turn: int, context: bytes) -> None:
        super().commit_turn(key, turn, context)
        raise Killed


@pytest.mark.parametrize("asked", [False, True])
def test_who_takes_over_from_a_worker_that_died_after_the_commit_folds_the_older_note(
    at: Job, asked: bool
) -> None:
    at.script_answers(FINDING, FINDING)
    at.run_failed()
    newer = pushed(at)
    note = at.write_comment("/sandpiper analyze") if asked else None

    def run(**changes: object) -> object:
        return at.run_comment(note, **changes) if note else at.run_failed(newer, **changes)

    with pytest.raises(Killed):
        run(sessions=Deadly(at.place))
    assert "Superseded" not in headline(at.list_notes()[0])
    for _ in range(2):
        assert isinstance(run(), Skipped)
        old, new = (each.body for each in at.list_notes())
        assert old.count("Superseded by") == 1
        assert "Superseded" not in new
    assert became(at, at.scene.pipeline)["became"] == "superseded"
    assert len(at.model.requests) == 2


def test_what_is_asked_for_again_after_it_was_forgotten_folds_nothing(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    at.ask("/sandpiper forget")
    (before, *_) = (each.body for each in at.list_notes())
    assert isinstance(at.run_failed(), Skipped)
    assert at.list_notes()[0].body == before


def test_a_note_is_folded_once_however_many_follow(at: Job) -> None:
    at.script_answers(FINDING, FINDING, FINDING)
    at.run_failed()
    second = pushed(at)
    at.run_failed(second)
    folded = at.list_notes()[0].body
    at.run_failed(pushed(at))
    first, middle, _ = at.list_notes()
    assert first.body == folded
    assert headline(middle).startswith("**Superseded by ")


def test_a_run_that_explains_nothing_replaces_nothing(at: Job) -> None:
    at.script_answers(FINDING, ModelError("the model is down"))
    at.run_failed()
    before = at.list_notes()[0].body
    at.run_failed(pushed(at))
    assert at.list_notes()[0].body == before


def test_somebody_elses_note_with_a_marker_is_left_alone(at: Job) -> None:
    at.script_answers(FINDING, FINDING)
    at.run_failed()
    forged = at.write_comment(at.list_notes()[0].body)
    before = forged.body
    at.run_failed(pushed(at))
    assert forged.body == before
    assert headline(at.list_notes()[0]).startswith("**Superseded by ")


def test_a_reply_under_a_folded_note_still_resumes_its_session(at: Job) -> None:
    at.script_answers(FINDING, FINDING, says("Because."))
    first = at.run_failed()
    at.run_failed(pushed(at))
    ended = at.ask("Why?", at.list_notes()[0].discussion_id)
    assert isinstance(ended, Finished)
    assert isinstance(first, Finished)
    assert ended.key == first.key


def test_older_notes_that_cannot_be_folded_cost_nothing(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING, FINDING)
    at.run_failed()
    newer = pushed(at)
    old = at.list_notes()[0].id
    sim.fail_next("PUT", f"/notes/{old}$", 403, times=9)
    assert isinstance(at.run_failed(newer), Finished)


def test_a_fix_is_told_on_the_note(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    before = at.list_notes()[0].body
    green = pushed(at, "success")
    key = at.find_key(at.scene.pipeline)
    assert at.run_passed(green) == NotesMarked(green.id, (key.session_id,))
    writes = [seen for seen in at.sim.requests if seen.method != "GET"]
    assert at.run_passed(green) == NotesMarked(green.id, ())
    assert [seen for seen in at.sim.requests if seen.method != "GET"] == writes
    (note,) = at.list_notes()
    url = f"{at.scene.project.web_url}/-/pipelines/{green.id}"
    assert headline(note) == f"**Fixed by [pipeline {green.id}]({url}).**"
    assert before.partition("\n")[2].strip() in note.body
    assert became(at, at.scene.pipeline) == {
        "schema": 1,
        "became": "fixed",
        "pipeline_id": green.id,
        "sha": green.sha,
        "at": at.clock.time,
        "changed": ["a"],
    }


def test_the_same_commit_passing_later_is_no_fix(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    at.run_passed(sim.run_pipeline(at.scene.mr, status="success"))
    assert headline(at.list_notes()[0]).startswith("**Passed when run again: [pipeline ")
    assert became(at, at.scene.pipeline)["became"] == "passed_again"


def test_a_retried_job_that_turns_its_own_pipeline_green_is_no_fix(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    at.scene.pipeline.status = "success"
    at.run_passed(at.scene.pipeline)
    assert headline(at.list_notes()[0]).startswith("**Passed when run again: ")


def test_gitlab_is_not_asked_about_a_pipeline_that_never_failed(at: Job, sim: GitLabSim) -> None:
    green = pushed(at, "success")
    ended = at.run_passed(green)
    assert isinstance(ended, Skipped)
    assert "no failure was looked at before" in ended.reason
    assert sim.requests == []


def test_a_forks_branch_pipeline_that_passes_is_told_on_the_note(at: Job, sim: GitLabSim) -> None:
    target, author = at.scene.mr.project, at.scene.developer
    fork = sim.add_project("dev/fork", parent=target, public=True)
    sim.add_member(fork, author, Access.MAINTAINER)
    mr = sim.open_merge_request(target, author, title="T", branch="feature-x", source=fork)
    broken = sim.run_pipeline(mr, kind="branch")
    # The webhook of a branch pipeline names no merge request.
    failed = PipelineFailed(fork.id, broken.id, broken.sha, mr.source_branch)
    at.script_answers(FINDING)
    assert isinstance(run_trigger(failed, at.build_deps()), Finished)
    sim.push(mr, {"a": b"b"})
    mended = sim.run_pipeline(mr, kind="branch", status="success")
    passed = PipelinePassed(fork.id, mended.id, mended.sha, mr.source_branch)
    done = run_trigger(passed, at.build_deps())
    assert isinstance(done, NotesMarked)
    assert len(done.sessions) == 1


def test_a_pipeline_that_is_not_the_newest_or_has_not_passed_settles_nothing(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    green = pushed(at, "success")
    pushed(at)
    ended = at.run_passed(green)
    assert isinstance(ended, Skipped)
    assert "is not the newest" in ended.reason
    red = pushed(at)
    ended = at.run_passed(red)
    assert isinstance(ended, Skipped)
    assert "is failed by now" in ended.reason
    assert headline(at.list_notes()[0]).startswith("**Flaky")


def test_a_pass_waits_for_the_analysis_that_is_still_running(at: Job) -> None:
    at.script_answers(FINDING)
    waited = []

    def retried(iteration: int) -> None:
        at.scene.pipeline.status = "success"
        with pytest.raises(Busy):
            at.run_passed(at.scene.pipeline)
        waited.append(iteration)

    at.on_asking = retried
    at.run_failed()
    assert waited == [1]
    at.run_passed(at.scene.pipeline)
    assert headline(at.list_notes()[0]).startswith("**Passed when run again: ")


def test_a_run_that_is_overtaken_says_so_with_a_link(at: Job) -> None:
    at.script_answers(says("", call("c1")), FINDING)
    newer = []

    def overtaken(iteration: int) -> None:
        if iteration == 1:
            newer.append(pushed(at))
            at.clock.time += CHECK_SECONDS

    at.on_asking = overtaken
    at.run_failed()
    (note,) = at.list_notes()
    number = newer[0].id
    url = f"{at.scene.project.web_url}/-/pipelines/{number}"
    assert f"uperseded by [pipeline {number}]({url})." in note.body
    at.script_answers(FINDING)
    at.on_asking = lambda iteration: None
    at.run_failed(newer[0])
    assert headline(note).startswith("**Superseded by [a newer note](")


def test_a_note_deleted_meanwhile_is_posted_anew_once(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING)
    at.on_asking = lambda iteration: sim.delete(at.list_notes()[0])
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    (note,) = at.list_notes()
    assert note.id == ended.note.note_id
    assert headline(note).startswith("**Flaky")


def test_where_nothing_can_be_posted_any_more_the_reason_is_kept(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING)

    def lock(iteration: int) -> None:
        at.scene.mr.discussion_locked = True

    at.on_asking = lock
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    assert ended.outcome.status is Status.FAILED
    assert "the note could not be posted" in ended.outcome.reason
    assert "A race in the test" in ended.outcome.text
    again = at.run_failed()
    assert isinstance(again, Skipped)


def test_a_server_that_is_down_for_the_last_edit_is_tried_again_later(
    at: Job, sim: GitLabSim
) -> None:
    at.script_answers(FINDING)
    sim.fail_next("PUT", "/notes/", 502, times=9)
    with pytest.raises(ForgeError) as caught:
        at.run_failed()
    assert caught.value.transient


def test_a_thread_is_begun_by_option_and_resolved_when_fixed(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed(note=THREAD)
    (note,) = at.list_notes()
    thread = at.scene.mr.discussions[note.discussion_id]
    assert (note.type, thread.resolved) == ("DiscussionNote", False)
    at.run_passed(pushed(at, "success"), note=THREAD)
    assert thread.resolved


def test_a_thread_that_people_made_of_a_plain_note_stays_theirs(at: Job) -> None:
    at.script_answers(FINDING)
    at.run_failed()
    (note,) = at.list_notes()
    at.write_comment("Really?", note.discussion_id)
    at.run_passed(pushed(at, "success"))
    assert headline(note).startswith("**Fixed by ")
    assert not at.scene.mr.discussions[note.discussion_id].resolved


def test_an_interrupted_run_finds_its_thread_again(at: Job, sim: GitLabSim) -> None:
    at.script_answers(FINDING)
    sim.fail_next("POST", "/discussions$", 502, after=True)
    at.run_failed(note=THREAD)
    assert len(at.list_notes()) == 1


def test_a_thread_that_could_not_be_resolved_is_resolved_the_next_time(
    at: Job, sim: GitLabSim
) -> None:
    at.script_answers(FINDING)
    at.run_failed(note=THREAD)
    (note,) = at.list_notes()
    green = pushed(at, "success")
    sim.fail_next("PUT", "/discussions/", 403)
    with pytest.raises(ForgeError):
        at.run_passed(green, note=THREAD)
    at.run_passed(green, note=THREAD)
    assert at.scene.mr.discussions[note.discussion_id].resolved
    assert headline(note).startswith("**Fixed by ")
