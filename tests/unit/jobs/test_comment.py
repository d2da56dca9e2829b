"""What a comment starts, and for whom."""

from pathlib import Path
from typing import Any

import pytest

from tests.contexts import call
from tests.fakes import ScriptedModel, says
from tests.jobs import FINDING, WORKFLOW, Job, offer_model, read_answer, read_reason
from tests.simulators.gitlab import Access, GitLabSim
from worker.conversation.context import Status
from worker.errors import Busy, ModelError, SourceError
from worker.safety.markdown import Kind, find_marker
from worker.settings.playbook import Playbook, Workflow
from worker.turns.parts import Finished

pytestmark = pytest.mark.slow


# ------------------------------------------------------------------------------- who and where


def test_a_reply_in_our_thread_is_a_question(told: Job) -> None:
    told.script_answers(says("Because of the race."))
    (root,) = told.list_notes()
    ended = told.ask("Why?", root.discussion_id)
    assert isinstance(ended, Finished)
    _, answer = told.list_notes()
    assert answer.discussion_id == root.discussion_id
    assert "Because of the race." in answer.body


def test_a_mention_anywhere_is_a_question_to_the_newest_failures_session(told: Job) -> None:
    told.script_answers(says("Same as before."), says("Still."))
    asked = told.write_comment(f"@{told.scene.bot.username} is this the one from yesterday?")
    assert isinstance(told.run_comment(asked), Finished)
    answer = told.list_notes()[-1]
    assert answer.discussion_id == asked.discussion_id
    assert "Same as before." in answer.body
    # In that thread people also talk to each other.
    assert "not begun by Sandpiper" in read_reason(told.ask("Hm, ok.", asked.discussion_id))
    again = told.ask(f"@{told.scene.bot.username} sure?", asked.discussion_id)
    assert isinstance(again, Finished)
    assert [key.session_id for key in told.list_sessions()] == [told.load_context().session_id]
    assert told.load_context().turn == 2


@pytest.mark.parametrize(
    "words",
    ["/sandpiper status", "/sandpiper analyze", "/sandpiper nonsense", "@{bot} why?", "Why?"],
)
def test_those_who_may_not_ask_get_no_sign(told: Job, sim: GitLabSim, words: str) -> None:
    guest = sim.add_user("guest")
    sim.add_member(told.scene.project, guest, Access.REPORTER)
    (root,) = told.list_notes()
    note = told.write_comment(
        words.format(bot=told.scene.bot.username), root.discussion_id, author=guest
    )
    before = len(sim.requests)
    assert "below the access level" in read_reason(told.run_comment(note))
    assert {seen.method for seen in sim.requests[before:]} == {"GET"}
    assert len(told.list_notes()) == 1


def test_other_bots_are_not_listened_to_whatever_their_access(told: Job, sim: GitLabSim) -> None:
    other = sim.add_user("renovate", bot=True)
    sim.add_member(told.scene.project, other, Access.MAINTAINER)
    (root,) = told.list_notes()
    ended = told.ask("Done, see https://x", root.discussion_id, author=other)
    assert read_reason(ended) == f"user {other.id} is a bot"


def test_own_and_system_notes_and_deleted_ones_start_nothing(told: Job, sim: GitLabSim) -> None:
    (root,) = told.list_notes()
    own = told.write_comment("/sandpiper analyze", author=told.scene.bot)
    system = told.write_comment("/sandpiper analyze", system=True)
    gone = told.write_comment("Why?", root.discussion_id)
    sim.delete(gone)
    for note in (own, system, gone):
        assert "gone or not a person's" in read_reason(told.run_comment(note))


def test_a_forged_marker_in_somebody_elses_note_names_no_session(told: Job) -> None:
    (root,) = told.list_notes()
    forged = told.write_comment(root.body)
    assert "not begun by Sandpiper" in read_reason(told.ask("Why?", forged.discussion_id))


