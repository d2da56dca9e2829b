"""A text that is no answer does not end a turn, over every wire."""

import json
from pathlib import Path

import pytest

from tests.flow.product import Product, product
from tests.flow.test_folds import FINDING, WIRES, lead_to
from tests.simulators.anthropic import AnthropicSim
from worker.answer import repair
from worker.answer.gate import TASK
from worker.conversation import context_json
from worker.conversation.context import Context, Outcome, Status
from worker.conversation.messages import User
from worker.lab.script import Answer, Asked, Call, Refuse, Say, Script, Truncated

pytestmark = pytest.mark.usefixtures("bubblewrap")

PROMISE = "I'll start by looking at the log of the failed job."
NEXT = "Next I will check what the change does to the clock."
WRITTEN = '<tool_call>{"name": "browse", "arguments": {"url": "https://x"}}</tool_call>'
"""A call of a tool that nobody has offered: it cannot be made."""

LOOK = Call([("sandbox_exec", {"command": "ls /tmp/data"})])
DUMP = "\n".join(f"2026-11-02T11:04:{at:02} INFO step {at} of the build" for at in range(30))


def say_in_order(*answers: Answer) -> Script:
    """A model that gives these answers, whatever it is asked."""
    left = iter(answers)
    return lambda asked: next(left)


def analyse(made: Product, status: int = 0) -> Context:
    done = made.run("analyze", "northsound/ferrytimes!1")
    assert done.returncode == status, done.stderr
    return read_newest(made)


def read_newest(made: Product) -> Context:
    return context_json.load_context(made.objects("context.json")[-1].read_bytes())


def list_requests(ended: Context) -> list[str]:
    said = (each.text for each in ended.messages if isinstance(each, User))
    return [text for text in said if text.startswith(repair.GATES)]


@pytest.mark.parametrize(
    ("wire", "text"), list(zip(WIRES, [PROMISE, NEXT, DUMP, "Done."], strict=True))
)
def test_a_text_that_is_no_answer_is_asked_on(wire: str, text: str, tmp_path: Path) -> None:
    script = say_in_order(Say(text), LOOK, Say(FINDING))
    with product(tmp_path, script, "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 100_000, "")
        ended = analyse(made)
        assert made.model.unexpected_requests == []
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    assert len(list_requests(ended)) == 1
    assert ended.turn_usage.iterations == 3


def test_a_second_text_that_is_no_answer_is_told_as_what_it_is(tmp_path: Path) -> None:
    with product(tmp_path, say_in_order(Say(PROMISE), Say(WRITTEN)), "memory://") as made:
        ended = analyse(made, status=1)
        (note,) = made.notes()
    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.text) == (Status.FAILED, "")
    assert "model gave no whole answer (it held a tool call written as text" in note.body
    assert "also when it was asked again" in note.body


BABBLE = "The log of the job is long, and so the log of the job is long, and so " * 40


OFF = [Say(WRITTEN)], "model wrote its tool calls as text"
CAUSE = [Say(f"## Verdict\nflaky\n\n## Cause\n{WRITTEN}")], OFF[1]
CUT = [Truncated(BABBLE)] * 3, "was cut at its length limit, 3 times in a row"
REFUSED = [Call(LOOK.calls, "The log of the job is long"), Refuse("no")], "was blocked"
NATIVE = sorted(WIRES.keys() - {"chat"})


@pytest.mark.parametrize(
    ("wire", "gate", "told"),
    [
        *((wire, "off", OFF) for wire in NATIVE),
        (NATIVE[0], "off", CAUSE),
        *((wire, "rules", CUT) for wire in WIRES),
        (NATIVE[1], "rules", REFUSED),
    ],
)
def test_what_the_logs_show_stands_in_place_of_a_text_that_is_no_answer(
    wire: str, gate: str, told: tuple[list[Answer], str], tmp_path: Path
) -> None:
    answers, reason = told
    with product(tmp_path, say_in_order(*answers), "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 100_000, "")
        page = made.folder / "sandpiper.yaml"
        page.write_text(page.read_text() + f"loop: {{gate: {gate}}}\n")
        ended = analyse(made, status=1)
        (note,) = made.notes()
    assert ended.outcome
    assert (ended.outcome.status, ended.outcome.text) == (Status.FAILED, "")
    assert reason in note.body
    assert note.body.count("**No analysis this time.**") == 1
    assert "<summary>What the logs show</summary>" in note.body
    assert "Cause" not in note.body
    assert not any(text in note.body for text in ("tool_call", BABBLE[:70]))


def test_what_is_missing_and_what_is_not_proven_is_asked_for_at_once(tmp_path: Path) -> None:
    lacking = FINDING.partition("## What to do")[0].replace("line 1658: E ", "line 1: F ")
    script = say_in_order(LOOK, Say(lacking), Say(FINDING))
    with product(tmp_path, script, "memory://") as made:
        ended = analyse(made)
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    (request,) = list_requests(ended)
    assert request.startswith(repair.GATE_AND_REPAIR)
    assert "missing, or empty: What to do" in request
    assert repair.REPAIR in request


@pytest.mark.parametrize(
    ("judged", "requests"), [("CONTINUE: name the changed line", 1), ("DONE", 0), ("Well.", 0)]
)
def test_the_helper_judges_what_the_rules_let_pass(
    judged: str, requests: int, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Answer:
        if TASK[:60] in json.dumps(asked.body):
            return Say(judged)
        return Say(FINDING) if asked.answers else LOOK

    with product(tmp_path, answer, "memory://", AnthropicSim) as made:
        made.write_settings("loop: {gate: judge}\nmodels: {helper: anthropic/claude-haiku-4-5}\n")
        ended = analyse(made)
    assert ended.outcome == Outcome(Status.DONE, FINDING)
    assert len(list_requests(ended)) == requests
    assert [call.task for call in ended.calls].count("gate") == 1
    assert all("name the changed line" in each for each in list_requests(ended))


def test_without_a_gate_any_text_ends_the_turn(tmp_path: Path) -> None:
    with product(tmp_path, say_in_order(Say(PROMISE)), "memory://") as made:
        made.write_settings("loop: {gate: off}\n")
        ended = analyse(made)
    assert ended.outcome == Outcome(Status.DONE, PROMISE)


QUESTION = "Two things:\n1. Which line of the log proves it?\n2. Does main fail the same way?"


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_that_leaves_out_a_part_or_promises_is_asked_on(wire: str, tmp_path: Path) -> None:
    whole = "1. Line 1658 of the log proves it.\n2. No: main passes."
    said = [FINDING, "Line 1658 of the log proves it: it compares the windows.", whole]
    script = say_in_order(*map(Say, said))
    with product(tmp_path, script, "memory://", WIRES[wire][0]) as made:
        lead_to(made, wire, 100_000, "")
        first = analyse(made)
        done = made.run("reply", first.session_id, QUESTION)
        assert done.returncode == 0, done.stderr
        ended = read_newest(made)
        assert made.model.unexpected_requests == []
    assert "The message has 2 parts. Answer each of them:" in str(ended.messages)
    assert ended.outcome == Outcome(Status.DONE, whole)
    (request,) = list_requests(ended)
    assert "It leaves out this part of the question: Does main fail the same way?" in request
