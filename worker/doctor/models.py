"""Checks the models: the key is accepted, and a request for a tool call is answered by one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from worker.core.conversation.messages import ToolSpec, User
from worker.core.ports import Reply, Request
from worker.doctor.base import (
    Candidate,
    Installation,
    Line,
    report_failed,
    report_good,
    report_warning,
)
from worker.errors import ModelError

PATIENCE = 15.0
"""Seconds for one model's answer."""

TOOL = ToolSpec(
    "report_number",
    "Reports a number. Call this with the number that you are asked for.",
    {
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "The number."}},
        "required": ["number"],
        "additionalProperties": False,
    },
)
SYSTEM = "You are being tried out. Do exactly what is asked."
QUESTION = "Call the tool report_number with the number 17. Do not answer in words."
GREETING = "Say hello."


def check_models(installation: Installation) -> Iterator[Line]:
    """Check the configured model, its fallbacks and the helper in parallel."""
    candidates = installation.models()
    with ThreadPoolExecutor(len(candidates) or 1) as pool:
        for lines in pool.map(lambda each: list(_check_model(installation, each)), candidates):
            yield from lines


def _check_model(installation: Installation, candidate: Candidate) -> Iterator[Line]:
    name = candidate.name
    deadline = installation.monotonic() + PATIENCE
    question, tools = (QUESTION, (TOOL,)) if candidate.calls_tools else (GREETING, ())
    asked = Request(SYSTEM, tools, (User(question),), deadline=deadline, session="doctor")
    try:
        with candidate.open() as model:
            reply = model.reply(asked)
    except ModelError as error:
        yield report_failed("model", f"{name}: {error}")
        return
    cost = "its cost is unknown" if reply.cost_usd is None else f"this cost ${reply.cost_usd:.5f}"
    if not candidate.calls_tools:
        yield report_good("model", f"{name} (helper) answers; {cost}")
    elif _has_called(reply):
        yield report_good("model", f"{name} answers and calls tools; {cost}")
    else:
        advice = "choose a model that calls tools, or switch tool calling on in its server"
        yield report_failed(
            "model", f"{name} answers, but calls no tool when it is told to", advice
        )
    if not candidate.is_listed or not candidate.has_price:
        missing = "window and price are" if not candidate.is_listed else "price is"
        advice = f"state them under models.catalogue.{name.partition('/')[2]}: input, output" + (
            ", window" if not candidate.is_listed else ""
        )
        yield report_warning(
            "price", f"{name}: its {missing} unknown, so limits.cost_usd cannot hold", advice
        )


def _has_called(reply: Reply) -> bool:
    return any(call.name == TOOL.name for call in reply.calls)
