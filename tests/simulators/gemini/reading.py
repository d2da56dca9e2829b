"""A request of generateContent as the script sees it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.gemini.protocol import Json, responses, texts
from worker.conversation.prompts import write_continuation
from worker.lab.script import Asked, Result

_REPLY = write_continuation("", files="", seconds=0.0, changes=()).splitlines()[0]


def read(body: Mapping[str, Any]) -> Asked:
    """The view of a valid body."""
    contents: Sequence[Json] = body["contents"]
    humans = [at for at, content in enumerate(contents) if _is_human(content, first=at == 0)]
    newest = humans[-1]
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    return Asked(
        first=texts(contents[0])[0],
        human=_human_text(contents[newest]),
        turn=len(humans) - 1,
        answers=sum(content["role"] == "model" for content in contents[newest:]),
        results=tuple(_result(found) for content in contents for found in responses(content)),
        notice="\n".join(texts(contents[-1])[0 if responses(contents[-1]) else 1 :]),
        tools_allowed=calling.get("mode") != "NONE",
        body=body,
    )


def _is_human(content: Json, *, first: bool) -> bool:
    """Text after results is a notice, unless it opens a reply to a run that was cut off."""
    if content["role"] != "user":
        return False
    replied = any(_REPLY in text for text in texts(content))
    return first or replied or not responses(content)


def _human_text(content: Json) -> str:
    found = texts(content)
    return next((text for text in found if _REPLY in text), found[0] if found else "")


def _result(found: Json) -> Result:
    """The tool's own text again: what stands under "output", or the object with its "error"."""
    response = found["response"]
    failed = "error" in response
    value = response if failed else response.get("output", response)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Result(found["name"], text, failed)
