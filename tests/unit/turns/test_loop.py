import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.contexts import call, context
from tests.fakes import Answer, EchoToolbox, HandClock, ScriptedModel, says
from worker.conversation import context_json, prompts
from worker.conversation.context import Context, Status
from worker.conversation.events import Answered, Asking, Event, ToolRan
from worker.conversation.limits import Limits, LoopRules, Spending, TurnUsage, find_budget
from worker.conversation.messages import Assistant, ToolCall, ToolResult, Usage, User
from worker.conversation.model import StopReason
from worker.errors import ModelError, SandboxLost
from worker.tools.source import Ran
from worker.turns.loop import LoopParts, run_loop

LIMITS = Limits(max_iterations=10, context_tokens=1000, wall_clock=100.0, cost_usd=1.0)
CLOCK_START = 1000.0
NEARLY_FULL = prompts.write_notice([Spending(find_budget("context"), 850, 1000)])


class Run:
    """A run of the real driver over a scripted model."""

    def __init__(self, *answers: Answer, toolbox: EchoToolbox | None = None) -> None:
        self.model = ScriptedModel(answers)
        self.toolbox = toolbox or EchoToolbox()
        self.clock = HandClock(CLOCK_START)
        self.checkpoints: list[Context] = []
        self.events: list[Event] = []
        self.replace_sandbox: Callable[[str], int | None] = lambda error: None

    def __call__(self, start: Context | None = None, limits: Limits = LIMITS) -> Context:
        parts = LoopParts(
            *(self.model, self.toolbox, self.clock, self.checkpoints.append, self.events.append),
            replace_sandbox=self.replace_sandbox,
        )
        begun = start or context(turn_usage=TurnUsage(started_at=CLOCK_START))
        return run_loop(begun, limits, parts)


def outcome(ended: Context) -> tuple[Status, str, str]:
    assert ended.outcome is not None
    return ended.outcome.status, ended.outcome.text, ended.outcome.reason


def test_the_happy_path_ends_with_the_text_and_the_whole_transcript() -> None:
    run = Run(says("", call("a")), says("hm", call("b"), call("c")), says("because"))
    ended = run()
    assert outcome(ended) == (Status.DONE, "because", "")
    assert ended.messages == (
        User("event"),
        Assistant("", (call("a"),)),
        ToolResult("a", "look", "{}"),
        Assistant("hm", (call("b"), call("c"))),
        ToolResult("b", "look", "{}"),
        ToolResult("c", "look", "{}"),
        Assistant("because"),
    )
    assert [number for _, number in run.toolbox.ran] == [0, 1, 2]
    assert ended.turn_usage.iterations == 3


def test_the_request_slides_the_cache_marks_and_keeps_system_and_tools() -> None:
    run = Run(says("", call("a")), says("", call("b")), says("because"))
    run()
    assert [request.marks for request in run.model.requests] == [(0,), (0, 2), (2, 4)]
    assert {request.system for request in run.model.requests} == {"system"}
    assert all(request.tools == context().tools for request in run.model.requests)


def test_a_run_resumed_from_any_checkpoint_gives_the_same_transcript() -> None:
    answers = (says("", call("a")), says("hm", call("b")), says("because"))
    whole = Run(*answers)
    ended = whole()
    for checkpoint in whole.checkpoints:
        stored = context_json.load_context(context_json.dump_context(checkpoint))
        rest = Run(*answers[stored.turn_usage.iterations :])
        assert rest(stored).messages == ended.messages


def test_warnings_ride_on_every_request_near_a_limit_and_are_not_stored() -> None:
    looks = (says("", call(arguments=f'{{"at": {number}}}')) for number in range(19))
    run = Run(*looks, says("because"))
    ended = run(limits=replace(LIMITS, max_iterations=20))
    notices = [request.notice for request in run.model.requests]
    warned = [f"Iteration {number} of 20: finish" for number in (16, 17, 18, 19)]
    assert notices[:15] == [""] * 15
    assert [notice.partition(",")[0] for notice in notices[15:19]] == warned
    assert notices[19].startswith("This is your last iteration.")
    assert all(request.tools_allowed for request in run.model.requests[:19])
    assert not any(isinstance(message, User) for message in ended.messages[1:])


