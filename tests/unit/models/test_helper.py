from dataclasses import replace

import pytest

from tests.fakes import Answer, HandClock, ScriptedModel, says
from worker.conversation.messages import User
from worker.conversation.model import StopReason
from worker.errors import ContextOverflow, ModelError
from worker.models.wrapper import ModelHelper


def ask(answer: Answer) -> tuple[str | None, ScriptedModel]:
    model = ScriptedModel([answer], context_tokens=9000)
    helper = ModelHelper(model, HandClock(50.0), timeout=20.0)
    assert helper.context_tokens == 9000
    said = helper.ask("Summarise.", "the text", 300)
    return said.text if said else None, model


def test_it_asks_once_without_tools_and_with_a_deadline() -> None:
    said, model = ask(says("short"))
    (request,) = model.requests
    assert said == "short"
    assert (request.system, request.messages) == ("Summarise.", (User("the text"),))
    assert (request.tools, request.max_output, request.deadline) == ((), 300, 70.0)


def test_the_answer_says_what_it_cost() -> None:
    helper = ModelHelper(ScriptedModel([says("short", tokens=7)]), HandClock(50.0), 20.0)
    said = helper.ask("t", "x", 10)
    assert said
    assert (said.model, said.usage.input, said.cost_usd) == ("test/model", 7, 0.01)
    assert said.sent_at == 50.0


@pytest.mark.parametrize(
    "answer",
    [
        ModelError("down"),
        ContextOverflow("too long"),
        says(" "),
        replace(says("no"), stop=StopReason.REFUSED),
        replace(says("no"), stop=StopReason.MALFORMED),
    ],
)
def test_no_help_is_no_error(answer: Answer) -> None:
    assert ask(answer)[0] is None


def test_an_answer_that_was_cut_is_an_answer() -> None:
    assert ask(replace(says("half"), stop=StopReason.TRUNCATED))[0] == "half"
