"""Quotes that are not there may be repaired, once, if the budget allows it."""

from dataclasses import replace

import pytest

from tests.contexts import call, context
from tests.fakes import Answer, EchoToolbox, HandClock, ScriptedModel, says
from tests.unit.answer.captures import Held
from worker.answer import repair
from worker.answer.parse import parse_finding
from worker.answer.proof import find_unproven
from worker.conversation import context_json
from worker.conversation.context import ASKED, Context, Outcome, Status
from worker.conversation.limits import Limits
from worker.conversation.messages import Assistant, User
from worker.errors import ModelError
from worker.turns.examination import Examiner
from worker.turns.loop import LoopParts, run_loop
from worker.verdict.finding import Evidence, HiddenPart, JobLog, Unproven
from worker.verdict.verdict import Verdict

LIMITS = Limits(max_iterations=10, context_tokens=1000, wall_clock=100.0, cost_usd=1.0)
HELD = Held({JobLog(7): "it began\nerror: no such file"})
ANSWER = "## Verdict\nflaky\n## Cause\nA race.\n## Evidence\n{}\n"
TRUE, FALSE = "- job 7 line 2: error: no such file", "- job 7 line 2: error: no such door"
GOOD, BAD = ANSWER.format(TRUE), ANSWER.format(FALSE)
HALF = ANSWER.format(f"{TRUE}\n{FALSE}")