def test_chatter_costs_one_look(told: Job, sim: GitLabSim) -> None:
    note = told.write_comment("LGTM, thanks @mara")
    before = len(sim.requests)
    assert "not begun by Sandpiper" in read_reason(told.run_comment(note))
    assert len(sim.requests) - before == 1


def test_thanks_get_an_emoji_and_neither_a_model_nor_a_note(told: Job) -> None:
    (root,) = told.list_notes()
    note = told.write_comment("Perfect, thanks! 🎉", root.discussion_id)
    before = len(told.model.requests)
    assert "it is thanks" in read_reason(told.run_comment(note))
    assert len(told.model.requests) == before
    assert len(told.list_notes()) == 1
    assert list(note.awards.values()) == [(told.scene.bot.id, "eyes")]


# ------------------------------------------------------------------------------------- the sign


def test_eyes_are_on_the_note_while_it_is_dealt_with(told: Job) -> None:
    seen: list[object] = []
    (root,) = told.list_notes()
    note = told.write_comment("Why?", root.discussion_id)
    told.script_answers(says("So."))
    told.on_asking = lambda iteration: seen.append(list(note.awards.values()))
    told.run_comment(note)
    assert seen == [[(told.scene.bot.id, "eyes")]]
    assert note.awards == {}


def test_eyes_stay_where_it_is_to_be_tried_again(told: Job) -> None:
    (root,) = told.list_notes()
    note = told.write_comment("Why?", root.discussion_id)
    with told.claim_elsewhere(told.list_sessions()[0], 1), pytest.raises(Busy):
        told.run_comment(note)
    assert len(note.awards) == 1


def test_a_second_delivery_takes_no_sign_from_the_one_at_work(told: Job) -> None:
    (root,) = told.list_notes()
    note = told.write_comment("Why?", root.discussion_id)
    signs: list[int] = []

    def again(iteration: int) -> None:
        assert "worked on already" in read_reason(told.run_comment(note))
        signs.append(len(note.awards))

    told.on_asking = again
    told.script_answers(says("So."))
    told.run_comment(note)
    assert (signs, note.awards) == ([1], {})


def test_a_gitlab_without_emoji_is_no_obstacle(told: Job, sim: GitLabSim) -> None:
    sim.fail_next("POST", "/award_emoji", 403, times=99)
    sim.fail_next("GET", "/award_emoji", 403, times=99)
    told.script_answers(says("So."))
    (root,) = told.list_notes()
    assert isinstance(told.ask("Why?", root.discussion_id), Finished)


# ---------------------------------------------------------------------------------- the commands


EXPLAIN = Workflow(
    name="explain",
    description="say it @all simply",
    triggers=("command:explain",),
    text="Explain it.\n",
)


def test_the_command_of_any_workflow_runs_it_in_a_session_of_its_own(told: Job) -> None:
    book = Playbook([WORKFLOW, EXPLAIN])
    told.script_answers(says("## Verdict\nflaky\n\n## Cause\nIt is like a race.\n"))
    note = told.write_comment("/sandpiper explain")
    assert isinstance(told.run_comment(note, playbook=book), Finished)
    assert "Explain it." in told.model.requests[-1].system
    assert "It is like a race." in told.list_notes()[-1].body
    assert len(told.list_sessions()) == 2
    again = read_answer(told.run_comment(told.write_comment("/sandpiper explain"), playbook=book))
    assert "was looked at" in again
    listed = read_answer(told.run_comment(told.write_comment("/sandpiper help"), playbook=book))
    assert "`/sandpiper explain`: say it" in listed
    assert "There is no command `explain`" in read_answer(told.ask("/sandpiper explain"))


@pytest.mark.parametrize("words", ["/sandpiper", "/sandpiper help", "@{bot} help"])
def test_help_lists_the_commands_in_the_thread(at: Job, words: str) -> None:
    note = at.write_comment(words.format(bot=at.scene.bot.username))
    assert "analyze" in read_answer(at.run_comment(note))
    (answer,) = at.list_notes()
    assert answer.discussion_id == note.discussion_id
    assert "`/sandpiper forget`" in answer.body
    marker = find_marker(answer.body)
    assert marker is not None
    assert marker.kind is Kind.COMMAND


