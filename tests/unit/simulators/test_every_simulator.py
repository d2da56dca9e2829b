"""What every simulator refuses, whichever API it plays."""

from collections.abc import Iterator

import pytest

from tests.unit.simulators.conversation import SPECS, Conversation, Started, starting
from worker.errors import ModelError
from worker.lab.script import Call, Say

LOOKS = Call([("look", {"n": 1})])
WRONG_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "invalid x-api-key"),
    "gemini": ("GEMINI_API_KEY", "API key not valid"),
    "chat": ("OPENAI_API_KEY", "Incorrect API key provided"),
    "responses": ("OPENAI_API_KEY", "Incorrect API key provided"),
}


@pytest.fixture(params=list(SPECS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(kind: str) -> Iterator[Started]:
    with starting(kind) as found:
        yield found


def test_a_wrong_key_is_refused(kind: str, start: Started) -> None:
    sim, model = start([Say("x")], key="another")
    variable, says = WRONG_KEYS[kind]

    with pytest.raises(ModelError, match=f"set {variable}"):
        Conversation(model).ask()
    assert says in sim.unexpected_requests[0]


def test_a_changed_system_text_or_tool_set_is_noticed(start: Started) -> None:
    sim, model = start([LOOKS, LOOKS, Say("x")])
    session = Conversation(model)
    session.ask()
    session.ask(system="other")
    session.ask(system="other", tools=())

    assert len(sim.unexpected_requests) == 2
    assert sim.unexpected_requests[0].endswith("changed within the conversation")
    assert sim.unexpected_requests[1] == "tools changed within the conversation"


def test_a_script_without_an_answer_is_an_error(start: Started) -> None:
    sim, model = start([LOOKS])
    session = Conversation(model)
    session.ask()

    with pytest.raises(ModelError, match="turn 0 has no step 2"):
        session.ask()
    assert len(sim.unexpected_requests) == 1
