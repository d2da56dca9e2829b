"""Conversations whose tokens were counted by real tokenizers; see `record_token_counts`."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from tests.contexts import call
from worker.conversation.messages import Assistant, Message, ToolResult, User
from worker.lab.story import CASE

COUNTS = Path(__file__).parent / "unit" / "conversation" / "token_counts.json"
STEPS = 14


def make_conversations() -> dict[str, list[list[Message]]]:
    """By name, the messages that each request adds to the one before it."""
    log = _read_log("unit-tests")
    code = "\n".join(each.read_text() for each in sorted((CASE / "base").rglob("*.py")))
    return {
        "logs": _converse(_cut(log, 3500)),
        "code": _converse(_cut(code, 1800)),
        "short results": _converse(_cut(_read_log("lint"), 300)),
        "tables of numbers": _converse(_cut(_make_table(), 2500)),
        "colours and boxes": _converse(_cut(_make_screen(), 1500)),
    }


def _read_log(name: str) -> str:
    return gzip.decompress((CASE / "logs" / f"{name}.log.gz").read_bytes()).decode()


def _cut(text: str, size: int) -> list[str]:
    step = max(1, (len(text) - size) // STEPS)
    return [text[at : at + size] for at in range(0, step * STEPS, step)]


def _make_table() -> str:
    rows = (
        f"{n * 7919 % 100003:>8} {n / 7:.6f} 0x{n * 2654435761 % 2**32:08x}" for n in range(2000)
    )
    return "\n".join(rows)


def _make_screen() -> str:
    rows = (
        f"\x1b[3{n % 8}m│ ├── ✓ prüft die Größe von Teil {n}\x1b[0m 完了しました ({n} ms)"
        for n in range(600)
    )
    return "\r\n".join(rows)


def _converse(results: list[str]) -> list[list[Message]]:
    opening: list[Message] = [User("Why did the pipeline fail? " * 40)]
    return [opening, *map(_make_exchange, range(len(results)), results)]


def _make_exchange(number: int, text: str) -> list[Message]:
    content = json.dumps({"saved_to": f"/tmp/data/{number}.txt", "preview": text})
    asked = json.dumps({"command": f"grep -n error /tmp/data/{number}.txt | head -n 40"})
    made = call(f"call_{number}", "sandbox_exec", asked)
    said = "I look at the next part of the output." if number % 3 == 0 else ""
    return [Assistant(said, (made,)), ToolResult(made.id, made.name, content)]


def list_texts(message: Message) -> Iterator[str]:
    """What of a message a provider counts."""
    match message:
        case User(text):
            yield text
        case ToolResult():
            yield message.content
        case Assistant(text, calls):
            yield text
            for each in calls:
                yield from (each.name, each.arguments)