def test_a_warning_ends_when_its_budget_is_no_longer_near_its_limit() -> None:
    run = Run(says("", call("a"), tokens=850), says("", call("b"), tokens=700), says("because"))
    run()
    assert [request.notice for request in run.model.requests] == ["", NEARLY_FULL, ""]


def test_the_final_turn_has_tools_off_and_its_text_is_the_answer() -> None:
    run = Run(says("", call("a"), tokens=1000), says("in short: X", call("b")))
    ended = run()
    final = run.model.requests[-1]
    assert not final.tools_allowed
    assert final.tools
    assert "Tools are switched off" in final.notice
    reason = "stopped at its limit of context"
    assert outcome(ended) == (Status.PARTIAL, "in short: X", reason)
    assert len(run.toolbox.ran) == 1


def test_where_switching_off_costs_the_cache_the_tools_stay_and_no_call_is_run() -> None:
    run = Run(says("", call("a"), tokens=1000), says("in short: X", call("b")))
    run.model.keeps_cache_without_tools = False
    ended = run()
    final = run.model.requests[-1]
    assert final.tools_allowed
    assert final.marks == (0, 1, 2)
    assert "Tools are switched off" in final.notice
    assert outcome(ended)[:2] == (Status.PARTIAL, "in short: X")
    assert [ran.id for ran, _ in run.toolbox.ran] == ["a"]


def test_a_model_that_calls_on_is_asked_once_more_with_the_tools_off() -> None:
    run = Run(says("maybe Y", call("a")), says("", call("b")), says("in short: X"))
    run.model.keeps_cache_without_tools = False
    ended = run(limits=replace(LIMITS, max_iterations=2))
    *_, final, insisting = run.model.requests
    assert (final.tools_allowed, insisting.tools_allowed) == (True, False)
    assert insisting.tools == final.tools
    assert insisting.marks == ()
    assert "None of them was run" in insisting.notice
    assert outcome(ended)[:2] == (Status.PARTIAL, "in short: X")
    assert [ran.id for ran, _ in run.toolbox.ran] == ["a"]
    # What a reply can read is still the final request's entry.
    assert ended.cache is not None
    assert ended.cache.end == 2


def test_a_model_that_never_stops_calling_gets_one_request_more_and_no_tool() -> None:
    run = Run(*(says("", call(name)) for name in "abcdef"))
    run.model.keeps_cache_without_tools = False
    ended = run(limits=replace(LIMITS, max_iterations=3))
    assert len(run.model.requests) == 4
    assert [ran.id for ran, _ in run.toolbox.ran] == ["a", "b"]
    assert outcome(ended)[0] is Status.FAILED


def test_the_last_iteration_is_final_and_no_request_follows_it() -> None:
    run = Run(says("maybe Y", call("a")), says("", call("b")), says(""))
    ended = run(limits=replace(LIMITS, max_iterations=3))
    assert len(run.model.requests) == 3
    status, text, reason = outcome(ended)
    assert (status, text) == (Status.PARTIAL, "maybe Y")
    assert "iterations" in reason


def test_empty_answers_are_nudged_twice_with_tools_on_then_given_up() -> None:
    run = Run(says(""), says("  "), says(""))
    ended = run()
    nudges = [request.notice for request in run.model.requests]
    assert nudges == [
        "",
        prompts.write_notice(is_empty=True),
        prompts.write_notice(is_empty=True),
    ]
    assert all(request.tools_allowed for request in run.model.requests)
    assert outcome(ended)[0] is Status.FAILED
    assert ended.messages == (User("event"),)


def test_a_model_that_is_down_keeps_what_was_found() -> None:
    run = Run(says("it is likely Z", call("a")), ModelError("test: 401: key refused"))
    assert outcome(run()) == (Status.PARTIAL, "it is likely Z", "test: 401: key refused")


