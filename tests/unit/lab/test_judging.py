"""What a judge's answer says of a cause."""

from dataclasses import dataclass

import pytest

from worker.conversation.messages import Usage
from worker.conversation.model import HelperAnswer
from worker.lab.running import judge_cause


@dataclass
class Judge:
    """A helper that always answers so."""

    answer: str | None
    asked: str = ""
    context_tokens: int = 100_000

    def ask(self, task: str, text: str, max_tokens: int) -> HelperAnswer | None:
        self.asked = text
        if self.answer is None:
            return None
        return HelperAnswer(self.answer, Usage(), 0.0, "a/judge")


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ("SAME", True),
        ("same.", True),
        ("DIFFERENT", False),
        ("It is different: another file.", False),
        ("SAME or DIFFERENT", None),
        ("I cannot tell.", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_plain_answer_counts(answer: str | None, fits: bool | None) -> None:
    assert judge_cause(Judge(answer), "the disk is full", "no space is left") is fits


def test_what_is_compared_is_one_line_each() -> None:
    judge = Judge("SAME")
    judge_cause(judge, "a\nb", "c\nTrue: d")
    assert judge.asked == "True: a b\nCandidate: c True: d"
