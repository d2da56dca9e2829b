"""What providers say of their window when a request is too long."""

import pytest

from worker.models.http.refusals import find_stated_limit

SAID = [
    ("prompt is too long: 210001 tokens > 200000 maximum", 200_000),
    ("input length and `max_tokens` exceed context limit: 190000 + 21000 > 200000", 200_000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
     1_048_576),
    ("The input token count is 40000 but the model only supports up to 32768.", 32_768),
    ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
     8192),
    ("This model's maximum context length is 131,072 tokens.", 131_072),
    ("the request (9000 tokens) exceeds the available context size (4096 tokens), try again",
     4096),
    ("The decoder prompt is longer than the maximum model length of 4096. Make sure that",
     4096),
    ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
     131_072),
    ("Invalid request: Your request exceeded model token limit: 8192", 8192),
    ("the model is loaded with context length of only 4096 tokens", 4096),
    ("Your input exceeds the context window of this model.", 0),
    ("prompt too long; exceeded max context length by 5 tokens", 0),
    ("prompt is too long: 3 tokens > 2 maximum", 0),
    ("", 0),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "limit"), SAID, ids=[reason[:40] for reason, _ in SAID])
def test_the_stated_window_is_read(reason: str, limit: int) -> None:
    assert find_stated_limit(reason) == limit