def test_a_lost_sandbox_ends_the_run_and_is_no_tool_result() -> None:
    lost = EchoToolbox(fails=lambda call: SandboxLost("killed") if call.id == "b" else None)
    ended = Run(says("", call("a"), call("b")), toolbox=lost)()
    assert outcome(ended)[2] == "the sandbox was lost: killed"
    assert [m.call_id for m in ended.messages if isinstance(m, ToolResult)] == ["a"]


@dataclass
class Mortal(EchoToolbox):
    """Its sandbox dies once at each call named in `deadly`; `run` is a command.

    With `has_run` false it had never started.
    """

    deadly: set[str] = field(default_factory=set)
    has_run: bool = True

    def is_repeatable(self, call: ToolCall) -> bool:
        return call.name != "run"

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for ran in super().run(calls, first):
            if ran.result.call_id in self.deadly:
                self.deadly.discard(ran.result.call_id)
                raise SandboxLost("killed", has_run=self.has_run)
            saved = json.dumps({"saved_to": f"/tmp/data/{ran.result.call_id}"})
            yield replace(ran, result=replace(ran.result, content=saved))


def test_a_lost_sandbox_is_replaced_and_what_only_reads_is_made_again() -> None:
    tools = Mortal(deadly={"b"})
    run = Run(says("", call("a"), call("b"), call("c")), says("because"), toolbox=tools)
    run.replace_sandbox = {"killed": 0}.get
    ended = run()
    assert outcome(ended)[0] is Status.DONE
    assert [made.id for made, _ in tools.ran] == ["a", "b", "a", "b", "c"]
    assert [number for _, number in tools.ran] == [0, 1, 0, 1, 2]
    assert [m.call_id for m in ended.messages if isinstance(m, ToolResult)] == ["a", "b", "c"]


def test_a_command_that_the_sandbox_died_of_is_not_run_again() -> None:
    tools = Mortal(deadly={"b"})
    run = Run(says("", call("a"), call("b", "run")), says("because"), toolbox=tools)
    run.replace_sandbox = lambda error: 0
    ended = run()
    assert [made.id for made, _ in tools.ran] == ["a", "b", "a"]
    (_, lost) = [m for m in ended.messages if isinstance(m, ToolResult)]
    assert "the sandbox died while this ran" in lost.content
    assert lost.is_error


def test_a_command_is_run_in_another_sandbox_if_the_first_one_never_started() -> None:
    tools = Mortal(deadly={"a"}, has_run=False)
    run = Run(says("", call("a", "run")), says("because"), toolbox=tools)
    run.replace_sandbox = lambda error: 0
    ended = run()
    assert [made.id for made, _ in tools.ran] == ["a", "a"]
    (result,) = [m for m in ended.messages if isinstance(m, ToolResult)]
    assert not result.is_error


def test_documents_that_were_saved_are_not_fetched_again() -> None:
    tools = Mortal(deadly={"c"})
    looks = [says("", call(name, "look", f'{{"at": "{name}"}}')) for name in "abc"]
    run = Run(*looks, says("because"), toolbox=tools)
    run.replace_sandbox = lambda error: 3
    run()
    assert [made.id for made, _ in tools.ran] == ["a", "b", "c", "b", "c"]


def test_a_sandbox_that_cannot_be_replaced_ends_the_run() -> None:
    run = Run(says("", call("a")), toolbox=Mortal(deadly={"a"}))
    assert outcome(run())[2] == "the sandbox was lost: killed"


def test_the_model_gets_what_is_left_of_the_time_and_a_grace_for_its_last_words() -> None:
    run = Run(says("because"))
    run(context(turn_usage=TurnUsage(started_at=CLOCK_START - 30)))
    assert run.model.requests[0].deadline == CLOCK_START + 70 + 120