def test_an_unknown_command_gets_the_list_and_cannot_speak_through_us(at: Job) -> None:
    at.ask("/sandpiper `@all`<b>![x](https://evil.example/x.png) /close")
    (answer,) = at.list_notes()
    assert "`/sandpiper analyze`" in answer.body
    assert "There is no command `?`" in answer.body
    assert not any(sign in answer.body for sign in ("![", "@all", "evil.example/", "/close", "<b>"))


def test_a_command_delivered_again_posts_nothing_new(at: Job) -> None:
    at.script_answers(FINDING)
    for words in ("/sandpiper help", "/sandpiper analyze", "/sandpiper status", "/sandpiper stop"):
        note = at.write_comment(words)
        at.run_comment(note)
        count = len(at.list_notes())
        assert read_reason(at.run_comment(note))
        assert len(at.list_notes()) == count
    assert len(at.model.requests) == 1


def test_analyze_starts_what_no_webhook_has(at: Job) -> None:
    at.script_answers(FINDING)
    ended = at.ask("/sandpiper analyze")
    assert isinstance(ended, Finished)
    (note,) = at.list_notes()
    assert "A race in the test." in note.body
    assert note.type is None
    assert "was looked at already" in read_reason(at.run_failed())


def test_analyze_again_points_to_what_was_found(told: Job) -> None:
    assert "was looked at" in read_answer(told.ask("/sandpiper analyze"))
    root, answer = told.list_notes()
    assert f"#note_{root.id}" in answer.body
    assert len(told.model.requests) == 1


def test_analyze_after_a_failed_attempt_tries_again(at: Job) -> None:
    at.script_answers(ModelError("the model is down"), FINDING)
    first = at.run_failed()
    assert isinstance(first, Finished)
    assert first.outcome.status is Status.FAILED
    again = at.ask("/sandpiper analyze")
    assert isinstance(again, Finished)
    assert again.outcome.status is Status.DONE
    assert again.turn == 1


def test_analyze_without_a_failure_says_so(at: Job) -> None:
    at.scene.pipeline.status = "success"
    assert "no failed pipeline" in read_answer(at.ask("/sandpiper analyze"))


def test_analyze_while_it_is_running_says_so(at: Job) -> None:
    with at.claim_elsewhere(at.find_key()):
        assert "is being looked at now" in read_answer(at.ask("/sandpiper analyze"))


def test_a_question_before_there_is_anything_gets_a_hint(at: Job) -> None:
    assert "has not been looked at yet" in read_answer(at.ask(f"@{at.scene.bot.username} why?"))
    at.scene.pipeline.status = "success"
    assert "no failed pipeline" in read_answer(at.ask(f"@{at.scene.bot.username} why?"))


def test_status_tells_nothing_running_and_done(told: Job) -> None:
    found = read_answer(told.ask("/sandpiper status"))
    assert found.startswith("Nothing is running.")
    assert f"Pipeline {told.scene.pipeline.id} was looked at: " in found


def test_status_tells_how_far_a_run_is(at: Job) -> None:
    seen: list[str] = []

    def ask(iteration: int) -> None:
        at.clock.time += 60
        at.on_asking = lambda again: seen.append(read_answer(at.ask("/sandpiper status")))

    at.on_asking = ask
    at.script_answers(says("", call()), FINDING)
    at.run_failed()
    assert seen == ["At work for 1.0 minutes, with 1 answers of the model so far."]


