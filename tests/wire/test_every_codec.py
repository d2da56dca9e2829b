"""Laws over the requests of every codec."""

import pytest

from tests.wire.codecs import CODECS
from tests.wire.conversations import EVENT, NOTICE, TOOLS, asks, calls, conversations, found
from worker.conversation.messages import Message, User
from worker.models.base import Codec

EVERY = pytest.mark.parametrize("name", list(CODECS))


def codec(name: str) -> Codec:
    return CODECS[name]()[0]


@EVERY
def test_a_kept_notice_is_the_same_bytes_as_the_ephemeral_one(name: str) -> None:
    tail: tuple[Message, ...] = (EVENT, calls("a"), found("a"))
    kept, ephemeral = asks(*tail, User(NOTICE)), asks(*tail, notice=NOTICE)

    assert codec(name).encode(kept) == codec(name).encode(ephemeral)


@EVERY
def test_remembered_messages_give_the_same_bytes_as_fresh_ones(name: str) -> None:
    used, origin = CODECS[name]()
    table = conversations(origin)
    for case in [*table, *reversed(table)]:
        assert used.encode(table[case]) == codec(name).encode(table[case])


@EVERY
def test_another_system_text_or_tool_set_is_not_served_from_memory(name: str) -> None:
    used = codec(name)
    for request in (asks(EVENT), asks(EVENT, system="other"), asks(EVENT, tools=TOOLS[:1])):
        assert used.encode(request) == codec(name).encode(request)
