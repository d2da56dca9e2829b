"""Replies that need no tools: the model of `models.reply` answers, or after it the session's."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contexts import call
from tests.fakes import Answer, ScriptedModel, says
from tests.jobs import FINDING, Job, Ran
from tests.simulators.gitlab import GitLabSim
from tests.unit.jobs.test_routed_replies import CountedDriver
from worker.conversation.context import Context, Status
from worker.conversation.limits import Limits
from worker.conversation.messages import Assistant, ToolResult, Usage, User
from worker.conversation.model import Model, StopReason
from worker.conversation.prompts import FROM_ABOVE, TAKEOVER
from worker.conversation.tiers import ReplyModel, TierModel, TierRules
from worker.errors import ConfigError, ContextOverflow, HandedOver, ModelError
from worker.settings.runs import Gate
from worker.turns.parts import Finished

pytestmark = pytest.mark.slow

WHY = "Why do you think so?"
BECAUSE = says("Because both tests write to the same table.")
SMALL = ReplyModel("t/reply", "low", max_output=1500)
TIERS = TierRules(
    {"balanced": TierModel("t/reply", "low"), "smart": TierModel("test/model")},
    TierModel("test/model"),
    tier="smart",
    reply=replace(SMALL, tier="balanced", model="t/reply"),
)


@dataclass
class Thread:
    """A failure that has been explained by the session's model, and replies to its note."""

    job: Job
    rules: TierRules = field(
        default_factory=lambda: TierRules(default=TierModel("test/model"), reply=SMALL)
    )
    driver: CountedDriver = field(default_factory=CountedDriver)
    small: ScriptedModel = field(default_factory=lambda: ScriptedModel([], name="t/reply"))
    gate: Gate = Gate.RULES

    def make(self, wanted: TierModel) -> Model:
        models = {"t/reply": self.small, "test/model": self.job.model}
        if wanted.model not in models:
            raise ConfigError(f"{wanted.model}: unknown")
        return models[wanted.model]

    def parts(self) -> dict[str, Any]:
        return {
            "limits": Limits(50, 100_000, 900.0, 10.0, tier_rules=self.rules),
            "make_reply_model": self.make,
            "make_model": self.make,
            "choices": {"test/model": lambda: self.job.model, "t/reply": lambda: self.small},
            "sandboxes": self.driver,
            "gate": self.gate,
        }

    def says(self, text: str, *by_small: Answer, by_own: tuple[Answer, ...] = ()) -> Ran:
        self.small.answers = [*self.small.answers[: len(self.small.requests)], *by_small]
        self.job.script_answers(*by_own)
        root = self.job.list_notes()[0].discussion_id
        return self.job.run_comment(self.job.write_comment(text, root), **self.parts())

    def asks(self, text: str, *by_small: Answer, by_own: tuple[Answer, ...] = ()) -> Context:
        ended = self.says(text, *by_small, by_own=by_own)
        assert isinstance(ended, Finished)
        assert ended.outcome.status is Status.DONE
        return self.job.load_context()


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    with GitLabSim() as sim:
        made = Thread(Job(sim, tmp_path))
        made.job.script_answers(says("", call("c0")), FINDING)
        assert isinstance(made.job.run_failed(**made.parts()), Finished)
        made.driver.started = 0
        yield made
        assert sim.unexpected_requests == []


def told(context: Context) -> list[str]:
    users = (each.text for each in context.messages if isinstance(each, User))
    return [each for each in users if each.startswith(TAKEOVER)]


# -------------------------------------------------------------------------------------- it answers


def test_a_question_is_answered_by_the_replys_model_alone(thread: Thread) -> None:
    first, asked = thread.job.load_context(), len(thread.job.model.requests)
    ended = thread.asks(WHY, BECAUSE)
    assert (len(thread.job.model.requests), thread.driver.started) == (asked, 0)
    (request,) = thread.small.requests
    assert (request.system, request.tools) == (first.system, first.tools)
    assert list(request.messages[: len(first.messages)]) == list(first.messages)
    assert (request.notice, request.max_output, request.marks) == (FROM_ABOVE, 1500, ())
    assert request.deadline == thread.job.clock.monotonic() + SMALL.timeout
    assert (ended.model, ended.gave_way, ended.turn_usage.cost_usd) == ("t/reply", "", 0.01)
    last = ended.calls[-1]
    assert (last.model, last.tier, last.reasoning) == ("t/reply", "reply", "low")
    assert ended.cost_usd == pytest.approx(0.03)
    body = thread.job.list_notes()[-1].body
    assert BECAUSE.text in body
    assert "`reply` (reply, low)" in body
    assert FROM_ABOVE not in json.dumps([str(each) for each in ended.messages])


