import pytest

from tests.contexts import context
from tests.fakes import ScriptedModel, says
from worker.core.ports import Request
from worker.errors import ModelError
from worker.models.fallback import FallbackModel

REQUEST = Request("system", (), context().messages)


def model(name: str, *answers: object, window: int = 1000) -> ScriptedModel:
    return ScriptedModel(answers, name=name, context_tokens=window)  # type: ignore[arg-type]


def test_the_first_model_answers_as_long_as_it_can() -> None:
    first, second = model("a/1", says("one"), says("two")), model("b/2")
    both = FallbackModel([first, second])
    assert [both.reply(REQUEST).text, both.reply(REQUEST).text] == ["one", "two"]
    assert (both.name, second.requests) == ("a/1", [])


def test_when_it_is_down_the_same_request_goes_to_the_next_and_stays_there() -> None:
    first = model("a/1", says("one"), ModelError("a: 529"))
    second = model("b/2", says("two"), says("three"))
    both = FallbackModel([first, second])
    assert [both.reply(REQUEST).text for _ in range(3)] == ["one", "two", "three"]
    assert both.name == "b/2"
    assert len(first.requests) == 2


def test_when_none_answers_the_error_names_every_reason() -> None:
    both = FallbackModel([model("a/1", ModelError("a: 529")), model("b/2", ModelError("b: 401"))])
    with pytest.raises(ModelError, match="a: 529; b: 401"):
        both.reply(REQUEST)


def test_the_smallest_window_counts() -> None:
    assert FallbackModel([model("a/1", window=9), model("b/2", window=5)]).context_tokens == 5
