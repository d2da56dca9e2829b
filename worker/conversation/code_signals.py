"""Tells whether a turn works on code: it read code files, ran code, or saw stack traces.

The tier `coding` is for such turns (`models.upgrade: [code]`). Pure.
"""

import re
from collections.abc import Iterable
from typing import Any

from worker.conversation.messages import Assistant, Message, ToolCall, ToolResult
from worker.safety.untrusted import parse_object

_ENDINGS = (
    *(".py", ".js", ".ts", ".java", ".go", ".rs", ".rb", ".sh", ".c", ".cpp", ".cs", ".kt"),
    *(".scala", ".swift", ".lua", ".r", ".pl", ".php", ".sql", ".yaml", ".yml", ".toml"),
    *(".gradle", ".cmake", ".makefile", "makefile", "dockerfile"),
)
_COMMAND = re.compile(
    r"(?:^|[;&|(]\s*)(?:python3?|node|npm|npx|pip3?|mvn|gradle|gcc|g\+\+|cargo|go|rustc|pytest"
    r"|make|cmake|javac|dotnet|ruby|tsc|webpack|esbuild|jest|mocha|yarn)\s"
)
_TRACE = re.compile(
    r"Traceback|SyntaxError|TypeError|NullPointerException|\bat (?:com|org)\.|\bpanic:|error\[E"
)
_FILE_TOOL = "gitlab_get_file"
_MOST = 4_096
"""Only this many characters of a text are searched."""


def shows_code_work(messages: Iterable[Message]) -> bool:
    """Whether one of the messages reads code, runs it, or holds a stack trace of it."""
    return any(map(_shows_code, messages))


def _shows_code(message: Message) -> bool:
    if isinstance(message, ToolResult):
        return _TRACE.search(message.content[:_MOST]) is not None
    return isinstance(message, Assistant) and any(map(_works_on_code, message.calls))


def _works_on_code(call: ToolCall) -> bool:
    arguments: Any = parse_object(call.arguments)
    command = arguments.get("command")
    if call.name == "sandbox_exec" and isinstance(command, str):
        return _COMMAND.search(f"{command[:_MOST]} ") is not None
    if arguments.get("source") == _FILE_TOOL:
        arguments = arguments.get("arguments")
    elif call.name != _FILE_TOOL:
        return False
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return isinstance(path, str) and path.lower().endswith(_ENDINGS)
