"""Quotes that are not there may be repaired, once, if the budget allows it."""

from dataclasses import replace

import pytest

from tests.contexts import call, context
from tests.fakes import Answer, EchoToolbox, HandClock, ScriptedModel, says
from tests.unit.core.finding.captures import Held
from worker.core.conversation import context_json, prompts, quote_repair
from worker.core.conversation.context import ASKED, Context, Outcome, Status
from worker.core.conversation.limits import Limits
from worker.core.conversation.messages import Assistant, User
from worker.core.finding import Unproven, Verdict, find_unproven, parse_finding
from worker.core.ports.evidence import JobLog
from worker.errors import ModelError
from worker.turns.examination import Examiner
from worker.turns.loop import LoopParts, run_loop

LIMITS = Limits(max_iterations=10, context_tokens=1000, wall_clock=100.0, cost_usd=1.0)
HELD = Held({JobLog(7): "it began\nerror: no such file"})
ANSWER = "## Verdict\nflaky\n## Cause\nA race.\n## Evidence\n{}\n"
TRUE, FALSE = "- job 7 line 2: error: no such file", "- job 7 line 2: error: no such door"
GOOD, BAD = ANSWER.format(TRUE), ANSWER.format(FALSE)
HALF = ANSWER.format(f"{TRUE}\n{FALSE}")


EXAMINER = Examiner(
    find_objections=lambda answer: quote_repair.Objections(
        find_unproven(parse_finding(answer), HELD)
    )
)


class Run:
    """The real driver over a scripted model and held evidence."""

    def __init__(self, *answers: Answer) -> None:
        self.model = ScriptedModel(answers)
        self.checkpoints: list[Context] = []

    def __call__(self, start: Context | None = None, limits: Limits = LIMITS) -> Context:
        parts = LoopParts(
            self.model,
            EchoToolbox(),
            HandClock(0.0),
            self.checkpoints.append,
            lambda event: None,
            EXAMINER,
        )
        return run_loop(start or context(), limits, parts)


def shown(ended: Context) -> tuple[Verdict, list[str], int]:
    assert ended.outcome is not None
    found = quote_repair.make_finding(ended, ended.outcome, HELD, str)
    return found.verdict, [quote.text for quote in found.evidence], found.unproven


def test_a_finding_whose_quotes_are_there_is_asked_nothing() -> None:
    run = Run(says(GOOD))
    assert shown(run()) == (Verdict.FLAKY, ["error: no such file"], 0)
    assert len(run.model.requests) == 1


def test_a_failing_quote_is_shown_with_what_is_there_and_repaired() -> None:
    run = Run(says(BAD), says("Let me look.", call("a")), says(GOOD))
    ended = run()
    repair = ended.messages[2]
    assert isinstance(repair, User)
    assert repair.text.startswith(prompts.REPAIR)
    assert "job 7 line 2: error: no such door" in repair.text
    assert "    2: error: no such file" in repair.text
    assert ended.messages[1] == Assistant(BAD)
    assert shown(ended) == (Verdict.FLAKY, ["error: no such file"], 0)


def test_there_is_no_second_chance() -> None:
    run = Run(says(BAD), says(BAD))
    assert shown(run()) == (Verdict.UNKNOWN, [], 1)


def test_a_run_taken_up_after_a_crash_gives_the_chance_once() -> None:
    whole = Run(says(BAD), says("", call("a")), says(BAD))
    ended = whole()
    for checkpoint in whole.checkpoints:
        stored = context_json.load_context(context_json.dump_context(checkpoint))
        rest = Run(*whole.model.answers[stored.turn_usage.iterations :])
        assert rest(stored).messages == ended.messages


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, max_iterations=1),
        replace(LIMITS, cost_usd=0.005),
        replace(LIMITS, context_tokens=5),
    ],
)
def test_without_budget_there_is_no_chance(limits: Limits) -> None:
    run = Run(says(BAD))
    assert shown(run(limits=limits))[1:] == ([], 1)
    assert len(run.model.requests) == 1


@pytest.mark.parametrize(
    "after",
    [
        (ModelError("down"),),
        (says("I look again.", call("a")), ModelError("down")),
        (says(""), says(""), says("")),
        (says(ANSWER[:20], call("a")), says(ANSWER[:20], call("b"))),
    ],
)
def test_a_chance_that_comes_to_nothing_takes_nothing_away(after: tuple[Answer, ...]) -> None:
    ended = Run(says(HALF), *after)(limits=replace(LIMITS, max_iterations=3))
    assert ended.outcome == Outcome(Status.DONE, HALF)
    assert shown(ended) == (Verdict.FLAKY, ["error: no such file"], 1)


@pytest.mark.parametrize("repaired", [TRUE, f"Here:\n{TRUE}", f"## Evidence\n{TRUE}"])
def test_a_repair_of_nothing_but_quotes_joins_the_finding(repaired: str) -> None:
    ended = Run(says(BAD), says(repaired))()
    assert shown(ended) == (Verdict.FLAKY, ["error: no such file"], 0)


