"""Where job logs are for members only and the merge request is public, so is no note."""

from pathlib import Path

import pytest

from tests.fakes import says
from tests.jobs import FINDING, Job
from tests.simulators.gitlab import Access, GitLabSim, Note
from worker.conversation.context import Subject
from worker.errors import ForgeError
from worker.gitlab.read.access import find_audience
from worker.gitlab.read.api import ReadClient
from worker.jobs.commands import CommandAnswered
from worker.settings.runs import NoteSettings
from worker.turns.parts import Finished
from worker.turns.session import BEGAN_IN_PUBLIC
from worker.verdict.audience import Level, Readers

pytestmark = pytest.mark.attack("binding")


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> Job:
    """A public project whose job logs are for its members."""
    made = Job(sim, tmp_path)
    made.scene.project.public, made.scene.project.public_jobs = True, False
    made.script_answers(FINDING)
    return made


def public(at: Job) -> list[Note]:
    """What anybody can read of the bot's."""
    return [note for note in at.list_notes() if not note.internal]


@pytest.mark.parametrize("thread", [False, True])
def test_what_is_made_from_logs_for_members_is_an_internal_note(at: Job, thread: bool) -> None:
    seen: list[int] = []
    at.on_asking = lambda iteration: seen.append(len(public(at)))
    ran = at.run_failed(note=NoteSettings(thread=thread))
    assert isinstance(ran, Finished)
    assert seen == [0]
    assert public(at) == []
    assert "A race in the test." in at.list_notes()[0].body
    assert at.load_context().note is not None
    assert at.load_context().note.internal  # type: ignore[union-attr]


@pytest.mark.parametrize("setting", ["public_jobs", "builds_access"])
def test_either_setting_of_gitlab_hides_the_logs(at: Job, setting: str) -> None:
    at.scene.project.public_jobs = setting != "public_jobs"
    at.scene.project.builds_access = "private" if setting == "builds_access" else "enabled"
    at.run_failed()
    assert [note.internal for note in at.list_notes()] == [True]


@pytest.mark.parametrize(("public_project", "public_jobs"), [(True, True), (False, False)])
def test_where_the_same_people_read_both_the_note_is_for_all_of_them(
    at: Job, public_project: bool, public_jobs: bool
) -> None:
    at.scene.project.public, at.scene.project.public_jobs = public_project, public_jobs
    at.run_failed()
    assert [note.internal for note in at.list_notes()] == [False]


def test_a_private_forks_logs_are_not_told_in_public(at: Job, sim: GitLabSim) -> None:
    at.scene.project.public_jobs = True
    fork = sim.add_project("mara/service", parent=at.scene.project)
    sim.add_member(fork, at.scene.bot, Access.REPORTER)
    pipeline = sim.run_pipeline(at.scene.mr, project=fork)
    subject = at.reader.find_named_subject(str(at.scene.project.id), 1, pipeline.id)
    assert isinstance(subject, Subject)
    assert at.reader.needs_internal_note(subject)
    fork.public = True
    assert not at.reader.needs_internal_note(subject)
    del sim.projects[fork.id]
    assert at.reader.needs_internal_note(subject)


@pytest.mark.parametrize("is_fork_known", [True, False])
@pytest.mark.parametrize("is_mr_public", [True, False])
def test_the_members_of_two_projects_are_different_people(
    at: Job, sim: GitLabSim, is_mr_public: bool, is_fork_known: bool
) -> None:
    """Whatever is open to one project's members is told to the other's at most, never in public."""
    at.scene.project.public, at.scene.project.public_jobs = is_mr_public, True
    fork = sim.add_project("mara/service", parent=at.scene.project)
    sim.add_member(fork, at.scene.bot, Access.REPORTER)
    pipeline = sim.run_pipeline(at.scene.mr, project=fork)
    subject = at.reader.find_named_subject(str(at.scene.project.id), 1, pipeline.id)
    assert isinstance(subject, Subject)
    if not is_fork_known:
        del sim.projects[fork.id]
    found = find_audience(ReadClient(sim.url, at.scene.read_token), subject)
    assert found.readers == Readers(Level.MEMBERS, at.scene.project.id)
    assert found.internal is is_mr_public
    assert not found.sees_fork
    assert not found.readers.include(Readers(Level.MEMBERS, fork.id))


@pytest.mark.parametrize("words", ["/sandpiper analyze", "@project_501_bot_5f2c why?"])
def test_who_asks_in_public_is_answered_in_an_internal_note(at: Job, words: str) -> None:
    at.script_answers(FINDING, says("It reads the secret log."))
    if "why" in words:
        at.run_failed()
    at.ask(words)
    assert public(at) == []
    newest = at.list_notes()[-1]
    assert newest.internal
    at.script_answers(FINDING, says("It reads the secret log."), says("And more of it."))
    again = at.ask("And then?", newest.discussion_id)
    assert isinstance(again, Finished)
    assert at.list_notes()[-1].discussion_id == newest.discussion_id
    assert public(at) == []


def test_a_conversation_that_began_in_public_is_not_gone_on_with(at: Job) -> None:
    """Its first note may link to the page of the whole session."""
    at.scene.project.public_jobs = True
    at.run_failed()
    at.scene.project.public_jobs = False
    at.script_answers(FINDING, says("It reads the secret log."))
    said = at.ask("Why?", at.list_notes()[0].discussion_id)
    assert said == CommandAnswered(BEGAN_IN_PUBLIC)
    assert len(at.model.requests) == 1


def test_a_rerun_goes_on_in_its_internal_note(at: Job) -> None:
    at.writer.post_note(_subject(at), "<!-- another -->", "", internal=True)
    at.script_answers(FINDING)
    at.run_failed()
    at.run_failed()
    assert len(at.list_notes()) == 2
    assert public(at) == []


def test_an_older_internal_note_is_folded_by_the_newer_one(at: Job, sim: GitLabSim) -> None:
    at.run_failed()
    sim.push(at.scene.mr, {"a": b"b"})
    at.script_answers(FINDING, FINDING)
    at.run_failed(sim.run_pipeline(at.scene.mr))
    old, new = at.list_notes()
    assert "a newer note" in old.body
    assert "a newer note" not in new.body


def test_nothing_is_posted_where_gitlab_makes_the_note_public(at: Job, sim: GitLabSim) -> None:
    sim.add_member(at.scene.project, at.scene.bot, Access.GUEST)
    with pytest.raises(ForgeError, match=r"GitLab does not make it internal.*a Reporter"):
        at.run_failed()
    assert at.list_notes() == []
    assert at.model.requests == []


def _subject(at: Job) -> Subject:
    found = at.reader.find_named_subject(str(at.scene.project.id), 1, None)
    assert isinstance(found, Subject)
    return found
