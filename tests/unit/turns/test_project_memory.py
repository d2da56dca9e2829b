"""A project's memory: only what is confirmed, by members alone, and of their merge requests."""

from pathlib import Path

import pytest

from tests.fakes import says
from tests.jobs import run_trigger
from tests.simulators.gitlab import Access, GitLabSim, MergeRequest, Note, Pipeline, User
from tests.surveyed import RACE, At, concludes
from tests.unit.turns.test_older_notes import Deadly, Killed
from tests.worlds import again
from worker.conversation.triggers import Reacted
from worker.jobs import retention
from worker.jobs.reaction import VotesCounted
from worker.turns.parts import Finished, NoKnownFailures, NotesMarked, Skipped
from worker.verdict.project_memory import Fact, load_facts

pytestmark = [pytest.mark.attack("memory"), pytest.mark.slow]

SHOWN = "Earlier findings about this project"


@pytest.fixture
def at(sim: GitLabSim, tmp_path: Path) -> At:
    made = At(sim, tmp_path)
    made.script_answers(*([concludes("flaky")] * 9))
    return made


def facts(at: At) -> tuple[Fact, ...]:
    return load_facts(at.store.known_failures.read_memory(at.scene.project.id))


def looked_at(at: At, title: str) -> tuple[MergeRequest, Pipeline]:
    mr, pipeline = at.another(title)
    assert isinstance(at.run_failed(pipeline), Finished)
    return mr, pipeline


def passes(at: At, pipeline: Pipeline) -> None:
    pipeline.status = "success"
    assert isinstance(at.run_passed(pipeline), NotesMarked)


def vote(at: At, mr: MergeRequest, who: User, emoji: str = "thumbsup") -> int:
    """Somebody reacts to the first of our notes; the award's id."""
    note = own(at, mr)
    number = at.sim.add_reaction(note, who, emoji)
    counted(at, note, number)
    return number


def own(at: At, mr: MergeRequest) -> Note:
    return next(note for note in mr.list_notes() if note.author is at.scene.bot)


def counted(at: At, note: Note, award: int) -> None:
    mr = note.merge_request
    trigger = Reacted(mr.project.id, mr.iid, note.id, award)
    assert isinstance(run_trigger(trigger, at.build_deps()), VotesCounted)


def test_a_flake_that_passes_again_is_told_to_the_next_merge_request(at: At) -> None:
    mr, pipeline = looked_at(at, "a")
    assert facts(at) == ()
    assert SHOWN not in at.first()
    passes(at, pipeline)
    (fact,) = facts(at)
    assert fact.text == "clock: flaky: The clock waits for a tick."
    looked_at(at, "b")
    told = at.first()
    assert SHOWN in told
    assert f'- {fact.day}, merge request !{mr.iid}: "{fact.text}"' in told
    passes(at, pipeline)
    assert facts(at) == (fact,)


def test_without_a_memory_the_first_message_is_as_before(at: At) -> None:
    looked_at(at, "a")
    before = at.first()
    mr, pipeline = looked_at(at, "b")
    passes(at, pipeline)
    at.run_comment(at.sim.comment(mr, at.scene.developer, "/sandpiper forget"))
    assert facts(at) == ()
    at.store.known_failures.change_memory(at.scene.project.id, lambda data: b"damaged\n")
    looked_at(at, "c")
    assert at.first().startswith(before[:20])
    assert SHOWN not in at.first()
    assert "damaged" not in at.first()


def test_a_members_vote_confirms_and_taking_it_back_does_not(at: At) -> None:
    mr, _ = looked_at(at, "a")
    number = vote(at, mr, at.scene.developer)
    assert [each.count for each in facts(at)] == [1]
    at.sim.remove_reaction(own(at, mr), at.scene.developer, number)
    counted(at, own(at, mr), number)
    assert facts(at) == ()


def test_what_strangers_vote_neither_adds_nor_removes_anything(at: At) -> None:
    mr, pipeline = looked_at(at, "a")
    vote(at, mr, at.sim.add_user("mallory"))
    assert facts(at) == ()
    passes(at, pipeline)
    before = facts(at)
    assert len(before) == 1
    vote(at, mr, at.sim.add_user("mallet"), "thumbsdown")
    assert facts(at) == before


def test_a_bots_vote_is_none(at: At) -> None:
    mr, _ = looked_at(at, "a")
    bot = at.sim.add_user("renovate", bot=True)
    at.sim.add_member(at.scene.project, bot, Access.MAINTAINER)
    vote(at, mr, bot)
    assert facts(at) == ()


def test_a_member_who_says_that_it_is_wrong_takes_it_out(at: At) -> None:
    mr, pipeline = looked_at(at, "a")
    passes(at, pipeline)
    assert len(facts(at)) == 1
    vote(at, mr, at.scene.developer, "thumbsdown")
    assert facts(at) == ()
    other, again = looked_at(at, "b")
    vote(at, other, at.scene.developer, "thumbsdown")
    passes(at, again)
    assert facts(at) == ()


