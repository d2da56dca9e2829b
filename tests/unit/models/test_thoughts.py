"""Which part of a text is thoughts: a table of what servers send."""

import pytest

from worker.models.written_forms import remove_thoughts

ANSWER = "## Verdict\nflaky\n\n## Cause\nIt waits for the clock."
DRAFT = "## Verdict\ncaused by this change\n\nNo, the clock."
FENCED = f"{ANSWER}\n\n## Details\nThe template has\n```\n<think>\nhm\n</think>\n```\nin it."
QUOTED = f"{ANSWER}\n\n## Evidence\n- job 4 line 3: <think>hm</think>\n- job 4 line 4: so</think>"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\n{DRAFT}\n</think>\n\n{ANSWER}",
        f"\n <think>{DRAFT}</think>{ANSWER}",
        f"<think></think>\n\n{ANSWER}",
        f"<thinking>{DRAFT}</thinking>\n{ANSWER}",
        f"<seed:think>{DRAFT}</seed:think>\n{ANSWER}",
        f"<thought>\n{DRAFT}\n</thought>\n<think>\nOnce more.\n</think>\n{ANSWER}",
        f"<think>one</think><think>{DRAFT}</think>{ANSWER}",
        f"<think>\nIs a `<think>` in it?\n```\nopen\n</think>\n{ANSWER}\n```\nend\n```",
        f"[THINK]{DRAFT}[/THINK]{ANSWER}",
        f"◁think▷{DRAFT}◁/think▷{ANSWER}",
        f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>{ANSWER}<|END_RESPONSE|>",
        f"<|channel>thought\n{DRAFT}\n<channel|>{ANSWER}",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final"
        f"<|message|>{ANSWER}<|return|>",
        f"<|channel|>final<|message|>{ANSWER}<|end|>",
        f"analysis{DRAFT}assistantfinal{ANSWER}",
        f"<think>{DRAFT}</think>\n<answer>\n{ANSWER}\n</answer>",
        # The template has opened them.
        f"{DRAFT}\n</think>\n\n{ANSWER}",
        f"So it is the clock.</think>{ANSWER}",
        f"- first\n- so it is the clock.</think>\n\n{ANSWER}",
        f"```\nnever closed in the thoughts\n</think>\n{ANSWER}\n```suggestion a.py:1\nx\n```",
        f"{DRAFT}[/THINK]{ANSWER}",
    ],
)
def test_the_answer_is_what_follows_the_thoughts(text: str) -> None:
    left = remove_thoughts(text)
    assert left.startswith(ANSWER), left
    assert "caused by this change" not in left


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\n{DRAFT}",
        f"<think>{DRAFT}</think>",
        f"{DRAFT}\n</think>",
        f"{DRAFT}</think>\n",
        f"[THINK]{DRAFT}",
        f"<|channel|>analysis<|message|>{DRAFT}",
    ],
)
def test_thoughts_alone_are_no_answer(text: str) -> None:
    assert remove_thoughts(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"\n{ANSWER}\n",
        FENCED,
        QUOTED,
        f"{ANSWER}\nThe prompt ends in `</think>`, and `<think>` begins it.",
        f"{ANSWER}\n> <think>hm",
        f"{ANSWER}\n- job 4 lines 1-3: a\n  <think>\n  </think>",
        "analysis of the log: it waits.",
    ],
)
def test_what_an_answer_quotes_is_content(text: str) -> None:
    assert remove_thoughts(text) == text


def test_what_was_said_before_thoughts_stays() -> None:
    assert remove_thoughts("I look.\n<think>\nhm\n</think>\nIt waits.") == "I look.\n\nIt waits."


def test_a_call_that_does_not_end_the_thoughts_is_kept() -> None:
    call = '```tool_call\n{"name": "look"}\n```'
    assert remove_thoughts(f"<think>\nI need the log.\n{call}") == call


def test_a_long_text_is_read_in_linear_time() -> None:
    parts = ("<think>", "</think>", "```a\n", "```\n", "~~~~x\n", "`", "\n<think>", "- </think>\n")
    for part in parts:
        remove_thoughts("<think>\n</think>\n" + part * 30_000)