EXAMINER = Examiner(
    find_objections=lambda context, outcome: repair.Objections(
        find_unproven(parse_finding(outcome.text), HELD)
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
    found = repair.make_finding(ended, ended.outcome, HELD, str)
    return found.verdict, [quote.text for quote in found.evidence], found.unproven


def test_a_finding_whose_quotes_are_there_is_asked_nothing() -> None:
    run = Run(says(GOOD))
    assert shown(run()) == (Verdict.FLAKY, ["error: no such file"], 0)
    assert len(run.model.requests) == 1


def test_a_failing_quote_is_shown_with_what_is_there_and_repaired() -> None:
    run = Run(says(BAD), says("Let me look.", call("a")), says(GOOD))
    ended = run()
    request = ended.messages[2]
    assert isinstance(request, User)
    assert request.text.startswith(repair.REPAIR)
    assert "job 7 line 2: error: no such door" in request.text
    assert "    2: error: no such file" in request.text
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
        LIMITS.model_copy(update={"max_iterations": 1}),
        LIMITS.model_copy(update={"cost_usd": 0.005}),
        LIMITS.model_copy(update={"context_tokens": 5}),
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
    ended = Run(says(HALF), *after)(limits=LIMITS.model_copy(update={"max_iterations": 3}))
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
    asked = context(User("event"), Assistant(told), User(repair.REPAIR))
    ended = Outcome(Status.DONE, "- job 7 line 16: error: no such file")
    found = repair.make_finding(asked, ended, held, str)
    assert [quote.line for quote in found.evidence] == [16]
    assert found.cause == "A race (line 16)."


def test_quotes_none_of_which_proves_the_verdict_are_asked_for_one_that_does() -> None:
    banner = Evidence(JobLog(7), 1, "it began", last=1, lacks="any run prints it")
    captures = Held({JobLog(7): "it began\nerror: no such file"})
    objections = repair.find_objections(
        *(ANSWER.format("- job 7 line 1: it began"), captures, str),
        find_withheld=lambda answer: (),
        context_quotes=(banner,),
    )
    asked = repair.ask_for_repair(context(User("event"), Assistant(BAD)), objections)
    request = asked.messages[-1]
    assert isinstance(request, User)
    assert request.text.startswith(repair.NO_PROOF)
    assert "- job 7 line 1: it began\n  Why it proves nothing: any run prints it." in request.text
    assert "Quote a line that shows the cause" in request.text
    assert request.text.count("Write your whole answer once more") == 1
    assert repair.was_repaired(asked)


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
    forged = context(User(repair.REPAIR), Assistant(BAD))
    assert is_asked(forged, Outcome(Status.DONE, BAD))


def test_the_request_is_short_whatever_failed() -> None:
    failed = (Unproven("job 7 line 1", "x" * 200, "not there", ("y" * 200,) * 5),) * 20
    asked = repair.ask_for_repair(context(Assistant(BAD)), repair.Objections(failed)).messages[-1]
    assert isinstance(asked, User)
    text = asked.text
    assert len(text) < 12_000
    assert "- and 12 more" in text


def test_a_first_answer_is_redacted_too() -> None:
    ended = Run(says(HALF), says("OK."))()
    assert ended.outcome is not None
    found = repair.make_finding(
        ended, ended.outcome, HELD, lambda text: text.replace("race", "***")
    )
    assert found.cause == "A ***."


HIDDEN = (
    HiddenPart("Cause", ("It waits for a clock.",), 180),
    HiddenPart("What to do", ("Or wait.",), 90),
)
LENGTHY = (
    GOOD
    + """\
## What to do
Wait longer. Or wait.
```suggestion a.py:3
wait(9)
```
## Details
It has run twice.
"""
)


def _ask(answer: str, hidden: tuple[HiddenPart, ...] = HIDDEN) -> tuple[str, Context]:
    """The request after such an answer, and the context that ends with it."""
    wrong = repair.find_objections(answer, HELD, str, lambda text: (), hidden)
    asked = repair.ask_for_repair(context(User("event"), Assistant(answer)), wrong)
    assert isinstance(asked.messages[-1], User)
    return asked.messages[-1].text, asked


def test_what_the_note_has_no_room_for_is_asked_for_in_short() -> None:
    request, asked = _ask(LENGTHY)
    assert request.startswith(repair.REPAIRS)
    assert "- Cause: It waits for a clock.\n- What to do: Or wait.\n" in request
    assert 'Write "Cause" and "What to do" again' in request
    assert "room for some 180 characters of Cause and some 90 characters of What to do" in request
    assert "Answer with these sections alone" in request
    assert "several causes" not in request
    assert repair.was_repaired(asked)


def test_an_answer_that_is_all_seen_is_asked_nothing() -> None:
    assert not repair.find_objections(GOOD, HELD, str, lambda text: ())


def test_of_several_causes_each_is_asked_for_in_one_sentence() -> None:
    request, _ = _ask(GOOD.replace("A race.", "A race. A second failure, in `lint`: no stubs."))
    assert "name each in one sentence of at most 130 characters" in request


def test_with_an_unproven_quote_the_whole_answer_is_asked_for() -> None:
    request, _ = _ask(BAD)
    assert "Write your whole\nanswer once more" in request
    assert "- Cause: It waits for a clock." in request
    assert "Answer with these sections alone" not in request


def _join(text: str, answer: str = LENGTHY) -> str:
    _, asked = _ask(answer)
    return repair.join_repair(asked, Outcome(Status.DONE, text)).text


def test_repaired_sections_take_the_place_of_the_first_ones() -> None:
    whole = parse_finding(
        _join("Here:\n## Cause\nA race, short.\n## What to do\nWait.\n## Details\nOr wait.")
    )
    first = parse_finding(LENGTHY)
    assert whole == replace(
        first,
        cause="A race, short.",
        to_do="Wait.\n\n```suggestion a.py:3\nwait(9)\n```",
        details="It has run twice.\n\nOr wait.",
    )


NOTES = "- It has run twice.\n- The clock is shared.\n```\nx = 1\n```"


@pytest.mark.parametrize(
    ("added", "details"),
    [
        (f"{NOTES}\n- Or wait.", f"{NOTES}\n- Or wait."),
        ("- Or wait.\n- it has run  twice.", "- Or wait.\n- it has run  twice."),
        ("* It has run twice.", "* It has run twice."),
        ("- Or wait.\n```\nx = 1\n```", f"{NOTES}\n\n- Or wait.\n```\nx = 1\n```"),
    ],
)
def test_details_that_are_sent_again_are_not_said_twice(added: str, details: str) -> None:
    answer = LENGTHY.replace("It has run twice.", NOTES)
    assert parse_finding(_join(f"## Cause\nA.\n## Details\n{added}", answer)).details == details
    longer = f"{NOTES}\n- Third.\n- Fourth.\n- Fifth."
    text = "## Cause\nA.\n## Details\n- Or wait.\n- Fourth."
    joined = parse_finding(_join(text, answer.replace(NOTES, longer))).details
    assert joined == f"{longer}\n\n- Or wait."


def test_what_fits_once_another_part_is_shorter_need_not_be_written_again() -> None:
    hidden = (replace(HIDDEN[0], fits=True), HiddenPart("What to do", (), 110))
    request, _ = _ask(LENGTHY, hidden)
    assert '- Cause: It waits for a clock.\nWrite "What to do" again' in request
    assert "room for some 110 characters of What to do; Cause fits then as it is." in request


def test_code_that_is_written_again_takes_the_place_of_the_first() -> None:
    block = "```suggestion a.py:3\nwait(8)\n```"
    assert parse_finding(_join(f"## What to do\nWait.\n{block}")).to_do == f"Wait.\n{block}"


def test_what_is_said_with_the_code_stays_with_it() -> None:
    code = "Check: the clock is not shared.\n```suggestion a.py:3\nwait(9)\n```\n"
    answer = LENGTHY.replace("```suggestion a.py:3\nwait(9)\n```\n", code)
    assert parse_finding(_join("## What to do\nWait.", answer)).to_do == f"Wait.\n\n{code}".strip()


def test_quotes_that_a_repair_adds_stand_below_the_first_ones() -> None:
    added = "- job 7 line 1: it began"
    whole = parse_finding(_join(f"## Cause\nA race, short.\n## Evidence\n{added}"))
    assert [each.text for each in whole.evidence] == [
        *(each.text for each in parse_finding(LENGTHY).evidence),
        "it began",
    ]


@pytest.mark.parametrize("text", [GOOD, "OK.", f"## Evidence\n{TRUE}", ""])
def test_a_whole_answer_and_one_without_those_sections_stay_as_they_are(text: str) -> None:
    assert _join(text) == text


def test_without_a_request_nothing_is_joined() -> None:
    run = context(User("event"), Assistant(LENGTHY))
    text = "## Cause\nA race, short."
    assert repair.join_repair(run, Outcome(Status.DONE, text)).text == text
