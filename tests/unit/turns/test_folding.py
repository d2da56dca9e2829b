"""The driver keeps a conversation inside its window, whatever the provider says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.contexts import call, context
from tests.fakes import EchoToolbox, HandClock, MemorySandbox, says
from worker.conversation import context_json
from worker.conversation.context import CallCost, Context, Status
from worker.conversation.folds import TITLES, FoldKind
from worker.conversation.limits import Limits, TurnUsage
from worker.conversation.messages import Assistant, Message, ToolResult, Usage, User, WireForm
from worker.conversation.model import HelperAnswer, Reply, Request
from worker.errors import ContextOverflow
from worker.settings.runs import ContextSettings, Resume, Strategy
from worker.turns.loop import LoopParts, run_loop
from worker.turns.sandbox import FoldedResults

START = 1000.0
FINDING = "## Cause\nThe needle."
OUTPUT = "x" * 1500


def count_tokens(request: Request) -> int:
    """What the strict model counts: a token for four bytes, and four for each message."""
    texts = [request.system, request.notice]
    for message in request.messages:
        texts.append(message.content if isinstance(message, ToolResult) else message.text)
        if isinstance(message, Assistant):
            texts += [made.name + made.arguments for made in message.calls]
    return sum(len(text.encode()) // 4 + 4 for text in texts) + 50


@dataclass
class StrictModel:
    """Refuses what is longer than its `window`, and calls whose results stand elsewhere.

    It makes `steps` calls, then answers. `states` says whether a refusal names the window.
    """

    window: int
    steps: int
    states: bool = True
    told_window: int = 10**6
    name: str = "test/model"
    binds_thinking: bool = False
    keeps_cache_without_tools: bool = True
    requests: list[Request] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    made: int = 0

    @property
    def context_tokens(self) -> int:
        return self.told_window

    def reply(self, request: Request) -> Reply:
        check_order(request.messages)
        size = count_tokens(request)
        if size > self.window:
            self.refused.append(size)
            raise ContextOverflow("too long", limit=self.window if self.states else 0)
        self.requests.append(request)
        if self.made == self.steps or not request.tools_allowed:
            return replace(says(FINDING), usage=Usage(size, output=5))
        self.made += 1
        asked = call(f"c{self.made}", arguments=json.dumps({"n": self.made, "text": OUTPUT}))
        return replace(says("", asked), usage=Usage(size, output=5))


def check_order(messages: Sequence[Message]) -> None:
    """Every call has its result in the messages right after it, and no result stands alone."""
    open_calls: set[str] = set()
    assert isinstance(messages[0], User)
    for message in messages:
        if isinstance(message, ToolResult):
            open_calls.remove(message.call_id)
            continue
        assert not open_calls
        if isinstance(message, Assistant):
            open_calls = {made.id for made in message.calls}
    assert not open_calls


@dataclass
class Teller:
    """A helper that says what it is told to say; None is no answer."""

    answers: list[str | None]
    asked: list[str] = field(default_factory=list)
    context_tokens: int = 40_000

    def ask(self, task: str, text: str, max_tokens: int) -> HelperAnswer | None:
        self.asked.append(text)
        said = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if said is None:
            return None
        return HelperAnswer(said, Usage(100, output=10), 0.001, "test/helper")


@dataclass
class Run:
    """A run of the real driver with a strict model."""

    model: StrictModel
    limits: Limits
    helper: Teller | None = None
    clock: HandClock = field(default_factory=lambda: HandClock(START))
    sandbox: MemorySandbox = field(default_factory=MemorySandbox)
    checkpoints: list[Context] = field(default_factory=list)

    def __call__(self, start: Context | None = None) -> Context:
        parts = LoopParts(
            *(self.model, EchoToolbox(), self.clock, self.checkpoints.append, lambda event: None),
            prepare_tools=FoldedResults(self.sandbox).write_missing,
            helper=self.helper,
        )
        begun = start or context(turn_usage=TurnUsage(started_at=START))
        return run_loop(begun, self.limits, parts)


def limits(strategy: Strategy | None, *, tokens: int = 20_000, **settings: object) -> Limits:
    folding = ContextSettings(strategy=strategy, **settings)  # type: ignore[arg-type]
    return Limits.model_construct(
        max_iterations=10_000, context_tokens=tokens, wall_clock=1e9, cost_usd=1e9, context=folding
    )


SUMMARY = "\n".join(f"## {title}\n- nothing" for title in TITLES)


@pytest.mark.parametrize("strategy", [each for each in Strategy if each is not Strategy.NONE])
def test_a_long_session_is_never_refused(strategy: Strategy) -> None:
    steps = 25 if strategy is Strategy.PRUNE else 200
    run = Run(StrictModel(20_000, steps), limits(strategy), Teller([SUMMARY]))
    ended = run()
    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.text) == (Status.DONE, FINDING)
    assert run.model.refused == []
    assert ended.folds
    assert len(ended.messages) == 1 + 2 * steps + 1
    assert max(map(count_tokens, run.model.requests)) <= 20_000 * 0.85


@pytest.mark.slow
def test_pruning_goes_on_until_it_saves_too_little_and_then_messages_are_left_out() -> None:
    model = StrictModel(20_000, steps=400)
    ended = Run(model, limits(Strategy.PRUNE))()
    kinds = [fold.kind for fold in ended.folds]

    assert FoldKind.PRUNE in kinds[: kinds.index(FoldKind.SUMMARY)]
    assert {fold.limit for fold in ended.folds if fold.kind is FoldKind.PRUNE} == {200, 0}
    assert model.refused == []


def test_without_a_strategy_a_wide_window_is_not_folded() -> None:
    run = Run(StrictModel(100_000, 120), limits(None, tokens=100_000))
    assert run().folds == ()
    narrow = Run(StrictModel(20_000, 120), limits(None))
    assert narrow().folds


def test_what_a_run_sends_only_grows_between_two_folds() -> None:
    run = Run(StrictModel(20_000, 60), limits(Strategy.SUMMARY))
    ended = run()
    changes = 0
    for before, after in zip(run.model.requests, run.model.requests[1:], strict=False):
        changes += after.messages[: len(before.messages)] != before.messages
    # Several folds may be made before one request.
    assert changes == len({fold.made_at for fold in ended.folds})


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.PRUNE, Strategy.WINDOW, Strategy.SUMMARY])
def test_a_run_that_is_killed_anywhere_sends_the_same(strategy: Strategy) -> None:
    steps = 25 if strategy is Strategy.PRUNE else 40
    whole = Run(StrictModel(20_000, steps), limits(strategy))
    whole()
    sent = [request.messages for request in whole.model.requests]
    for checkpoint in whole.checkpoints:
        stored = context_json.load_context(context_json.dump_context(checkpoint))
        assert stored == checkpoint
        done = stored.turn_usage.iterations
        rest = Run(StrictModel(20_000, steps, made=done), limits(strategy))
        rest(stored)
        assert [request.messages for request in rest.model.requests] == sent[done:]


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("strategy", [None, *Strategy])
def test_a_refused_request_is_made_once_more_after_a_fold(
    strategy: Strategy | None, states: bool
) -> None:
    """The catalogue says one million, the server takes 10,000."""
    run = Run(StrictModel(10_000, 24, states), limits(strategy, tokens=10**6))
    ended = run()
    assert ended.outcome
    assert ended.outcome.text == FINDING
    # Without a strategy that leaves messages out, each refusal is met as it comes.
    folds_ahead = strategy not in {Strategy.NONE, Strategy.PRUNE}
    assert len(run.model.refused) == 1 if folds_ahead else 1 <= len(run.model.refused) <= 3
    assert ended.turn_usage.window <= 10_000


def test_one_message_that_is_larger_than_the_window_is_cut() -> None:
    event = User("event " * 20_000)
    start = context(event, turn_usage=TurnUsage(started_at=START))
    run = Run(StrictModel(10_000, 2), limits(None, tokens=10**6))
    ended = run(start)
    assert ended.outcome
    assert ended.outcome.status is Status.DONE
    assert [fold.kind for fold in ended.folds] == [FoldKind.CUT]
    assert ended.messages[0] == event
    assert "[cut: " in str(run.model.requests[0].messages[0])


def test_a_request_that_is_refused_again_ends_the_run_with_the_providers_words() -> None:
    run = Run(StrictModel(10, 3), limits(None, tokens=10**6))
    ended = run(context(User("a" * 4000), turn_usage=TurnUsage(started_at=START)))
    assert ended.outcome
    assert ended.outcome.status is Status.FAILED
    assert ended.outcome.reason == "too long"
    assert len(run.model.refused) <= 2


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("window", [10_000, 1500, 500])
def test_what_weighs_less_with_us_than_with_the_provider_is_cut_until_it_fits(
    window: int, states: bool
) -> None:
    """A blank weighs a twentieth of a token with us, and a quarter with the strict model."""
    start = context(User(" " * 400_000), turn_usage=TurnUsage(started_at=START))
    run = Run(StrictModel(window, 0, states), limits(None, tokens=10**6))
    ended = run(start)
    assert ended.outcome
    assert ended.outcome.status is Status.DONE
    cuts = [fold.limit for fold in ended.folds]
    assert {fold.kind for fold in ended.folds} == {FoldKind.CUT}
    assert cuts == sorted(set(cuts), reverse=True)
    assert len(run.model.refused) == len(cuts) <= 5
    assert run.model.refused == sorted(run.model.refused, reverse=True)


@pytest.mark.parametrize("states", [True, False])
def test_a_refused_run_that_is_killed_anywhere_sends_the_same(states: bool) -> None:
    whole = Run(StrictModel(10_000, 24, states), limits(None, tokens=10**6))
    whole()
    sent = [request.messages for request in whole.model.requests]
    assert any(each.turn_usage.refused_tokens > 10_000 for each in whole.checkpoints)
    for checkpoint in whole.checkpoints:
        stored = context_json.load_context(context_json.dump_context(checkpoint))
        assert stored == checkpoint
        done = stored.turn_usage.iterations
        rest = Run(StrictModel(10_000, 24, states, made=done), limits(None, tokens=10**6))
        rest(stored)
        assert [request.messages for request in rest.model.requests] == sent[done:]


def test_the_operator_says_what_is_left_of_a_message_that_is_cut() -> None:
    start = context(User("event " * 20_000), turn_usage=TurnUsage(started_at=START))
    shares = {0.25: 23_625, 0.5: 47_250}
    for share, left in shares.items():
        run = Run(StrictModel(30_000, 0), limits(None, tokens=30_000, cut_share=share))
        assert [fold.limit for fold in run(start).folds] == [left]
    run = Run(StrictModel(30_000, 0), limits(None, tokens=30_000, cut_share=0.01, cut_least=5000))
    assert [fold.limit for fold in run(start).folds] == [5000]


def test_folded_results_lie_in_files_before_the_next_call() -> None:
    run = Run(StrictModel(20_000, 40), limits(Strategy.WINDOW))
    ended = run()
    assert ended.folds
    hidden = max(fold.upto for fold in ended.folds)
    results = [each for each in ended.messages if isinstance(each, ToolResult)]
    count = sum(isinstance(each, ToolResult) for each in ended.messages[:hidden])
    for number in range(count):
        assert run.sandbox.files[f"/tmp/_out/{number}.txt"].decode() == results[number].content


def test_a_new_sandbox_gets_the_files_of_earlier_folds() -> None:
    whole = Run(StrictModel(20_000, 25), limits(Strategy.PRUNE))
    whole()
    folded = next(each for each in whole.checkpoints if each.folds)
    rest = Run(StrictModel(20_000, 25, made=folded.turn_usage.iterations), limits(Strategy.PRUNE))
    rest(folded)
    assert "/tmp/_out/0.txt" in rest.sandbox.files


def summary_of(facts: str) -> str:
    return SUMMARY.replace("## Facts\n- nothing", f"## Facts\n{facts}")


@pytest.mark.parametrize(
    ("said", "believed"),
    [
        (summary_of("- fine"), True),
        (None, False),
        ("I'd rather not.", False),
        (summary_of("- job 4711 failed in src/gone.py:3\n- job 4712 too"), False),
    ],
    ids=["good", "no answer", "no sections", "places that nobody has seen"],
)
def test_a_summary_that_cannot_be_believed_is_replaced_by_a_digest(
    said: str | None, believed: bool
) -> None:
    run = Run(StrictModel(20_000, 40), limits(Strategy.SUMMARY), Teller([said]))
    ended = run()
    text = next(fold.text for fold in ended.folds if fold.leaves_out)
    assert ("made by another model" in text) is believed
    assert ("put together from them by rules" in text) is not believed
    assert ("job 4711" in text) is False


def test_a_summary_is_updated_by_the_next_one() -> None:
    teller = Teller([summary_of("- the first fact"), summary_of("- the second fact")])
    run = Run(StrictModel(20_000, 120), limits(Strategy.SUMMARY), teller)
    ended = run()
    assert len(teller.asked) > 1
    assert "the first fact" in teller.asked[1]
    told = [fold for fold in ended.folds if fold.leaves_out]
    assert len({fold.start for fold in told}) == 1
    assert [fold.upto for fold in told] == sorted({fold.upto for fold in told})


def test_helper_calls_count_in_the_costs_and_not_in_the_iterations() -> None:
    run = Run(StrictModel(20_000, 40), limits(Strategy.SUMMARY), Teller([SUMMARY]))
    ended = run()
    helped = [made for made in ended.calls if made.task]
    assert {made.task for made in helped} == {"summary"}
    assert ended.turn_usage.iterations == 41
    assert ended.cost_usd == pytest.approx(0.01 * 41 + 0.001 * len(helped))


def test_a_summary_in_parts_asks_for_each_and_for_the_whole() -> None:
    teller = Teller([SUMMARY], context_tokens=20_000)
    run = Run(StrictModel(80_000, 120), limits(Strategy.RECURSIVE, tokens=80_000), teller)
    run()
    assert len(teller.asked) >= 3
    assert all(len(text) <= 42_000 for text in teller.asked)


def replied(last_sent_at: float, *, wire: WireForm | None = None) -> Context:
    """A reply to a session of many results, whose last request was sent `last_sent_at`."""
    messages: list[Message] = [User("event")]
    for number in range(40):
        answer = Assistant("", (call(f"c{number}"),), wire)
        messages += [answer, ToolResult(f"c{number}", "look", OUTPUT)]
    messages += [Assistant(FINDING), User("why?")]
    cost = CallCost(0, "test/model", Usage(15_000), 0.1, last_sent_at, 1.0, len(messages) - 2)
    return context(
        *messages,
        turn_usage=TurnUsage(started_at=START),
        turn=1,
        turn_start=len(messages) - 1,
        calls=(cost,),
    )


def test_a_reply_whose_cache_is_cold_begins_with_a_fold() -> None:
    run = Run(StrictModel(100_000, 0), limits(None, tokens=100_000))
    ended = run(replied(START - 6 * 3600))
    assert [fold.kind for fold in ended.folds] == [FoldKind.PRUNE]
    assert count_tokens(run.model.requests[0]) < 8000
    assert run.model.requests[0].messages[-1] == User("why?")


def test_a_reply_within_the_caches_life_is_sent_as_it_stands() -> None:
    run = Run(StrictModel(100_000, 0), limits(None, tokens=100_000))
    start = replied(START - 200)
    assert run(start).folds == ()
    assert run.model.requests[0].messages == start.messages


def test_a_reply_is_sent_as_it_stands_where_operators_say_so() -> None:
    run = Run(StrictModel(100_000, 0), limits(None, tokens=100_000, resume=Resume.NONE))
    assert run(replied(0.0)).folds == ()


def test_verbatim_answers_go_where_they_are_bound_to_what_stood_before() -> None:
    wire = WireForm("test/model", '[{"type":"thinking"}]')
    for bound in (True, False):
        run = Run(StrictModel(100_000, 0, binds_thinking=bound), limits(None, tokens=100_000))
        ended = run(replied(0.0, wire=wire))
        sent = [each for each in run.model.requests[0].messages if isinstance(each, Assistant)]
        assert any(each.wire for each in sent) is not bound
        assert ended.messages[1] == Assistant("", (call("c0"),), wire)


def test_the_question_of_a_long_reply_stays() -> None:
    start = replied(START - 10)
    run = Run(StrictModel(30_000, 100), limits(Strategy.WINDOW, tokens=30_000))
    run(start)
    assert all(User("why?") in request.messages for request in run.model.requests)


@pytest.mark.parametrize("keep_first", [1, 2, 3, 4])
@pytest.mark.parametrize("strategy", [Strategy.PRUNE, Strategy.WINDOW, Strategy.SUMMARY])
def test_as_many_first_messages_as_the_setting_says_stay_as_they_are(
    strategy: Strategy, keep_first: int
) -> None:
    steps = 25 if strategy is Strategy.PRUNE else 40
    run = Run(StrictModel(20_000, steps), limits(strategy, keep_first=keep_first))
    ended = run()
    last = run.model.requests[-1].messages

    assert ended.folds
    assert run.model.refused == []
    assert last[:keep_first] == ended.messages[:keep_first]
    # A call that stays may keep its result whole; no other result stays.
    later = ended.messages[keep_first + 1 : keep_first + 3]
    assert not any(isinstance(each, ToolResult) and each in last for each in later)


@pytest.mark.parametrize("resume", [Resume.PRUNE, Resume.SUMMARY])
def test_first_messages_that_are_kept_stay_in_a_reply_too(resume: Resume) -> None:
    run = Run(StrictModel(100_000, 0), limits(None, tokens=100_000, resume=resume, keep_first=5))
    ended = run(replied(0.0))
    sent = run.model.requests[0].messages

    assert ended.folds
    assert sent[:5] == ended.messages[:5]
    assert ended.messages[5:8] not in [sent[at : at + 3] for at in range(len(sent))]
