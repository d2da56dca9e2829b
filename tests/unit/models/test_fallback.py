from dataclasses import replace

import pytest

from tests.contexts import context
from tests.fakes import HandClock, ScriptedModel, says
from worker.conversation.model import Request, StopReason
from worker.errors import SILENT, ContextOverflow, ModelError
from worker.models.wrapper import FallbackModel

REQUEST = Request("system", (), context().messages)


def model(name: str, *answers: object, window: int = 1000) -> ScriptedModel:
    return ScriptedModel(answers, name=name, context_tokens=window)  # type: ignore[arg-type]


def chain(*models: ScriptedModel) -> FallbackModel:
    return FallbackModel(models, HandClock())


def test_the_first_model_answers_as_long_as_it_can() -> None:
    first, second = model("a/1", says("one"), says("two")), model("b/2")
    both = chain(first, second)
    assert [both.reply(REQUEST).text, both.reply(REQUEST).text] == ["one", "two"]
    assert (both.name, second.requests) == ("a/1", [])


def test_when_it_is_down_the_same_request_goes_to_the_next_and_stays_there() -> None:
    first = model("a/1", says("one"), ModelError("a: 529"))
    second = model("b/2", says("two"), says("three"))
    both = chain(first, second)
    assert [both.reply(REQUEST).text for _ in range(3)] == ["one", "two", "three"]
    assert both.name == "b/2"
    assert len(first.requests) == 2


def test_when_none_answers_the_error_names_every_reason() -> None:
    both = chain(model("a/1", ModelError("a: 529")), model("b/2", ModelError("b: 401")))
    with pytest.raises(ModelError, match="a: 529; b: 401"):
        both.reply(REQUEST)


def test_the_window_of_the_model_that_answers_counts() -> None:
    down = model("a/1", ModelError("a: 529"), window=9)
    both = chain(down, model("b/2", says("two"), window=5))
    assert both.context_tokens == 9
    both.reply(REQUEST)
    assert both.context_tokens == 5


@pytest.mark.parametrize("stop", [StopReason.REFUSED, StopReason.BLOCKED])
def test_a_refused_answer_goes_to_the_next_and_is_paid_for(stop: StopReason) -> None:
    refused = replace(says(""), stop=stop, cost_usd=0.25, detail="cyber")
    first, second = model("a/1", refused), model("b/2", says("two"), says("three"))
    both = chain(first, second)
    answers = [both.reply(REQUEST) for _ in range(2)]
    assert [answer.text for answer in answers] == ["two", "three"]
    assert answers[0].cost_usd == pytest.approx(0.25 + (answers[1].cost_usd or 0))
    assert (both.name, len(first.requests)) == ("b/2", 1)


def test_when_all_refuse_the_last_refusal_is_the_answer() -> None:
    refused = replace(says(""), stop=StopReason.REFUSED)
    both = chain(model("a/1", refused), model("b/2", replace(refused, detail="bio")))
    answer = both.reply(REQUEST)
    assert (answer.stop, answer.detail) == (StopReason.REFUSED, "bio")


def test_an_error_after_a_refusal_names_both() -> None:
    refused = replace(says(""), stop=StopReason.REFUSED, detail="cyber")
    both = chain(model("a/1", refused), model("b/2", ModelError("b: 401")))
    with pytest.raises(ModelError, match="a/1 refused to answer: cyber; b: 401"):
        both.reply(REQUEST)


def test_a_conversation_that_is_too_long_goes_to_no_other_model() -> None:
    second = model("b/2", says("two"))
    with pytest.raises(ContextOverflow) as raised:
        chain(model("a/1", ContextOverflow("a", limit=8192)), second).reply(REQUEST)
    assert (raised.value.limit, second.requests) == (8192, [])


def test_a_model_leaves_half_of_the_time_to_the_next_one_and_the_last_has_all_of_it() -> None:
    models = [model(name, ModelError(f"{name}: silent")) for name in ("a/1", "b/2")]
    last = model("c/3", says("three"), says("four"))
    all_three = chain(*models, last)
    for _ in range(2):
        all_three.reply(replace(REQUEST, deadline=1900.0))
    assert [each.requests[0].deadline for each in models] == [1450.0, 1450.0]
    assert [request.deadline for request in last.requests] == [1900.0, 1900.0]


def test_when_none_answers_and_one_failure_may_pass_so_may_all() -> None:
    overloaded = ModelError("a: 529", transient=True, retry_after=7.0, kind="overloaded")
    silent = ModelError("b: silent", transient=True, kind=SILENT)
    refused = ModelError("c: 401", kind="bad_key")
    for errors in ([overloaded, silent, refused], [silent, refused, overloaded]):
        both = chain(*(model(f"m/{number}", each) for number, each in enumerate(errors)))
        with pytest.raises(ModelError) as raised:
            both.reply(REQUEST)
        found = raised.value
        assert (found.transient, found.kind, found.retry_after) == (True, "overloaded", 7.0)
        assert all(str(each) in str(found) for each in errors)
