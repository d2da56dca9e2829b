"""Reads the messages on the queue, on which anybody with access to the broker can put anything.

Only a trigger is delivered. Of its message nothing else is believed: Celery's headers and the body
are written anew, so that a message cannot ask for another task, another time or a further call.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from kombu import Message, compression

from worker.conversation.triggers import Trigger, from_message, to_message, trigger_id
from worker.safety.untrusted import parse_json

TASK = "sandpiper.run"

QUEUED_AT = "queued_at"
"""The header with the time when the trigger's wait began, in epoch seconds."""

LONGEST_BODY = 65_536
"""Bytes; a trigger has a few hundred."""

_SHOWN = 80
_NO_CALLS: Mapping[str, Any] = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class NotOurs(ValueError):
    """A message is not one of this product's; says why, in a line that may be logged."""


def clean_message(message: Message) -> None:
    """Check a message of kombu's and reduce it to its trigger. Raises NotOurs."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    if headers.get("task") != TASK:
        raise NotOurs(f"its task is {_show(headers.get('task'))}")
    if message.content_type != "application/json":
        raise NotOurs(f"its content type is {_show(message.content_type)}")
    for header in ("eta", "expires"):
        if headers.get(header) is not None:
            raise NotOurs(f"it has the header {header}={_show(headers[header])}")
    name = headers.get("id")
    if not isinstance(name, str) or not 0 < len(name) <= _SHOWN:
        raise NotOurs(f"its id is {_show(name)}")
    trigger = _read_trigger(message.body)
    message.headers = _make_headers(name, trigger, headers.get(QUEUED_AT))
    message.body = json.dumps([[to_message(trigger)], {}, _NO_CALLS]).encode()
    message.content_encoding = "utf-8"


def _read_trigger(body: Any) -> Trigger:
    """Return the trigger in a body, `[[trigger], {}, {…}]`. Raises NotOurs."""
    if not isinstance(body, str | bytes | bytearray | memoryview):
        raise NotOurs(f"its body is {_show(body)}")
    content = body.encode("utf-8", "replace") if isinstance(body, str) else bytes(body)
    if len(content) > LONGEST_BODY:
        raise NotOurs(f"its body has {len(content)} bytes, more than {LONGEST_BODY}")
    # As UTF-8, since of bytes Python's parser takes UTF-16 too.
    match parse_json(content.decode("utf-8", "replace")):
        case [[dict() as trigger], dict() as options, dict() as calls]:
            if options or any(calls.values()):
                raise NotOurs("it asks for more than a run")
        case _:
            raise NotOurs(f"its body is {_show(content)}")
    try:
        return from_message(trigger)
    except ValueError as error:
        raise NotOurs(f"its body is {_show(content)}: {str(error)[:_SHOWN]}") from error


def _make_headers(name: str, trigger: Trigger, queued_at: Any) -> dict[str, Any]:
    headers = {
        "task": TASK,
        "id": name,
        "root_id": name,
        "lang": "py",
        "retries": 0,
        "ignore_result": True,
        "argsrepr": trigger_id(trigger),
        "kwargsrepr": "",
    }
    is_time = type(queued_at) in (int, float) and math.isfinite(queued_at) and queued_at > 0
    return {**headers, QUEUED_AT: queued_at} if is_time else headers


def _show(value: Any) -> str:
    """Return the beginning of a value that may be anything."""
    if isinstance(value, str | bytes):
        return repr(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    return "missing" if value is None else f"of type {type(value).__name__}"


def refuse_compression() -> None:
    """Let kombu unpack nothing in this process: it does so before anybody sees the message, and a
    few kilobytes may become gigabytes. Ours are not compressed."""
    for form in compression.encoders():
        compression.register(_refuse_form, _refuse_form, form)


def _refuse_form(body: bytes) -> bytes:
    raise NotOurs("it is compressed")
