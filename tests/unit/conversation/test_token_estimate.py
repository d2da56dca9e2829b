import json

import pytest

from tests.contexts import TOOL, call
from tests.token_conversations import COUNTS, make_conversations
from worker.conversation.fold_plan import estimate_tokens, weigh_request
from worker.conversation.messages import Assistant, Message, User, WireForm

TABLE = json.loads(COUNTS.read_text())
ROWS = [(name, tokenizer) for name, counted in TABLE.items() for tokenizer in counted]


@pytest.mark.parametrize(("name", "tokenizer"), ROWS)
def test_after_the_third_request_an_estimate_is_within_five_percent(
    name: str, tokenizer: str
) -> None:
    """Against the counts of real tokenizers."""
    messages: list[Message] = []
    tokens, counted = 0, None
    for number, (added, more) in enumerate(
        zip(make_conversations()[name], TABLE[name][tokenizer], strict=True)
    ):
        messages += added
        tokens += more
        weight = weigh_request("", (), messages)
        error = estimate_tokens(weight, counted) / tokens - 1
        if number >= 3:
            assert -0.05 <= error <= 0.05
        counted = (weight, tokens)


@pytest.mark.parametrize(("name", "tokenizer"), ROWS)
def test_what_is_left_after_a_fold_is_not_taken_for_much_less(name: str, tokenizer: str) -> None:
    requests, counts = make_conversations()[name], TABLE[name][tokenizer]
    whole = weigh_request("", (), [each for added in requests for each in added])
    left = weigh_request(
        "", (), [each for added in (*requests[:1], *requests[-3:]) for each in added]
    )
    truth = counts[0] + sum(counts[-3:])
    assert -0.1 <= estimate_tokens(left, (whole, sum(counts))) / truth - 1 <= 0.25


def test_without_a_count_the_estimate_is_of_the_right_size() -> None:
    for name, requests in make_conversations().items():
        weight = weigh_request("", (), [each for added in requests for each in added])
        for counts in TABLE[name].values():
            assert 0.75 <= estimate_tokens(weight, None) / sum(counts) <= 1.8


def test_what_is_sent_verbatim_weighs_as_it_is_sent() -> None:
    answer = Assistant("", (call(),), WireForm("test/model", "thinking " * 100))
    theirs = weigh_request("", (), [answer], origin="test/model")
    assert theirs > 2 * weigh_request("", (), [answer], origin="other/model")


def test_system_and_tools_weigh() -> None:
    alone = weigh_request("", (), [User("event")])
    assert weigh_request("system " * 50, (TOOL,), [User("event")]) > alone + 50