def test_once_the_time_is_used_up_the_other_calls_of_an_answer_are_not_run() -> None:
    run = Run(says("", *(call(str(number)) for number in range(9))), says("in short: X"))

    def take_a_while(made: ToolCall) -> None:
        run.clock.sleep(40.0)

    run.toolbox.fails = take_a_while
    ended = run()
    assert [made.id for made, _ in run.toolbox.ran] == ["0", "1", "2"]
    *_, last, _ = ended.messages
    assert isinstance(last, ToolResult)
    assert last.call_id == "8"
    assert last.is_error
    assert "the time of this turn is used up" in last.content
    reason = "stopped at its limit of wall clock"
    assert outcome(ended) == (Status.PARTIAL, "in short: X", reason)


def test_the_last_cache_mark_and_its_time_are_kept_for_a_reply() -> None:
    ended = Run(says("", call("a")), says("because"))()
    assert ended.cache is not None
    assert (ended.cache.position, ended.cache.sent_at) == (2, CLOCK_START)


def test_a_reply_within_the_cache_s_lifetime_reads_where_the_last_turn_wrote() -> None:
    first = Run(says("", call("a")), says("because"))
    ended = first()
    for pause, marks in ((299.0, (2, 4)), (300.0, (4,))):
        again = Run(says("also"))
        again.clock.time = CLOCK_START + pause
        resumed = replace(
            ended.add(User("and?")),
            turn_usage=TurnUsage(started_at=again.clock.time),
            turn_start=len(ended.messages),
            outcome=None,
        )
        again(resumed)
        assert again.model.requests[0].marks == marks


def test_a_notice_stays_when_the_model_signed_its_thinking_under_it() -> None:
    thought = replace(says("", call("b"), tokens=900), thought=True)
    run = Run(says("", call("a"), tokens=850), thought, says("because"))
    run.model.binds_thinking = True
    ended = run()
    assert User(run.model.requests[1].notice) in ended.messages


def test_the_watcher_sees_every_iteration_as_it_happens() -> None:
    run = Run(says("", call("a")), says("because"))
    run()
    kinds = [type(event) for event in run.events]
    assert kinds == [Asking, Answered, ToolRan, Asking, Answered]


def test_cost_and_tokens_add_up_over_the_turn() -> None:
    ended = Run(says("", call("a")), says("because"))()
    assert ended.turn_usage.usage == Usage(uncached_input=20, output=2)
    assert ended.turn_usage.cost_usd == 0.02


def test_the_same_calls_again_and_again_get_a_hint_then_end_the_run() -> None:
    same = [says("stuck", call(f"c{number}")) for number in range(6)]
    run = Run(*same)
    ended = run()
    assert [made.id for made, _ in run.toolbox.ran] == ["c0", "c1"]
    hints = [m for m in ended.messages if isinstance(m, ToolResult) and m.is_error]
    assert [hint.call_id for hint in hints] == ["c2", "c3"]
    assert "nothing has changed" in hints[0].content
    assert outcome(ended) == (
        Status.PARTIAL,
        "stuck",
        "the model made the same calls 5 times in a row",
    )


def test_three_cut_answers_in_a_row_end_with_what_there_is() -> None:
    cut = replace(says("the cause is the lo"), stop=StopReason.TRUNCATED)
    run = Run(cut, replace(cut, text="", dropped_calls=1), cut)
    ended = run()
    reason = "the model's answer was cut at its length limit, 3 times in a row"
    assert outcome(ended) == (Status.PARTIAL, "the cause is the lo", reason)
    assert not any(request.notice for request in run.model.requests)
    sent = [str(request.messages[-1]) for request in run.model.requests]
    assert ["cut at its length" in text for text in sent] == [False, True, True]
    assert ["in pieces" in text for text in sent] == [False, False, True]


def test_after_a_cut_or_broken_answer_a_whole_one_is_done() -> None:
    cut = replace(says("the cau"), stop=StopReason.TRUNCATED)
    broken = replace(says("the"), stop=StopReason.MALFORMED)
    assert outcome(Run(cut, broken, cut, cut)())[0] is Status.PARTIAL
    assert outcome(Run(cut, broken, says("because"))()) == (Status.DONE, "because", "")
    assert outcome(Run(cut, cut, says("", call("a")), cut, says("because"))())[0] is Status.DONE


