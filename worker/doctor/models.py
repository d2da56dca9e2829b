"""Checks that models accept the key and call a tool, and that their providers list them.

Also names the listed models that the catalogue does not describe.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from worker.conversation.messages import ToolSpec, User
from worker.conversation.model import Request
from worker.doctor.base import (
    Candidate,
    CheckLine,
    Installation,
    ModelList,
    report_failed,
    report_good,
    report_unchecked,
    report_warning,
)
from worker.errors import ModelError, SandpiperError

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
_NAMED = 5
"""The most models that a line names."""


def check_models(installation: Installation) -> Iterator[CheckLine]:
    """Check all configured models and their providers' lists, in parallel."""
    candidates, lists = installation.models(), installation.model_lists()
    with ThreadPoolExecutor(len(candidates) + len(lists) or 1) as pool:
        comparisons = [pool.submit(_compare_list, each, candidates) for each in lists]
        for lines in pool.map(lambda each: list(_check_model(installation, each)), candidates):
            yield from lines
        for comparison in comparisons:
            yield from comparison.result()


def _check_model(installation: Installation, candidate: Candidate) -> Iterator[CheckLine]:
    name = candidate.name + (f" at {candidate.level}" if candidate.level else "")
    deadline = installation.monotonic() + PATIENCE
    question, tools = (QUESTION, (TOOL,)) if candidate.calls_tools else (GREETING, ())
    request = Request(SYSTEM, tools, (User(question),), deadline=deadline, session="doctor")
    try:
        with candidate.open() as model:
            reply = model.reply(request)
    except ModelError as error:
        yield report_failed("model", f"{name}: {error}")
        return
    cost = "its cost is unknown" if reply.cost_usd is None else f"this cost ${reply.cost_usd:.5f}"
    if not candidate.calls_tools:
        yield report_good("model", f"{name} ({candidate.roles}) answers; {cost}")
    elif any(call.name == TOOL.name for call in reply.calls):
        yield report_good("model", f"{name} ({candidate.roles}) answers and calls tools; {cost}")
    else:
        advice = "choose a model that calls tools, or switch tool calling on in its server"
        yield report_failed(
            "model", f"{name} answers, but calls no tool when it is told to", advice
        )
    yield from _check_description(candidate)


def _check_description(candidate: Candidate) -> Iterator[CheckLine]:
    """Check that the catalogue knows a model's window and price."""
    name, like = candidate.name, candidate.assumed_like
    advice = f"state them under models.catalogue.{name.partition('/')[2]}: input, output"
    if candidate.refusal:
        more = " (0 if it is free), or set limits.assumed_price"
        yield report_failed("price", f"{candidate.refusal}: it is refused", advice + more)
    elif candidate.is_charged:
        finding = f"{name}: its price is unknown, and it is charged at limits.assumed_price"
        yield report_warning("price", finding, advice)
    elif like:
        finding = f"{name}: its window and price are assumed to be those of {like}"
        yield report_warning("price", finding, f"{advice}, window")
    elif not candidate.is_listed:
        finding = f"{name}: its window and price are unknown, so limits.cost_usd cannot hold"
        yield report_warning("price", finding, f"{advice}, window")
    elif not candidate.has_price:
        finding = f"{name}: its price is unknown, so limits.cost_usd cannot hold"
        yield report_warning("price", finding, advice)


def _compare_list(listed: ModelList, candidates: Sequence[Candidate]) -> list[CheckLine]:
    """Compare a provider's list with the configured models and with the catalogue."""
    provider = listed.provider
    try:
        comparison = listed.compare()
    except SandpiperError as error:
        return [report_unchecked("served", str(error))]
    split = (each.name.partition("/") for each in candidates)
    ids = dict.fromkeys(model for who, _, model in split if who == provider)
    lines = [
        report_warning(
            "served",
            f"{provider} does not list {model}",
            f"check its name: `sandpiper models discover {provider}` shows those that there are",
        )
        for model in ids
        if not comparison.has_model(model)
    ]
    smaller = {each.id for each in comparison.differing_models} & set(ids)
    lines += [
        report_warning(
            "served",
            f"{provider} says less of {model} than the catalogue: "
            "a smaller window, or fewer levels",
            f"take over what `sandpiper models discover {provider}` prints",
        )
        for model in sorted(smaller)
    ]
    if lines:
        return lines
    missing, described = comparison.missing_models, "the catalogue describes all"
    if missing:
        names = ", ".join(each.id for each in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        described = f"the catalogue does not describe {names}{more}"
    count = len(comparison.all_models)
    finding = f"{comparison.provider} lists {count} models, those configured among them"
    return [report_good("served", f"{finding}; {described}")]