def test_stop_ends_a_run_with_what_there_is(at: Job) -> None:
    said: list[str] = []

    def stop(iteration: int) -> None:
        if iteration == 2:
            said.append(read_answer(at.ask("/sandpiper stop")))

    at.on_asking = stop
    at.script_answers(says("So far: a race.", call()), says("", call("c2")), FINDING)
    ended = at.run_failed()
    assert isinstance(ended, Finished)
    assert said == ["Stopping after the present step."]
    assert (ended.outcome.status, ended.outcome.text) == (Status.PARTIAL, "So far: a race.")
    assert ended.outcome.reason == "stopped on request"
    assert len(at.model.requests) == 2
    note = at.list_notes()[0]
    assert "stopped on request" in note.body
    # The next turn is not stopped by the last one's wish.
    at.on_asking = lambda iteration: None
    at.script_answers(says("Go on."))
    assert isinstance(at.ask("And?", note.discussion_id), Finished)


def test_stop_with_nothing_to_stop_says_so(told: Job) -> None:
    assert read_answer(told.ask("/sandpiper stop")) == "Nothing is running."


def test_another_model_looks_again_and_only_one_on_offer(told: Job) -> None:
    other = ScriptedModel([says("It is the runner.")], name="other/model")
    offered = {"other/model": offer_model(other)}
    note = told.write_comment("/sandpiper model other/model")
    ended = told.run_comment(note, choices=offered)
    assert isinstance(ended, Finished)
    assert told.load_context().model == "other/model"
    assert "It is the runner." in told.list_notes()[-1].body
    wrong = told.write_comment("/sandpiper model evil/model")
    assert "`other/model`" in read_answer(told.run_comment(wrong, choices=offered))
    assert len(other.requests) == 1


def test_another_model_starts_the_analysis_where_there_is_none(at: Job) -> None:
    other = ScriptedModel([FINDING], name="other/model")
    note = at.write_comment("/sandpiper model other/model")
    ended = at.run_comment(note, choices={"other/model": offer_model(other)})
    assert isinstance(ended, Finished)
    assert (ended.turn, at.load_context().model) == (0, "other/model")


def test_forget_deletes_what_was_said_and_runs_nothing_again(told: Job, tmp_path: Path) -> None:
    told.script_answers(says("SECRET-OF-THE-TEAM"), says("Anew."))
    (root,) = told.list_notes()
    told.ask("Say it.", root.discussion_id)
    assert any(b"SECRET-OF-THE-TEAM" in each.read_bytes() for each in _files(tmp_path))
    assert "Deleted" in read_answer(told.ask("/sandpiper forget"))
    assert not any(b"SECRET-OF-THE-TEAM" in each.read_bytes() for each in _files(tmp_path))
    assert "was looked at already" in read_reason(told.run_failed())
    assert "was deleted" in read_answer(told.ask("/sandpiper status"))
    assert "Nothing is stored" in read_answer(told.ask("/sandpiper forget"))
    answer = told.ask("What was it?", root.discussion_id)
    assert isinstance(answer, Finished)
    sent = told.model.requests[-1].messages
    assert len(sent) == 2
    assert "deleted on request" in str(sent[1])


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# ------------------------------------------------------------------------------- internal notes


def test_an_internal_request_is_answered_internally_by_a_session_of_its_own(told: Job) -> None:
    told.script_answers(FINDING, says("Inside."))
    note = told.write_comment("/sandpiper analyze", internal=True)
    assert isinstance(told.run_comment(note), Finished)
    analysis = told.list_notes()[-1]
    assert (analysis.discussion_id, analysis.internal) == (note.discussion_id, True)
    question = told.write_comment(
        f"@{told.scene.bot.username} customer ACME?", note.discussion_id, internal=True
    )
    assert isinstance(told.run_comment(question), Finished)
    assert told.list_notes()[-1].internal
    public = told.load_context(told.find_key())
    assert public.turn == 0
    assert "ACME" not in str(public.messages)
    assert len(told.list_sessions()) == 2


