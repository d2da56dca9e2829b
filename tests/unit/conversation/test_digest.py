"""What a turn that a limit has ended says of its work."""

import json
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from tests.contexts import context
from worker.conversation.context import Context, Outcome, Status
from worker.conversation.digest import MOST_LINES, write_digest
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, User
from worker.conversation.prompts import write_continuation
from worker.verdict.jobs import FailingJob, Group, Survey

STOPPED = Outcome(Status.PARTIAL, "", "stopped at its limit of iterations")
SURVEY = Survey(
    (
        Group("a" * 16, "x", (FailingJob(7, "unit"),)),
        Group("b" * 16, "y", (FailingJob(8, "lint"),)),
    )
)


def look(name: str, arguments: dict[str, Any], *, is_error: bool = False) -> list[Message]:
    call = ToolCall(f"{name}-{json.dumps(arguments)}", name, json.dumps(arguments))
    return [Assistant("", (call,)), ToolResult(call.id, name, "{}", is_error)]


LOOKS = [
    *look("fetch_to_sandbox", {"source": "gitlab_get_job_log", "arguments": {"job_id": 7}}),
    *look("gitlab_get_mr_diff", {}),
    *look("gitlab_get_file", {"path": "src/app.py"}),
    *look("gitlab_get_file", {"path": "gone.py"}, is_error=True),
    *look("gitlab_list_job_runs", {"job": "unit"}),
    *look("sandbox_exec", {"command": "grep -n error /tmp/data/job-7.log"}),
]


def stopped(*said: Message) -> Context:
    return replace(context(User("event"), *said), outcome=STOPPED, survey=SURVEY)


def test_it_says_what_was_looked_at_and_what_not() -> None:
    digest = write_digest(stopped(*LOOKS))
    assert digest
    assert digest.title == "What was looked at"
    assert digest.lines == (
        "Job logs: unit (7)",
        "The merge request's diff",
        "Files: src/app.py",
        "Asked of gitlab_list_job_runs",
        "Commands in the sandbox: 1, the last one `grep -n error /tmp/data/job-7.log`",
        "Not looked at: lint (8)",
    )


def test_a_log_that_was_saved_unasked_counts_once_a_command_opens_it() -> None:
    opened = look("sandbox_exec", {"command": "log errors /tmp/data/job-8.log"})
    digest = write_digest(stopped(*opened))
    assert digest
    assert "Job logs: lint (8)" in digest.lines
    assert "Not looked at: unit (7)" in digest.lines


def test_a_turn_without_a_call_says_so() -> None:
    digest = write_digest(stopped())
    assert digest
    assert digest.lines[0] == "Nothing was looked at."


def test_a_turn_that_ended_by_itself_has_none() -> None:
    assert write_digest(replace(stopped(), outcome=Outcome(Status.DONE, "It is X."))) is None


def test_it_is_short_whatever_was_done() -> None:
    paths = (f"{number}" * 90 for number in range(300))
    many = [look("gitlab_get_file", {"path": path}) for path in paths]
    digest = write_digest(stopped(*chain.from_iterable(many)))
    assert digest
    assert len(digest.lines) <= MOST_LINES
    assert all(len(line) <= 280 for line in digest.lines)


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Why does it fail on main?", "What was looked at"),
        ("Warum ist der Test auf main nicht rot?", "Was angesehen wurde"),
        ("Pourquoi est-ce que la cible est rouge, et pas le test ?", "Ce qui a été examiné"),
        ("¿Por qué falla el test y no los otros?", "Qué se ha examinado"),
        ("Perché il test non è verde e che cosa fallisce?", "What was looked at"),
        ("почему тест падает?", "What was looked at"),
        ("なぜ失敗しますか", "確認した内容"),
        ("为什么会失败", "已查看的内容"),
    ],
)
def test_it_is_in_the_language_of_the_question(question: str, title: str) -> None:
    asked = write_continuation(question, files="", seconds=5, changes=())
    reply = replace(stopped(User(asked), *LOOKS), turn=1, turn_start=1)
    digest = write_digest(reply)
    assert digest
    assert digest.title == title
    assert not any("lint" in line for line in digest.lines)
