"""Ready-made sessions for tests."""

from dataclasses import replace
from typing import Any

from worker.conversation.context import Context, Subject
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult, ToolSpec, User

SUBJECT = Subject(
    gitlab_url="https://gitlab.example",
    project_id=7,
    project="aviary/tern",
    mr_iid=42,
    pipeline_project_id=7,
    pipeline_id=900,
    sha="a" * 40,
    web_url="https://gitlab.example/aviary/tern/-/merge_requests/42",
)
TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


def call(id: str = "c1", name: str = "look", arguments: str = "{}") -> ToolCall:
    return ToolCall(id, name, arguments)


def context(*messages: Message, spent: TurnUsage | None = None, **changes: Any) -> Context:
    """A session that began at time 0 and holds `messages` (an opening user message if none)."""
    return replace(
        Context(
            session_id="0123456789abcdef0123",
            subject=SUBJECT,
            workflow="analyze-failures",
            model="test/model",
            system="system",
            tools=(TOOL,),
            messages=messages or (User("event"),),
            turn_usage=spent or TurnUsage(started_at=0.0),
        ),
        **changes,
    )


def called(*ids: str) -> tuple[Message, ...]:
    """An answer that calls, without results."""
    return (Assistant("", tuple(call(id) for id in ids)),)


def answered(*ids: str) -> tuple[Message, ...]:
    """An answer that calls, and its results."""
    return (*called(*ids), *(ToolResult(id, "look", "{}") for id in ids))