def test_a_public_note_never_links_the_page_of_what_was_said_internally(told: Job) -> None:
    def page(session: str) -> str:
        return f"https://s.example/sessions/{session}?sig=1.{'a' * 64}"

    public = told.list_notes()[-1]
    shown = {"page": page, "hosts": frozenset({"s.example/sessions"})}
    told.script_answers(FINDING, says("Outside."), says("Inside."))
    inside = told.write_comment("/sandpiper analyze", internal=True)
    told.run_comment(inside, **shown)
    bot = told.scene.bot.username
    told.run_comment(told.write_comment(f"@{bot} why?", public.discussion_id), **shown)
    told.run_comment(
        told.write_comment(f"@{bot} ACME?", inside.discussion_id, internal=True), **shown
    )
    (other,) = (key for key in told.list_sessions() if key != told.find_key())
    ids = (told.find_key().session_id, other.session_id)
    linked = [
        (note.internal, *(f"sessions/{each}" in note.body for each in ids))
        for note in told.list_notes()[1:]
    ]
    assert sorted(linked) == [(False, True, False), (True, False, True), (True, False, True)]


def test_an_internal_question_is_not_asked_of_the_public_session(told: Job) -> None:
    note = told.write_comment(f"@{told.scene.bot.username} customer ACME?", internal=True)
    assert "has not been looked at yet" in read_answer(told.run_comment(note))
    assert told.list_notes()[-1].internal
    assert len(told.model.requests) == 1


@pytest.mark.parametrize("words", ["help", "status", "stop", "forget", "nonsense", "model x/y"])
def test_every_answer_to_an_internal_command_is_internal(told: Job, words: str) -> None:
    told.ask(f"/sandpiper {words}", internal=True)
    assert told.list_notes()[-1].internal


# ------------------------------------------------------------------------------------- the limits


def limited(at: Job, note: Any) -> object:
    return at.run_comment(note, turns_per_day=2)


def test_a_thread_is_answered_only_so_often_a_day(told: Job) -> None:
    (root,) = told.list_notes()
    told.script_answers(says("One."), says("Two."), says("Next day."))
    for question in ("1?", "2?"):
        note = told.write_comment(question, root.discussion_id)
        assert isinstance(limited(told, note), Finished)
    third = told.write_comment("3?", root.discussion_id)
    assert "its 2 answers of the day" in read_answer(limited(told, third))
    fourth = told.write_comment("4?", root.discussion_id)
    assert "its 2 answers of the day" in read_reason(limited(told, fourth))
    count = len(told.list_notes())
    for note in told.list_notes()[1:]:
        note.created_at = "2026-11-19T08:00:00.000Z"
    fifth = told.write_comment("5?", root.discussion_id)
    assert isinstance(limited(told, fifth), Finished)
    assert len(told.list_notes()) == count + 1


def test_stop_is_heard_also_when_the_days_answers_are_used_up(told: Job) -> None:
    (root,) = told.list_notes()
    told.script_answers(says("One."), says("Two."))
    for question in ("1?", "2?"):
        limited(told, told.write_comment(question, root.discussion_id))
    note = told.write_comment("/sandpiper stop", root.discussion_id)
    assert read_answer(limited(told, note)) == "Nothing is running."


def test_a_reply_to_the_placeholder_waits_for_the_finding(at: Job) -> None:
    waits: list[bool] = []

    def reply(iteration: int) -> None:
        (placeholder,) = at.list_notes()
        note = at.write_comment("Already?", placeholder.discussion_id)
        with pytest.raises(Busy):
            at.run_comment(note)
        waits.append(True)

    at.on_asking = reply
    at.script_answers(FINDING)
    at.run_failed()
    assert waits == [True]


def test_whether_somebody_may_ask_is_not_guessed_when_gitlab_is_down(
    told: Job, sim: GitLabSim
) -> None:
    note = told.write_comment("/sandpiper help")
    sim.fail_next("GET", "/members/", 500, times=9, headers={"Retry-After": "0"})
    with pytest.raises(SourceError) as caught:
        told.run_comment(note)
    assert caught.value.transient
    assert len(told.list_notes()) == 1
