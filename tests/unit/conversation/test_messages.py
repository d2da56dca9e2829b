from itertools import product

from tests.contexts import answered, called
from worker.conversation.messages import (
    Assistant,
    Message,
    ToolResult,
    Usage,
    User,
    count_groups,
    count_results,
    find_open_calls,
    find_results,
    group_messages,
)


def test_neighbours_of_one_side_are_one_group() -> None:
    messages = [User("event"), *answered("a", "b"), User("reply"), Assistant("x"), Assistant("y")]
    sizes = [len(group) for group in group_messages(messages)]
    assert sizes == [1, 1, 3, 2]


def test_counting_is_the_same_as_making_and_counting() -> None:
    kinds: tuple[Message, ...] = (User("u"), Assistant("a"), ToolResult("r", "look", "{}"))
    for length in range(5):
        for messages in product(kinds, repeat=length):
            assert count_groups(messages) == len(group_messages(messages))
            assert count_results(messages) == len(list(find_results(messages)))


def test_a_call_is_open_until_its_own_result_is_there() -> None:
    messages = [User("event"), *called("a", "b"), ToolResult("b", "look", "{}")]
    assert [call.id for call in find_open_calls(messages)] == ["a"]
    assert find_open_calls([*messages, ToolResult("a", "look", "{}")]) == ()


def test_open_calls_before_a_human_message_are_not_run_any_more() -> None:
    assert find_open_calls([User("event"), *called("a"), User("reply")]) == ()


def test_usage_adds_up_and_counts_cached_tokens_as_input() -> None:
    total = Usage(10, 70, 20, 5, 1) + Usage(1, 1, 1, 1, 1)
    assert total == Usage(11, 71, 21, 6, 2)
    assert total.input == 103
    assert Usage(10, 70, 20).cached_share == 0.7
    assert Usage().cached_share == 0.0
