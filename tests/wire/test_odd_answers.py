"""Answers that are no JSON are named as what they are, on every wire."""

from contextlib import closing

import pytest

from tests.simulators.odd_answers import PAGE
from tests.simulators.openai.chat import STREAM
from tests.wire.conversations import asks
from tests.wire.simulators import WIRES
from worker.conversation.messages import User
from worker.errors import ModelError
from worker.lab.script import Say, Scripted

OVER_HTTP = sorted(name for name in WIRES if not name.endswith("vertex"))
EVENTS, JSON = "text/event-stream; charset=utf-8", "application/json"

ODD: dict[str, tuple[bytes, str, str, bool]] = {
    "events": (STREAM, EVENTS, "an event stream", False),
    "events called JSON": (STREAM, JSON, "an event stream", False),
    "events after a comment": (b"\r\n: keep-alive\n\n" + STREAM, JSON, "an event stream", False),
    "events without a space": (STREAM.replace(b": ", b":"), "", "an event stream", False),
    "named events": (b"event: message_start\n" + STREAM, JSON, "an event stream", False),
    "lines of JSON": (b'{"done":false}\n{"done":true}\n', "application/x-ndjson",
                      "a stream of JSON lines", False),
    "a page": (PAGE, "text/html; charset=utf-8", "a page of HTML", True),
    "a page called JSON": (b"<html><body>Sign in</body></html>", JSON, "a page of HTML", True),
    "half a body": (b'{"choices":[', JSON, "cannot be read", True),
}  # fmt: skip


@pytest.mark.attack("odd answers")
@pytest.mark.parametrize("form", ODD)
@pytest.mark.parametrize("wire", OVER_HTTP)
def test_an_answer_that_is_no_json_is_named_as_what_it_is(wire: str, form: str) -> None:
    body, kind, named, transient = ODD[form]
    with (
        WIRES[wire].start(Scripted([Say("unasked")])) as sim,
        closing(WIRES[wire].model(sim)) as model,
    ):
        sim.fail_next(200, body, {"content-type": kind})
        with pytest.raises(ModelError, match=named) as raised:
            model.reply(asks(User("event")))
    assert raised.value.kind == "unread"
    # A stream is what this server always answers: it is not paid for once more.
    assert raised.value.transient is transient
    if "stream" in named:
        assert "switch streaming off" in str(raised.value)
