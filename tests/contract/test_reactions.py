"""A sign on somebody's note that it was seen, and its end (gitlab.ports.Reactions)."""

import pytest

from tests.simulators.gitlab import GitLabSim, Note, Scene
from worker.errors import ForgeError
from worker.gitlab.ports import Reactions
from worker.gitlab.write.note_writers import DryRunWriter
from worker.gitlab.write.writer import GitLabWriter


@pytest.fixture
def note(sim: GitLabSim, scene: Scene) -> Note:
    made = sim.comment(scene.mr, scene.developer, "/sandpiper status")
    assert made is not None
    return made


@pytest.fixture
def gitlab(sim: GitLabSim, scene: Scene) -> GitLabWriter:
    return GitLabWriter(sim.url, scene.write_token, (2.0, 2.0), lambda seconds: None)


def place(note: Note) -> tuple[int, int, int]:
    return note.merge_request.project.id, note.merge_request.iid, note.id


@pytest.mark.parametrize("kind", ["gitlab", "dry"])
def test_a_sign_may_be_given_and_taken_back_any_number_of_times(
    kind: str, note: Note, gitlab: GitLabWriter
) -> None:
    reactions: Reactions = gitlab if kind == "gitlab" else DryRunWriter()
    for _ in range(2):
        reactions.remove_acknowledgement(*place(note))
        for _ in range(2):
            reactions.acknowledge_note(*place(note))
        reactions.remove_acknowledgement(*place(note))
    assert note.awards == {}


def test_the_sign_is_one_pair_of_eyes_of_our_own(
    sim: GitLabSim, scene: Scene, note: Note, gitlab: GitLabWriter
) -> None:
    note.awards[77] = (scene.developer.id, "eyes")
    note.awards[78] = (scene.bot.id, "thumbsup")
    gitlab.acknowledge_note(*place(note))
    gitlab.acknowledge_note(*place(note))
    assert sorted(note.awards.values()) == [
        (scene.developer.id, "eyes"),
        (scene.bot.id, "eyes"),
        (scene.bot.id, "thumbsup"),
    ]
    gitlab.remove_acknowledgement(*place(note))
    assert sorted(note.awards.values()) == [
        (scene.developer.id, "eyes"),
        (scene.bot.id, "thumbsup"),
    ]


def test_a_sign_that_gitlab_does_not_take_is_an_error(
    sim: GitLabSim, note: Note, gitlab: GitLabWriter
) -> None:
    gone = (*place(note)[:2], 4711)
    with pytest.raises(ForgeError, match="note 4711"):
        gitlab.acknowledge_note(*gone)
    sim.fail_next("POST", "/award_emoji", 403, times=9)
    with pytest.raises(ForgeError, match="note"):
        gitlab.acknowledge_note(*place(note))


def test_a_sign_whose_answer_was_lost_is_found(
    sim: GitLabSim, note: Note, gitlab: GitLabWriter
) -> None:
    sim.fail_next("POST", "/award_emoji", 502, after=True)
    gitlab.acknowledge_note(*place(note))
    assert len(note.awards) == 1


def test_a_sign_that_somebody_else_took_back_meanwhile_is_gone_all_the_same(
    sim: GitLabSim, note: Note, gitlab: GitLabWriter
) -> None:
    gitlab.acknowledge_note(*place(note))
    sim.fail_next("DELETE", "/award_emoji/", 404, after=True)
    gitlab.remove_acknowledgement(*place(note))
    assert note.awards == {}
    gitlab.acknowledge_note(*place(note))
    sim.fail_next("DELETE", "/award_emoji/", 403)
    with pytest.raises(ForgeError, match="reaction"):
        gitlab.remove_acknowledgement(*place(note))


def test_the_bot_knows_the_name_it_is_mentioned_by(
    sim: GitLabSim, scene: Scene, gitlab: GitLabWriter
) -> None:
    assert (gitlab.get_user_id(), gitlab.get_user_name()) == (scene.bot.id, scene.bot.username)
    assert sum(seen.path.endswith("/user") for seen in sim.requests) == 1
    assert DryRunWriter().get_user_name() == ""
