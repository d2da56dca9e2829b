from dataclasses import replace

import pytest

from tests.contexts import answered, call, called, context
from worker.conversation.absorb import absorb_reply
from worker.conversation.context import Outcome, Status
from worker.conversation.decide import Act, Ask, Next, Stop, decide
from worker.conversation.limits import Limits, Spending, TurnUsage, find_budget
from worker.conversation.messages import Assistant, ToolResult, Usage, User
from worker.conversation.model import Reply, StopReason

LIMITS = Limits(max_iterations=10, context_tokens=1000, wall_clock=100.0, cost_usd=1.0)
EVENT = User("event")


def near(name: str, used: float, limit: float) -> Spending:
    return Spending(find_budget(name), used, limit)


def spent(**changes: object) -> TurnUsage:
    return TurnUsage(**({"started_at": 0.0} | changes))  # type: ignore[arg-type]


TRANSCRIPTS: list[tuple[str, tuple[object, ...], Next]] = [
    ("a new session asks", (EVENT,), Ask()),
    (
        "an answer without calls ends it",
        (EVENT, Assistant("why")),
        Stop(Outcome(Status.DONE, "why")),
    ),
    ("calls are run", (EVENT, *called("a", "b")), Act((call("a"), call("b")))),
    ("text beside calls does not end it", (EVENT, Assistant("hm", (call(),))), Act((call(),))),
    (
        "only the calls without results are run",
        (EVENT, *called("a", "b"), ToolResult("a", "look", "{}")),
        Act((call("b"),)),
    ),
    ("after all results the model is asked", (EVENT, *answered("a", "b")), Ask()),
    ("a reply is asked about", (EVENT, Assistant("why"), User("and?")), Ask()),
]


@pytest.mark.parametrize(
    ("messages", "expected"), [row[1:] for row in TRANSCRIPTS], ids=[r[0] for r in TRANSCRIPTS]
)
def test_the_transcript_alone_decides(messages: tuple[object, ...], expected: Next) -> None:
    assert decide(context(*messages), LIMITS, now=1.0) == expected  # type: ignore[arg-type]


BUDGETS: list[tuple[str, TurnUsage, float, Next]] = [
    ("iteration 7 of 10 is quiet", spent(iterations=6), 0, Ask()),
    ("iteration 8 of 10 warns", spent(iterations=7), 0, Ask(soft=(near("iterations", 8, 10),))),
    (
        "a warning is given again",
        spent(iterations=8),
        0,
        Ask(soft=(near("iterations", 9, 10),)),
    ),
    ("iteration 10 of 10 is final", spent(iterations=9), 0, Ask(final=("iterations",))),
    ("79 % of the context is quiet", spent(context_tokens=799), 0, Ask()),
    (
        "80 % of the context warns",
        spent(context_tokens=800),
        0,
        Ask(soft=(near("context", 800, 1000),)),
    ),
    ("a full context is final", spent(context_tokens=1000), 0, Ask(final=("context",))),
    ("80 % of the time warns", spent(), 80, Ask(soft=(near("wall clock", 80, 100),))),
    ("no time left is final", spent(), 100, Ask(final=("wall clock",))),
    ("80 % of the money warns", spent(cost_usd=0.8), 0, Ask(soft=(near("cost", 0.8, 1),))),
    ("no money left is final", spent(cost_usd=1.0), 0, Ask(final=("cost",))),
    ("an unknown price limits nothing", spent(cost_usd=None), 0, Ask()),
    (
        "two budgets warn together",
        spent(iterations=7, context_tokens=900),
        0,
        Ask(soft=(near("iterations", 8, 10), near("context", 900, 1000))),
    ),
    (
        "final drowns soft",
        spent(iterations=7, context_tokens=1000),
        0,
        Ask(final=("context",)),
    ),
    ("an empty answer is nudged", spent(empty_answers=1), 0, Ask(empty=True)),
    (
        "the third empty answer ends it",
        spent(empty_answers=3),
        0,
        Stop(Outcome(Status.FAILED, "", "the model gave no answer, also after two reminders")),
    ),
]


@pytest.mark.parametrize(
    ("used", "now", "expected"), [row[1:] for row in BUDGETS], ids=[r[0] for r in BUDGETS]
)
def test_budgets_have_two_tiers(used: TurnUsage, now: float, expected: Next) -> None:
    assert decide(context(EVENT, *answered("a"), turn_usage=used), LIMITS, now) == expected


def test_after_the_last_iteration_an_empty_answer_ends_with_what_was_said_before() -> None:
    messages = (EVENT, Assistant("the cause may be X", (call(),)), ToolResult("c1", "look", "{}"))
    used = spent(iterations=10, final=frozenset({"iterations"}), empty_answers=1)
    stopped = decide(context(*messages, turn_usage=used), LIMITS, 0)
    assert isinstance(stopped, Stop)
    assert stopped.outcome.status is Status.PARTIAL
    assert stopped.outcome.text == "the cause may be X"


