"""Bodies of OpenAI's two wires."""

import json
from typing import Any


def completion(reason: Any = "stop", usage: Any = None, **message: Any) -> bytes:
    """An answer with this message."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def response(*items: Any, status: Any = "completed", **fields: Any) -> bytes:
    """An answer with these output items."""
    body = {"object": "response", "status": status, "output": items, **fields}
    return json.dumps(body).encode()


def said(text: str, phase: str | None = None) -> dict[str, Any]:
    """A message item."""
    part = {"type": "output_text", "text": text, "annotations": []}
    fields = {"phase": phase} if phase else {}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part], **fields}
