from tests.contexts import answered, call
from worker.conversation.decide import count_repeats
from worker.conversation.messages import Assistant, Message, ToolResult, User

STOP_AT = 5


def rounds(*arguments: str) -> list[Message]:
    messages: list[Message] = [User("event")]
    for number, each in enumerate(arguments):
        made = call(f"c{number}", "look", each)
        messages += [Assistant("", (made,)), ToolResult(made.id, "look", "{}")]
    return messages


def test_the_same_calls_in_a_row_are_counted_whatever_their_ids() -> None:
    assert count_repeats(rounds("1"), STOP_AT) == 1
    assert count_repeats(rounds("1", "1", "1"), STOP_AT) == 3
    assert count_repeats(rounds("1", "2", "2"), STOP_AT) == 2
    assert count_repeats(rounds("2", "1", "2"), STOP_AT) == 1


def test_a_batch_still_open_counts_and_other_batches_do_not() -> None:
    assert count_repeats(rounds("1", "1")[:-1], STOP_AT) == 2
    assert count_repeats([User("event"), *answered("a", "b"), *answered("a", "b")], STOP_AT) == 2
    assert count_repeats([User("event"), *answered("a", "b"), *answered("a")], STOP_AT) == 1


def test_rounds_of_two_or_three_that_take_turns_are_counted() -> None:
    assert count_repeats(rounds(*"1212"), STOP_AT) == 2
    assert count_repeats(rounds(*"0121212"), STOP_AT) == 3
    assert count_repeats(rounds(*"123" * 3), STOP_AT) == 3
    assert count_repeats(rounds(*"1234" * 3), STOP_AT) == 1
    assert count_repeats(rounds(*"12" * 50), STOP_AT) == STOP_AT
    assert count_repeats(rounds(*"1" * 50), STOP_AT) == STOP_AT


def test_arguments_are_compared_as_values() -> None:
    assert count_repeats(rounds('{"a": 1, "b": [2]}', '{ "b":[2],"a":1 }'), STOP_AT) == 2
    assert count_repeats(rounds('{"a": "\\u00e9"}', '{"a": "é"}'), STOP_AT) == 2
    assert count_repeats(rounds('{"a": 1}', '{"a": true}'), STOP_AT) == 1
    assert count_repeats(rounds("{", "{", " {"), STOP_AT) == 1
    assert count_repeats(rounds("[" * 100_000, "[" * 100_000), STOP_AT) == 2


def test_a_human_or_a_plain_answer_breaks_the_row() -> None:
    assert count_repeats([*rounds("1", "1"), User("go on"), *rounds("1")[1:]], STOP_AT) == 1
    assert count_repeats([User("event"), Assistant("done")], STOP_AT) == 0
    assert count_repeats([User("event")], STOP_AT) == 0