def test_once_final_always_final_also_when_the_budget_would_allow_more() -> None:
    used = spent(iterations=3, final=frozenset({"iterations"}), empty_answers=1)
    asked_again = decide(context(EVENT, *answered("a"), turn_usage=used), LIMITS, 0)
    assert isinstance(asked_again, Ask)
    assert asked_again.final


def test_calls_for_an_answer_to_the_final_request_are_asked_for_once_more_without_tools() -> None:
    used = spent(
        iterations=3, final=frozenset({"wall clock"}), final_was_only_calls=True, empty_answers=1
    )
    assert decide(context(EVENT, *answered("a"), turn_usage=used), LIMITS, 100) == Ask(
        final=("wall clock",), insist=True, empty=True
    )


@pytest.mark.parametrize(("iterations", "asks"), [(10, True), (11, False)])
def test_the_request_that_insists_may_be_one_more_than_the_iterations(
    iterations: int, asks: bool
) -> None:
    final = frozenset({"iterations"})
    used = spent(iterations=iterations, final=final, final_was_only_calls=True, empty_answers=1)
    following = decide(context(EVENT, *answered("a"), turn_usage=used), LIMITS, 0)
    assert isinstance(following, Ask) is asks


def test_a_halted_run_stops_even_with_calls_open() -> None:
    used = spent(halt="the model is down")
    expected = Stop(Outcome(Status.FAILED, "", "the model is down"))
    assert decide(context(EVENT, *called("a"), turn_usage=used), LIMITS, 0) == expected


def test_text_of_an_earlier_turn_is_no_fallback_of_this_one() -> None:
    used = spent(halt="down")
    resumed = context(EVENT, Assistant("old answer"), User("and?"), turn_usage=used, turn_start=2)
    assert decide(resumed, LIMITS, 0) == Stop(Outcome(Status.FAILED, "", "down"))


def test_a_request_counts_and_remembers_that_it_was_final() -> None:
    reply = Reply("hm", (), "", StopReason.END, Usage(7), None)
    asked = absorb_reply(
        context(EVENT, turn_usage=spent()), Ask(soft=(near("cost", 0.8, 1),)), reply, "a/m", ""
    )
    after = asked.turn_usage
    assert not after.final
    assert (after.iterations, after.context_tokens) == (1, 7)
    again = absorb_reply(asked.add(EVENT), Ask(final=("cost",)), reply, "a/m", "")
    assert again.turn_usage.final == {"cost"}


KEPT: list[tuple[str, TurnUsage, tuple[Spending, ...]]] = [
    ("it is seen there", spent(iterations=41, warned_share=0.8), ()),
    ("5 % later", spent(iterations=42, warned_share=0.81), (near("iterations", 43, 50),)),
    ("a little less than 5 % later", spent(iterations=42, warned_share=0.82), ()),
    (
        "another budget",
        spent(iterations=41, cost_usd=0.8, warned_share=0.82),
        (near("iterations", 42, 50), near("cost", 0.8, 1)),
    ),
    ("it was folded away", spent(iterations=41), (near("iterations", 42, 50),)),
]


@pytest.mark.parametrize(("used", "soft"), [row[1:] for row in KEPT], ids=[r[0] for r in KEPT])
def test_a_warning_that_stays_in_the_history_is_not_repeated_with_every_request(
    used: TurnUsage, soft: tuple[Spending, ...]
) -> None:
    used = replace(used, warned_budgets=frozenset({"iterations"}))
    limits = LIMITS.model_copy(update={"max_iterations": 50})
    assert decide(context(EVENT, *answered("a"), turn_usage=used), limits, 0) == Ask(soft=soft)


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        (spent(broken_answers=1), "the model's answer came out broken"),
        (spent(last_was_cut=True), "the model's answer was cut at its length limit"),
        (
            spent(last_was_cut=True, broken_answers=3),
            "the model's answer was cut at its length limit, 3 times in a row",
        ),
    ],
)
def test_a_broken_answer_is_never_done(used: TurnUsage, reason: str) -> None:
    stopped = decide(context(EVENT, Assistant("it may be X"), turn_usage=used), LIMITS, 0)
    assert stopped == Stop(Outcome(Status.PARTIAL, "it may be X", reason))


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_three_broken_answers_without_text_end_the_run(broken: int) -> None:
    used = spent(last_was_cut=True, broken_answers=broken)
    following = decide(context(EVENT, *answered("a"), turn_usage=used), LIMITS, 0)
    assert isinstance(following, Stop if broken == 3 else Ask)