def test_the_sessions_own_cache_and_prefix_stay_as_they_were(thread: Thread) -> None:
    first = thread.job.load_context()
    thread.job.clock.time += 100
    ended = thread.asks(WHY, BECAUSE)
    assert (ended.cache, ended.folds) == (first.cache, first.folds)
    # The next one is work: the session's model reads its prefix, and the other's answer after it.
    ended = thread.asks("Please check the log.", by_own=(says("Nothing new."),))
    request = thread.job.model.requests[-1]
    assert list(request.messages[: len(first.messages)]) == list(first.messages)
    assert Assistant(BECAUSE.text) in request.messages
    assert first.cache
    assert first.cache.position in request.marks
    assert (ended.model, ended.reply_by, request.max_output) == ("test/model", None, 0)


@pytest.mark.parametrize(("seconds", "folds"), [(40, 0), (60, 1)])
def test_a_reply_folds_only_what_the_sessions_own_cache_has_lost(
    thread: Thread, seconds: float, folds: int
) -> None:
    long = call("c1", "look", json.dumps({"saw": "x y " * 20_000}))
    thread.asks("Please check the log.", by_own=(says("", long), says("Nothing new.")))
    thread.job.clock.time += 250
    assert thread.asks(WHY, replace(BECAUSE, usage=Usage(40_000, output=1))).folds == ()
    thread.job.clock.time += seconds
    ended = thread.asks(WHY, BECAUSE)
    assert (ended.model, len(ended.folds)) == ("t/reply", folds)


def test_its_thinking_binds_no_notice_into_the_history(thread: Thread) -> None:
    thread.small.binds_thinking = True
    ended = thread.asks(WHY, replace(BECAUSE, wire="[signed]", thought=True))
    assert ended.messages[-1] == Assistant(BECAUSE.text)
    assert User(FROM_ABOVE) not in ended.messages


def test_each_reply_may_be_answered_so(thread: Thread) -> None:
    thread.asks(WHY, BECAUSE)
    ended = thread.asks("Are you sure?", says("Yes."))
    assert [each.model for each in ended.calls[-2:]] == ["t/reply", "t/reply"]
    assert len(thread.small.requests) == 2


@pytest.mark.parametrize("text", ["Please check the log again.", "I changed the seed on purpose."])
def test_work_and_what_is_unclear_go_to_the_sessions_model(thread: Thread, text: str) -> None:
    ended = thread.asks(text, by_own=(says("Nothing new."),))
    assert (ended.model, thread.small.requests) == ("test/model", [])


def test_where_it_is_not_set_nothing_of_it_is_stored_or_sent(thread: Thread) -> None:
    thread.rules = TierRules(default=TierModel("test/model"))
    thread.asks(WHY, by_own=(BECAUSE,))
    request = thread.job.model.requests[-1]
    assert (request.notice, request.max_output) == ("", 0)
    assert request.marks
    key = thread.job.list_sessions()[0]
    data = json.loads(thread.job.store.read_context(key, 1))
    assert "reply_by" not in data
    assert not {"tier", "reasoning"} & set(data["calls"][-1])


# --------------------------------------------------------------------------- the session's goes on


def test_after_a_tool_call_the_sessions_model_goes_on_with_its_result(thread: Thread) -> None:
    ended = thread.asks(WHY, says("Let me see.", call("c1")), by_own=(BECAUSE,))
    (request,) = thread.job.model.requests[2:]
    result, said = request.messages[-2:]
    assert isinstance(result, ToolResult)
    assert isinstance(said, User)
    assert told(ended) == [said.text]
    assert "it called a tool" in said.text
    assert request.max_output == 0
    assert request.notice == ""
    assert thread.driver.started == 1
    # Each request is paid for once, and both are named.
    assert [each.model for each in ended.calls[2:]] == ["t/reply", "test/model"]
    assert ended.turn_usage.cost_usd == pytest.approx(0.02)
    assert ended.cost_usd == pytest.approx(sum(each.cost_usd or 0 for each in ended.calls))
    assert (ended.model, ended.gave_way) == ("test/model", "")
    body = thread.job.list_notes()[-1].body
    assert "`model`" in body
    assert "reply, low: t/reply" in body
    assert "reply: it called a tool" in body


