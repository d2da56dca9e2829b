"""What is remembered of a conversation against encoding it anew."""

from collections.abc import Sequence
from random import Random

from tests.contexts import answered, called
from worker.conversation.messages import Assistant, Message, ToolResult, User, group_messages
from worker.models.base import Fragment
from worker.models.codec.growing import SESSIONS, FragmentCache


class Encoder:
    """Encodes a group as its text, and counts."""

    def __init__(self) -> None:
        self.encoded: list[int] = []

    def __call__(self, side: Sequence[Message]) -> Fragment:
        self.encoded.append(len(side))
        return Fragment(repr(side).encode(), len(side))


def fresh(messages: Sequence[Message]) -> tuple[Fragment, ...]:
    return tuple(map(Encoder(), group_messages(messages)))


def test_a_conversation_that_grows_shrinks_or_changes_is_encoded_as_if_for_the_first_time() -> None:
    rng = Random(7)
    growing = FragmentCache(Encoder())
    messages: list[Message] = [User("event")]
    for step in range(300):
        if rng.random() < 0.1:
            del messages[rng.randint(1, len(messages)) :]
        made: Message = rng.choice(
            (User(f"u{step}"), Assistant(f"a{step}"), ToolResult("x", "look", str(step)))
        )
        messages += [made] * rng.randint(0, 2)
        assert growing.encode_groups(messages) == fresh(messages)


def test_only_the_last_group_and_what_is_new_are_encoded_again() -> None:
    encoder = Encoder()
    growing = FragmentCache(encoder)
    messages = [User("event"), *answered("a"), *answered("b")]
    growing.encode_groups(messages)
    encoder.encoded.clear()
    growing.encode_groups([*messages, User("reply"), *called("c")])
    assert encoder.encoded == [2, 1]


def test_sessions_that_take_turns_do_not_displace_each_other() -> None:
    encoder = Encoder()
    growing = FragmentCache(encoder)
    sessions = [[User(f"event {number}"), *answered("a")] for number in range(SESSIONS)]
    for messages in sessions:
        growing.encode_groups(messages)
    encoder.encoded.clear()
    for messages in sessions:
        growing.encode_groups([*messages, *called("b")])
    assert encoder.encoded == [1, 1] * SESSIONS


def test_no_more_than_a_few_sessions_are_remembered() -> None:
    encoder = Encoder()
    growing = FragmentCache(encoder)
    first = [User("first"), *answered("a")]
    growing.encode_groups(first)
    for number in range(SESSIONS):
        growing.encode_groups([User(f"event {number}")])
    encoder.encoded.clear()
    growing.encode_groups(first)
    assert len(encoder.encoded) == 3


def test_nothing_is_nothing() -> None:
    assert FragmentCache(Encoder()).encode_groups([]) == ()
