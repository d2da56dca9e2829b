"""What every NoteWriter does, and what the one of GitLab does when GitLab does not answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.contract.notes import note_of, written
from tests.simulators.gitlab import Access, GitLabSim, Scene
from worker.conversation.context import NoteRef, Subject
from worker.errors import ForgeError
from worker.gitlab.ports import BotAccount, NoteWriter
from worker.gitlab.write.note_writers import DryRunWriter
from worker.gitlab.write.writer import PER_PAGE, GitLabWriter
from worker.safety.markdown import Marker

MARKER = Marker("0123456789abcdef0123", 0)
OTHER = Marker("0123456789abcdef0123", 1)
BODY = f"{MARKER.text()}\nThe build failed."


@dataclass(frozen=True, slots=True)
class Made:
    """A writer, how to read its notes back, and a thread it may answer in."""

    notes: NoteWriter
    bot: BotAccount
    body: Callable[[NoteRef], str]
    thread: str


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def gitlab(sim: GitLabSim, scene: Scene, waits: list[float]) -> GitLabWriter:
    return GitLabWriter(sim.url, scene.write_token, (2.0, 2.0), waits.append)


@pytest.fixture(params=["gitlab", "dry"])
def made(
    request: pytest.FixtureRequest, sim: GitLabSim, scene: Scene, gitlab: GitLabWriter
) -> Made:
    asked = sim.comment(scene.mr, scene.developer, "Why is it red?")
    assert asked is not None
    if request.param == "dry":
        dry = DryRunWriter()
        return Made(dry, dry, dry.get_body, asked.discussion_id)
    return Made(gitlab, gitlab, lambda ref: note_of(scene, ref).body, asked.discussion_id)


def test_the_bot_is_always_the_same_user(made: Made) -> None:
    assert made.bot.get_user_id() == made.bot.get_user_id()


def test_a_posted_note_is_found_again_by_its_marker(made: Made, subject: Subject) -> None:
    assert made.notes.find_note(subject, MARKER, "") is None
    ref = made.notes.post_note(subject, BODY, "")
    assert made.body(ref) == BODY
    assert ref.discussion_id == ""
    assert made.notes.find_note(subject, MARKER, "") == ref
    assert made.notes.find_note(subject, OTHER, "") is None


def test_an_answer_goes_into_its_thread_and_is_found_there(made: Made, subject: Subject) -> None:
    ref = made.notes.post_note(subject, BODY, made.thread)
    assert ref.discussion_id == made.thread
    assert made.notes.find_note(subject, MARKER, made.thread) == ref
    assert made.notes.find_note(subject, OTHER, made.thread) is None


def test_an_edit_replaces_the_body_and_may_be_repeated(made: Made, subject: Subject) -> None:
    ref = made.notes.post_note(subject, BODY, "")
    for _ in range(2):
        made.notes.edit_note(subject, ref, f"{MARKER.text()}\nIt is the linter.")
        assert made.body(ref) == f"{MARKER.text()}\nIt is the linter."
    assert made.notes.find_note(subject, MARKER, "") == ref


def test_a_marker_that_is_not_at_the_start_is_not_believed(made: Made, subject: Subject) -> None:
    made.notes.post_note(subject, f"Somebody wrote {MARKER.text()}", "")
    assert made.notes.find_note(subject, MARKER, "") is None


def test_a_note_that_is_gone_cannot_be_edited(made: Made, subject: Subject) -> None:
    with pytest.raises(ForgeError, match="note 4711: not found") as caught:
        made.notes.edit_note(subject, NoteRef(4711), BODY)
    assert not caught.value.transient


# -------------------------------------------------------------------------------- GitLab as it is


def test_the_link_leads_to_the_note(gitlab: GitLabWriter, scene: Scene, subject: Subject) -> None:
    ref = gitlab.post_note(subject, BODY, "")
    assert ref.url == note_of(scene, ref).web_url


def test_the_bot_is_asked_for_once(gitlab: GitLabWriter, sim: GitLabSim, scene: Scene) -> None:
    assert [gitlab.get_user_id(), gitlab.get_user_id()] == [scene.bot.id, scene.bot.id]
    assert [seen.path for seen in sim.requests] == ["/api/v4/user"]


def test_a_plain_note_does_not_block_merging_and_an_answer_makes_it_a_thread(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    ref = gitlab.post_note(subject, BODY, "")
    note = note_of(scene, ref)
    assert note.type is None
    reply = sim.comment(scene.mr, scene.developer, "Sure?", note.discussion_id)
    assert reply is not None
    answer = gitlab.post_note(subject, f"{OTHER.text()}\nYes.", note.discussion_id)
    thread = scene.mr.discussions[note.discussion_id]
    assert [each.id for each in thread.notes] == [ref.note_id, reply.id, answer.note_id]
    gitlab.edit_note(subject, ref, f"{MARKER.text()}\nStill editable.")
    assert note.body.endswith("Still editable.")


@pytest.mark.parametrize("thread", [False, True])
def test_a_note_that_has_to_be_internal_is_or_is_taken_back(
    sim: GitLabSim, scene: Scene, subject: Subject, gitlab: GitLabWriter, thread: bool
) -> None:
    ref = gitlab.post_note(subject, BODY, "", thread=thread, internal=True)
    assert ref.internal
    assert note_of(scene, ref).internal
    assert gitlab.find_note(subject, MARKER, "") == ref
    gitlab.edit_note(subject, ref, f"{MARKER.text()}\nIt is the linter.")
    assert note_of(scene, ref).internal
    sim.add_member(scene.project, scene.bot, Access.GUEST)
    scene.project.public = True
    with pytest.raises(ForgeError, match="GitLab does not make it internal"):
        gitlab.post_note(
            subject, f"{OTHER.text()}\nIt is secret.", "", thread=thread, internal=True
        )
    assert "secret" not in "".join(written(scene))


def test_an_answer_to_an_internal_note_is_internal(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    asked = sim.comment(scene.mr, scene.developer, "Between us: why?", internal=True)
    assert asked is not None
    assert note_of(scene, gitlab.post_note(subject, BODY, asked.discussion_id)).internal


def test_a_marker_in_somebody_elses_note_is_not_believed(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    sim.comment(scene.mr, scene.developer, BODY)
    assert gitlab.find_note(subject, MARKER, "") is None


def test_a_note_under_many_newer_ones_is_found(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    ref = gitlab.post_note(subject, BODY, "")
    for number in range(2 * PER_PAGE):
        sim.comment(scene.mr, scene.developer, f"note {number}")
    assert gitlab.find_note(subject, MARKER, "") == ref


LOST = [
    pytest.param({"status": 502, "after": True}, id="processed, then 502"),
    pytest.param({"status": 500, "after": True}, id="processed, then 500"),
    pytest.param({"drop": True}, id="processed, then the connection broke"),
    pytest.param({"status": 502}, id="not processed, 502"),
    pytest.param({"status": 503, "headers": {"Retry-After": "0"}}, id="not processed, 503"),
]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("fault", LOST)
def test_a_lost_answer_to_a_post_yields_exactly_one_note(
    gitlab: GitLabWriter,
    sim: GitLabSim,
    scene: Scene,
    subject: Subject,
    waits: list[float],
    fault: dict[str, int | bool],
    in_thread: bool,
) -> None:
    asked = sim.comment(scene.mr, scene.developer, "Why?")
    assert asked is not None
    sim.fail_next("POST", "/notes$", **fault)  # type: ignore[arg-type]
    ref = gitlab.post_note(subject, BODY, asked.discussion_id if in_thread else "")
    assert written(scene) == [BODY]
    assert note_of(scene, ref).body == BODY
    assert len(waits) == 1


def test_a_post_that_timed_out_but_arrived_yields_exactly_one_note(
    sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    def settle(seconds: float) -> None:
        deadline = time.monotonic() + 10
        while not written(scene) and time.monotonic() < deadline:
            time.sleep(0.01)

    sim.fail_next("POST", "/notes$", 0, delay=0.6)
    GitLabWriter(sim.url, scene.write_token, (1.0, 0.3), settle).post_note(subject, BODY, "")
    assert written(scene) == [BODY]
    assert sum(seen.method == "POST" for seen in sim.requests) == 1


def test_a_server_that_stays_down_is_a_transient_error_and_tried_twice_only(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    sim.fail_next("POST", "/notes$", 502, times=99)
    with pytest.raises(ForgeError, match="a note on !1: GitLab answered 502") as caught:
        gitlab.post_note(subject, BODY, "")
    assert caught.value.transient
    assert sum(seen.method == "POST" for seen in sim.requests) == 2
    assert written(scene) == []


def test_without_a_marker_a_lost_post_is_not_repeated(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    sim.fail_next("POST", "/notes$", 502, after=True)
    with pytest.raises(ForgeError, match="502"):
        gitlab.post_note(subject, "no marker", "")
    assert written(scene) == ["no marker"]


def test_a_rate_limited_post_waits_and_goes_through(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject, waits: list[float]
) -> None:
    sim.fail_next("POST", "/notes$", 429, times=2, headers={"Retry-After": "0"})
    gitlab.post_note(subject, BODY, "")
    assert written(scene) == [BODY]
    assert waits == []


@pytest.mark.parametrize("fault", LOST)
def test_an_edit_is_simply_tried_again(
    gitlab: GitLabWriter,
    sim: GitLabSim,
    scene: Scene,
    subject: Subject,
    fault: dict[str, int | bool],
) -> None:
    ref = gitlab.post_note(subject, BODY, "")
    sim.fail_next("PUT", "/notes/", **fault)  # type: ignore[arg-type]
    gitlab.edit_note(subject, ref, f"{BODY} Twice.")
    assert written(scene) == [f"{BODY} Twice."]


def test_a_text_of_only_quick_actions_is_an_error_not_a_note(
    gitlab: GitLabWriter, sim: GitLabSim, scene: Scene, subject: Subject
) -> None:
    with pytest.raises(ForgeError, match="only quick actions") as caught:
        gitlab.post_note(subject, "/close\n/merge", "")
    assert not caught.value.transient
    assert [action.command for action in sim.quick_actions] == ["close", "merge"]
    sim.quick_actions.clear()
    assert scene.mr.list_notes() == []


def test_a_body_that_is_too_long_is_refused_with_gitlabs_reason(
    gitlab: GitLabWriter, subject: Subject
) -> None:
    with pytest.raises(ForgeError, match=r"answered 400: .*too long"):
        gitlab.post_note(subject, BODY + "x" * 1_000_000, "")


def test_the_read_token_cannot_write(sim: GitLabSim, scene: Scene, subject: Subject) -> None:
    writer = GitLabWriter(sim.url, scene.read_token)
    with pytest.raises(ForgeError, match=r"GITLAB_WRITE_TOKEN has not the scope it needs \(api\)"):
        writer.post_note(subject, BODY, "")
    assert scene.mr.list_notes() == []


def test_a_wrong_token_is_named_as_the_cause(sim: GitLabSim, subject: Subject) -> None:
    with pytest.raises(ForgeError, match="is GITLAB_WRITE_TOKEN revoked or expired") as caught:
        GitLabWriter(sim.url, "wrong").get_user_id()
    assert caught.value.doubtful


def test_a_project_that_the_bot_left_is_not_found(
    gitlab: GitLabWriter, scene: Scene, subject: Subject
) -> None:
    del scene.project.members[scene.bot.id]
    with pytest.raises(ForgeError, match="not found, or the write token may not see it"):
        gitlab.post_note(subject, BODY, "")


def test_an_answer_in_a_thread_that_is_gone_is_an_error(
    gitlab: GitLabWriter, subject: Subject
) -> None:
    with pytest.raises(ForgeError, match="not found"):
        gitlab.post_note(subject, BODY, "0" * 40)


def test_a_server_that_is_not_gitlab_is_an_error_that_says_so(
    gitlab: GitLabWriter, sim: GitLabSim
) -> None:
    sim.fail_next("GET", "/user", 200)
    with pytest.raises(ForgeError, match=r"no id: set gitlab\.url to where GitLab"):
        gitlab.get_user_id()


def test_a_server_that_is_not_there_is_transient(subject: Subject) -> None:
    writer = GitLabWriter("http://127.0.0.1:9", "t", (0.2, 0.2), lambda seconds: None)
    with pytest.raises(ForgeError, match=r"from http://127\.0\.0\.1:9: nothing") as caught:
        writer.post_note(subject, BODY, "")
    assert caught.value.transient


def test_only_notes_are_ever_written_and_only_with_the_write_token(
    gitlab: GitLabWriter, sim: GitLabSim, subject: Subject
) -> None:
    gitlab.edit_note(subject, gitlab.post_note(subject, BODY, ""), BODY)
    gitlab.find_note(subject, MARKER, "")
    assert {seen.token for seen in sim.requests} == {"write"}
    writes = [(seen.method, seen.path) for seen in sim.requests if seen.method != "GET"]
    place = f"/api/v4/projects/{subject.project_id}/merge_requests/{subject.mr_iid}/notes"
    assert [(method, path.removeprefix(place)[:1]) for method, path in writes] == [
        ("POST", ""),
        ("PUT", "/"),
    ]
