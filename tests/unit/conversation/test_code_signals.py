"""What shows that a turn works on code."""

import json
from typing import Any

import pytest

from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, User
from worker.conversation.model_switch import shows_code_work


def calls(name: str, **arguments: Any) -> Message:
    return Assistant("", (ToolCall("c1", name, json.dumps(arguments)),))


def gives(content: str) -> Message:
    return ToolResult("c1", "look", content)


FILE = "gitlab_get_file"
SAVE = "fetch_to_sandbox"


@pytest.mark.parametrize(
    "message",
    [
        calls(FILE, path="src/app.py"),
        calls(FILE, path="Dockerfile"),
        calls(FILE, path="build/MAKEFILE"),
        calls(SAVE, source=FILE, arguments={"path": "a/b.rs"}, path="/tmp/data/b"),
        calls("sandbox_exec", command="pytest -x tests"),
        calls("sandbox_exec", command="cd /tmp/data && python3 run.py"),
        calls("sandbox_exec", command="make"),
        gives("Traceback (most recent call last):"),
        gives("java.lang.NullPointerException: x"),
        gives("  at com.example.App.main"),
        gives("panic: runtime error"),
        gives("error[E0382]: borrow"),
    ],
)
def test_code(message: Message) -> None:
    assert shows_code_work([User("go"), message])


@pytest.mark.parametrize(
    "message",
    [
        calls(FILE, path="README.md"),
        calls(SAVE, source="gitlab_get_job_log", arguments={"job_id": 1}, path="/tmp/data/a.py"),
        calls("sandbox_exec", command="grep -n python /tmp/data/log"),
        calls("sandbox_exec", command=7),
        calls("gitlab_get_diff"),
        Assistant("", (ToolCall("c1", FILE, "[" * 10_000),)),
        Assistant("I shall run pytest now: Traceback"),
        gives("2 of 213 tests failed"),
        User("Traceback (most recent call last):"),
    ],
)
def test_no_code(message: Message) -> None:
    assert not shows_code_work([message])