NO_ANSWER: dict[str, tuple[Answer, str]] = {
    "an error": (ModelError("t/reply: 529", transient=True), "it did not answer"),
    "a window that is too small": (ContextOverflow("too long", limit=500), "it did not answer"),
    "a refusal": (replace(says(""), stop=StopReason.REFUSED), "it refused to answer"),
    "an answer that is cut": (
        replace(says("Because bo"), stop=StopReason.TRUNCATED),
        "its answer was too long",
    ),
    "a broken answer": (
        replace(says(""), stop=StopReason.MALFORMED, dropped_calls=1),
        "its answer came out broken",
    ),
    "an empty answer": (says(" "), "it gave no answer"),
    "a promise": (
        says("I'll look into the logs and get back to you."),
        "its answer was not enough",
    ),
    "another verdict": (FINDING, "it came to another verdict"),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_where_it_gives_no_answer_the_sessions_model_does(thread: Thread, name: str) -> None:
    answer, reason = NO_ANSWER[name]
    ended = thread.asks(WHY, answer, by_own=(BECAUSE,))
    assert ended.outcome
    assert ended.outcome.text == BECAUSE.text
    assert ended.reply_by
    assert ended.reply_by.end_reason == reason
    assert len(thread.small.requests) == 1
    assert len(told(ended)) == (
        reason not in ("it did not answer", "it refused to answer", "it gave no answer")
    )
    failed = isinstance(answer, ModelError) or name == "a refusal"
    assert ended.gave_way == ("t/reply" if failed else "")
    assert ended.calls[-1].model == "test/model"
    first = thread.job.list_notes()[0].body
    assert "A race in the test." in first


def test_a_run_that_is_taken_over_goes_on_with_the_same_model(thread: Thread) -> None:
    def die(iteration: int) -> None:
        if iteration == 2:
            raise HandedOver("the worker ends")

    thread.job.on_asking = die
    thread.small.answers = [says("", call("c1"))]
    root = thread.job.list_notes()[0].discussion_id
    comment = thread.job.write_comment(WHY, root)
    with pytest.raises(HandedOver):
        thread.job.run_comment(comment, **thread.parts())
    thread.job.on_asking = lambda iteration: None
    thread.job.script_answers(BECAUSE)
    assert isinstance(thread.job.run_comment(comment, **thread.parts()), Finished)
    ended = thread.job.load_context()
    assert [each.model for each in ended.calls[2:]] == ["t/reply", "test/model"]
    assert len(told(ended)) == 1


def test_a_conversation_that_is_too_long_for_it_is_not_folded_for_it(thread: Thread) -> None:
    thread.small.context_tokens = 10  # the scripted models count ten tokens
    ended = thread.asks(WHY, by_own=(BECAUSE,))
    assert (ended.model, ended.folds, thread.small.requests) == ("test/model", (), [])


# -------------------------------------------------------------------------------- people and tiers


def test_a_tier_may_answer_replies_and_what_was_raised_stays_raised(thread: Thread) -> None:
    thread.rules = TIERS
    ended = thread.asks(WHY, BECAUSE)
    assert ended.tier
    assert (ended.model, ended.tier.tier) == ("t/reply", "smart")
    assert ended.calls[-1].tier == "reply"
    ended = thread.asks("Please check the log.", by_own=(says("Nothing new."),))
    assert ended.tier
    assert (ended.model, ended.tier.tier) == ("test/model", "smart")


@pytest.mark.parametrize("command", ["tier smart", "model smart test/model"])
def test_what_people_have_chosen_answers(thread: Thread, command: str) -> None:
    thread.rules = TIERS
    thread.says(f"/sandpiper {command}")
    ended = thread.asks(WHY, by_own=(BECAUSE,))
    assert (ended.model, thread.small.requests) == ("test/model", [])


def test_a_session_on_the_same_model_and_level_is_answered_as_ever(thread: Thread) -> None:
    thread.rules = replace(TIERS, tier="balanced")
    ended = thread.asks(WHY, BECAUSE)
    assert (ended.model, ended.reply_by) == ("t/reply", None)
    assert thread.small.requests[-1].max_output == 0