def test_a_strangers_fork_teaches_nothing_whoever_confirms_it(at: At) -> None:
    mallory = at.sim.add_user("mallory")
    fork = at.sim.add_project("mallory/service", parent=at.scene.project, public=True)
    at.sim.add_member(fork, mallory, Access.OWNER)
    mr = at.sim.open_merge_request(
        at.scene.project, mallory, title="a", branch="a", source=fork, diffs=()
    )
    pipeline = at.flake(mr)
    asked = at.sim.comment(mr, at.scene.developer, "/sandpiper analyze")
    assert isinstance(at.run_comment(asked), Finished)
    vote(at, mr, at.scene.developer)
    passes(at, pipeline)
    assert facts(at) == ()
    assert list(at.place.glob("known/*/knowledge.md")) == []


@pytest.mark.parametrize("verdict", ["caused by this change", "unknown", "not enough evidence"])
def test_other_verdicts_are_no_facts(at: At, verdict: str) -> None:
    at.script_answers(concludes(verdict))
    mr, pipeline = looked_at(at, "a")
    vote(at, mr, at.scene.developer)
    passes(at, pipeline)
    assert facts(at) == ()


def test_a_verdict_without_a_quote_that_holds_is_no_fact(at: At) -> None:
    text = "## Verdict\nflaky\n\n## Cause\nMagic.\n\n## Evidence\n- app/sum.py line 1: made up it\n"
    at.script_answers(*([says(text)] * 9))
    mr, pipeline = looked_at(at, "a")
    vote(at, mr, at.scene.developer)
    passes(at, pipeline)
    assert facts(at) == ()


def test_a_verdict_that_the_record_speaks_against_is_no_fact(at: At) -> None:
    mr, first = at.another("a")
    at.sim.add_job(again(at.sim, first, mr), "clock", status="failed", trace=RACE)
    assert isinstance(at.run_failed(first), Finished)
    assert 'speaks against "flaky"' in at.first()
    vote(at, mr, at.scene.developer)
    passes(at, first)
    assert facts(at) == ()


def test_what_the_record_settles_is_a_fact_at_once(at: At) -> None:
    mr, pipeline = at.another("a")
    at.sim.add_job(again(at.sim, pipeline, mr), "clock")
    pipeline.status = "failed"
    assert isinstance(at.run_failed(pipeline), Finished)
    assert 'settled as "flaky"' in at.first()
    assert [each.text for each in facts(at)] == ["clock: flaky: The clock waits for a tick."]


@pytest.mark.parametrize("dies", [False, True])
def test_a_reply_that_changes_the_verdict_takes_the_fact_out(at: At, dies: bool) -> None:
    """Also where the worker dies after the commit and another one takes over."""
    mr, pipeline = looked_at(at, "a")
    passes(at, pipeline)
    assert len(facts(at)) == 1
    at.script_answers(concludes("caused by this change"))
    asked = at.sim.comment(mr, at.scene.developer, "Sure?", own(at, mr).discussion_id)
    if dies:
        with pytest.raises(Killed):
            at.run_comment(asked, sessions=Deadly(at.place))
        assert len(facts(at)) == 1
    assert isinstance(at.run_comment(asked), Skipped if dies else Finished)
    assert facts(at) == ()


def test_a_later_commit_that_passes_confirms_no_flake(at: At) -> None:
    mr, _ = looked_at(at, "a")
    at.sim.push(mr, {"more.py": b"1"})
    green = at.sim.run_pipeline(mr, status="success")
    assert isinstance(at.run_passed(green), NotesMarked)
    assert facts(at) == ()


def test_what_is_told_in_internal_notes_is_no_fact(at: At) -> None:
    at.scene.project.public, at.scene.project.public_jobs = True, False
    mr, pipeline = looked_at(at, "a")
    assert own(at, mr).internal
    vote(at, mr, at.scene.developer)
    passes(at, pipeline)
    assert facts(at) == ()


def test_a_dry_run_neither_reads_nor_writes_it(at: At) -> None:
    _, pipeline = looked_at(at, "a")
    passes(at, pipeline)
    _, other = at.another("b")
    assert isinstance(at.run_failed(other, known_failures=NoKnownFailures()), Finished)
    assert SHOWN not in at.first()


def test_forget_takes_out_what_came_from_the_merge_request(at: At) -> None:
    mr, pipeline = looked_at(at, "a")
    passes(at, pipeline)
    at.run_comment(at.sim.comment(mr, at.scene.developer, "/sandpiper forget"))
    assert list(at.place.glob("known/*/knowledge.md")) == []
    vote(at, mr, at.scene.developer)
    passes(at, pipeline)
    assert facts(at) == ()


def test_what_is_too_old_is_swept(at: At) -> None:
    _, pipeline = looked_at(at, "a")
    passes(at, pipeline)
    deps = at.build_deps()
    project = at.scene.project.id
    assert list(retention.list_expired(deps, 90)) == []
    at.clock.time += 92 * 86_400
    line = f"1 facts in the memory of project {project}"
    assert f"{line}: would be removed" in list(retention.list_expired(deps, 90))
    assert len(facts(at)) == 1
    assert f"{line}: removed" in list(retention.remove_expired(deps, 90))
    assert list(at.place.glob("known/*/knowledge.md")) == []