def test_a_repair_of_nothing_but_quotes_corrects_the_line_in_the_first_answers_cause() -> None:
    held = Held({JobLog(7): "\n".join([*"ab", "error: no such file", *"cdefgh", *"ijkl"] * 2)})
    bad = "## Verdict\nflaky\n## Cause\nA race (line 90).\n## Evidence\n{}\n"
    told = bad.format("- job 7 line 90: error: no such file")
    asked = context(User("event"), Assistant(told), User(prompts.REPAIR))
    ended = Outcome(Status.DONE, "- job 7 line 16: error: no such file")
    found = quote_repair.make_finding(asked, ended, held, str)
    assert [quote.line for quote in found.evidence] == [16]
    assert found.cause == "A race (line 16)."


def test_a_repair_that_says_nothing_leaves_the_first_answer() -> None:
    assert shown(Run(says(HALF), says("OK."))()) == (Verdict.FLAKY, ["error: no such file"], 1)


def is_asked(context: Context, outcome: Outcome) -> bool:
    return bool(EXAMINER.examine(context, outcome, LIMITS, 0.0)[1])


def test_a_reply_is_asked_nothing() -> None:
    done = Outcome(Status.DONE, BAD)
    first = context(User("event"), Assistant(BAD))
    assert is_asked(first, done)
    assert not is_asked(replace(first, turn=1), done)
    assert is_asked(replace(first, turn=1, found_by=ASKED), done)
    assert not is_asked(first, Outcome(Status.PARTIAL, BAD))


def test_a_human_cannot_take_the_chance_away() -> None:
    forged = context(User(prompts.REPAIR), Assistant(BAD))
    assert is_asked(forged, Outcome(Status.DONE, BAD))


def test_the_request_is_short_whatever_failed() -> None:
    failed = (Unproven("job 7 line 1", "x" * 200, "not there", ("y" * 200,) * 5),) * 20
    text = prompts.write_repair_request(failed)
    assert len(text) < 12_000
    assert "- and 12 more" in text


def test_a_first_answer_is_redacted_too() -> None:
    ended = Run(says(HALF), says("OK."))()
    assert ended.outcome is not None
    found = quote_repair.make_finding(
        ended, ended.outcome, HELD, lambda text: text.replace("race", "***")
    )
    assert found.cause == "A ***."


LONG = "It waits for the clock " * 20 + "and gives up."


def _objections(answer: str) -> quote_repair.Objections:
    return quote_repair.find_objections(answer, HELD, str, lambda text: ())


def test_a_first_sentence_that_cannot_be_shown_whole_is_asked_for_in_short() -> None:
    wrong = _objections(GOOD.replace("A race.", LONG))
    assert wrong.too_long == ("Cause",)
    assert (
        'The first sentence under "Cause" must stand alone in at most 200'
        in prompts.write_repair_request(wrong.unproven, wrong.kept_back, wrong.too_long)
    )


def test_one_that_is_only_longer_than_asked_for_costs_no_request_of_its_own() -> None:
    longer = LONG[:250] + "."
    assert not _objections(GOOD.replace("A race.", longer))
    assert _objections(BAD.replace("A race.", longer)).too_long == ("Cause",)


def test_a_long_cause_of_short_sentences_is_as_it_should_be() -> None:
    assert not _objections(GOOD.replace("A race.", "A race. " * 60))


FIRST = f"The dot is not escaped,{' and so every line matches it,' * 3} in `a.py` line 3."
SECOND = f"A second failure, in `lint`: the stubs are gone{' since the new release came' * 3}."
PINNED = f"Escape it today at last{', and pin the stubs in `dev.txt`' * 5}."


@pytest.mark.parametrize(
    ("cause", "advice", "crowded"),
    [
        (f"{FIRST} {SECOND}", "Escape it." + " Or wait." * 40, False),
        (f"{FIRST} {SECOND}", f"Escape it{', and pin the stubs in `dev.txt`' * 7}.", True),
        (f"{FIRST} {SECOND}", PINNED, False),
        (f"{FIRST} {SECOND}", f"{PINNED}\n```\nmypy\n```", True),
        (f"{FIRST} It is read for each row. {SECOND} Since then.", "Escape it.", False),
        (f"{FIRST} {FIRST} {FIRST} {SECOND}", "Escape it.", True),
        (f"{FIRST} {FIRST} {FIRST}", "Escape it.", False),
    ],
)
def test_causes_that_do_not_fit_together_are_asked_for_in_short(
    cause: str, advice: str, crowded: bool
) -> None:
    answer = GOOD.replace("A race.", cause) + f"## What to do\n{advice}\n"
    wrong = _objections(answer)
    assert wrong == quote_repair.Objections(is_crowded=crowded)
    assert bool(wrong) is crowded
    abstention = answer.replace("flaky", "not enough evidence")
    assert not _objections(abstention).is_crowded
    run = context().add(Assistant(answer))
    request = quote_repair.ask_for_repair(run, wrong).messages[-1]
    assert isinstance(request, User)
    asked = "cause in one sentence of at most 130 characters, say" in request.text
    assert asked is crowded
    assert request.text.startswith(prompts.REPAIRS) is crowded


def test_a_block_of_code_is_no_part_of_the_first_sentence() -> None:
    block = "x = 1\n" * 100
    advice = f"## What to do\nUse this:\n```suggestion a.py:1\n{block}```\n"
    assert not _objections(GOOD + advice)
