"""The models: the key is taken, an answer comes, and a tool is called when it is asked for."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from worker.core.conversation.messages import ToolSpec, User
from worker.core.ports import Reply, Request
from worker.doctor.base import Candidate, Line, Patient, failed, good, warning
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


def models(patient: Patient) -> Iterator[Line]:
    """The configured one and those to fall back to, asked side by side."""
    candidates = patient.models()
    with ThreadPoolExecutor(len(candidates) or 1) as pool:
        for lines in pool.map(lambda each: list(_lines(patient, each)), candidates):
            yield from lines


def _lines(patient: Patient, candidate: Candidate) -> Iterator[Line]:
    name = candidate.name
    deadline = patient.monotonic() + PATIENCE
    asked = Request(SYSTEM, (TOOL,), (User(QUESTION),), deadline=deadline, session="doctor")
    try:
        with candidate.open() as model:
            reply = model.reply(asked)
    except ModelError as error:
        yield failed("model", f"{name}: {error}")
        return
    cost = "its cost is unknown" if reply.cost_usd is None else f"this cost ${reply.cost_usd:.5f}"
    if _called(reply):
        yield good("model", f"{name} answers and calls tools; {cost}")
    else:
        advice = "choose a model that calls tools, or switch tool calling on in its server"
        yield failed("model", f"{name} answers, but calls no tool when it is told to", advice)
    if not candidate.listed or not candidate.priced:
        missing = "window and price are" if not candidate.listed else "price is"
        advice = f"state them under models.catalogue.{name.partition('/')[2]}: input, output" + (
            ", window" if not candidate.listed else ""
        )
        yield warning(
            "price", f"{name}: its {missing} unknown, so limits.cost_usd cannot hold", advice
        )


def _called(reply: Reply) -> bool:
    return any(call.name == TOOL.name for call in reply.calls)