def test_a_cut_final_answer_is_not_asked_for_again() -> None:
    run = Run(replace(says("in short: X"), stop=StopReason.TRUNCATED))
    ended = run(limits=replace(LIMITS, max_iterations=1))
    assert outcome(ended)[:2] == (Status.PARTIAL, "in short: X")
    assert len(run.model.requests) == 1


def test_an_empty_answer_does_not_eat_the_warning() -> None:
    run = Run(says("", call("a"), tokens=850), says("", tokens=850), says("because"))
    run()
    assert run.model.requests[1].notice == NEARLY_FULL
    assert run.model.requests[2].notice.startswith(NEARLY_FULL)


def rules(**changes: Any) -> Limits:
    return replace(LIMITS, loop_rules=replace(LoopRules(), **changes))


@pytest.mark.parametrize(("hint_at", "stop_at"), [(2, 3), (3, 8), (6, 7)])
def test_the_operator_says_how_often_the_same_calls_may_be_made(hint_at: int, stop_at: int) -> None:
    run = Run(*(says("stuck", call(f"c{number}")) for number in range(9)))
    ended = run(limits=rules(hint_at=hint_at, stop_at=stop_at))
    hints = [m for m in ended.messages if isinstance(m, ToolResult) and m.is_error]
    assert len(run.toolbox.ran) == hint_at - 1
    assert len(hints) == stop_at - hint_at
    assert outcome(ended)[2] == f"the model made the same calls {stop_at} times in a row"


@pytest.mark.parametrize(("retries", "told"), [(0, ""), (1, ", also after a reminder")])
def test_the_operator_says_how_often_an_empty_answer_is_asked_for_again(
    retries: int, told: str
) -> None:
    run = Run(*[says("")] * 3)
    ended = run(limits=rules(empty_retries=retries))
    assert len(run.model.requests) == retries + 1
    assert outcome(ended) == (Status.FAILED, "", f"the model gave no answer{told}")


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_operator_says_how_many_broken_answers_end_the_run(most: int) -> None:
    cut = replace(says("the cause is the lo"), stop=StopReason.TRUNCATED)
    run = Run(*[cut] * 6)
    assert outcome(run(limits=rules(broken_answers=most)))[0] is Status.PARTIAL
    assert len(run.model.requests) == most


def test_the_operator_says_how_many_calls_one_answer_may_have() -> None:
    run = Run(says("", call("a"), call("b"), call("c")), says("", call("d")), says("because"))
    assert outcome(run(limits=rules(calls_per_answer=2)))[0] is Status.DONE
    assert [made.id for made, _ in run.toolbox.ran] == ["d"]
    assert "3 tool calls, and at most 2 are allowed" in str(run.model.requests[1].messages[-1])


def test_the_operator_says_how_long_the_final_answer_may_take() -> None:
    run = Run(says("because"))
    run(limits=rules(final_grace=7.0))
    assert run.model.requests[0].deadline == CLOCK_START + LIMITS.wall_clock + 7.0


def test_calls_that_take_turns_get_a_hint_then_end_the_run() -> None:
    turns = [says("stuck", call(f"c{n}", "look", f'{{"at": {n % 2}}}')) for n in range(20)]
    run = Run(*turns)
    ended = run()
    assert len(run.toolbox.ran) == 5
    assert len(run.model.requests) == 10
    assert outcome(ended)[0] is Status.PARTIAL


def test_after_one_refusal_of_bound_thinking_no_request_sends_it_again() -> None:
    signed = replace(says("", call("a")), wire="[1]")
    run = Run(signed, replace(says("", call("b")), wire="[2]", bare=True), says("because"))
    run()
    last = run.model.requests[-1].messages
    wires = [
        message.wire.content for message in last if isinstance(message, Assistant) and message.wire
    ]
    assert wires == ["[2]"]
