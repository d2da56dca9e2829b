"""Answers that are cut or refused, through the whole product."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.flow.product import product
from worker.lab.script import Answer, Asked, Refuse, Say, Script, Truncated

pytestmark = pytest.mark.usefixtures("bubblewrap")

FOUND = Say(
    "## Verdict\nunknown\n\n## Cause\nTwo writers raced.\n\n## Evidence\n"
    "- job 500003 line 1658: E       AssertionError: assert [] == ['23:50']\n"
)
HALF = Truncated("## Verdict\nunknown\n\n## Cause\nTwo writers ra")
IN_A_CALL = Truncated("I write it down.", [("sandbox_exec", {"command": "cat > /tmp/data/x"})])


def in_turn(answers: Sequence[Answer]) -> Script:
    """One answer for each request, whatever it says."""
    left = list(answers)
    return lambda asked: left.pop(0)


def test_a_model_whose_answers_were_cut_hears_of_it_and_its_whole_answer_is_the_note(
    tmp_path: Path,
) -> None:
    notices: list[str] = []

    def last(asked: Asked) -> Answer:
        notices.append(str(asked.body["messages"][-1]))
        return FOUND

    answers = in_turn([IN_A_CALL, HALF])
    steps: list[Script] = [answers, answers, last]
    with product(tmp_path, lambda asked: steps.pop(0)(asked), "memory://") as made:
        done = made.run("analyze", f"{made.scene.mr.project.path}!{made.scene.mr.iid}")
        assert done.returncode == 0, done.stderr
        (note,) = made.notes()
        assert "Two writers raced." in note.body
        assert made.model.unexpected_requests == []
        assert len(made.model.requests) == 3
    assert "was cut at its length limit" in notices[0]
    assert "in pieces" in notices[0]


def test_three_cut_answers_end_with_what_there_is(tmp_path: Path) -> None:
    with product(tmp_path, in_turn([IN_A_CALL, IN_A_CALL, HALF]), "memory://") as made:
        done = made.run("analyze", f"{made.scene.mr.project.path}!{made.scene.mr.iid}")
        assert done.returncode == 3, done.stderr
        (note,) = made.notes()
        assert "Two writers ra" in note.body
        assert "cut at its length limit, 3 times in a row" in note.body
        assert len(made.model.requests) == 3


def test_a_refused_answer_is_given_by_the_next_model(tmp_path: Path) -> None:
    with product(tmp_path, in_turn([Refuse("No.", "cyber"), FOUND]), "memory://") as made:
        made.write_settings("models: {fallback: [anthropic/claude-haiku-5-5]}\n")
        done = made.run("analyze", f"{made.scene.mr.project.path}!{made.scene.mr.iid}")
        assert done.returncode == 0, done.stderr
        (note,) = made.notes()
        assert "Two writers raced." in note.body
        models = [request["model"] for request in made.model.requests]
        assert models == ["claude-sonnet-5-5", "claude-haiku-5-5"]
