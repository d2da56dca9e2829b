"""`limits:`: the budgets of one run, with the words that warn the model of each, and what else
runs, threads and projects may use up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from worker.settings.base import Part


class Unit(StrEnum):
    """What a budget is counted in."""

    TIMES = "times"
    TOKENS = "tokens"
    SECONDS = "seconds"
    DOLLARS = "dollars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a turn has used up so far, as budgets count it."""

    iterations: int
    context_tokens: int
    """The tokens of its last prompt."""
    window: int
    """The most tokens that the model takes, as far as a refusal has shown; 0 if none has."""
    seconds: float
    cost_usd: float | None
    """None if the price of a call is unknown."""
    tokens: int
    """Those read and written by all its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a turn may use up. All that names a budget is made from its row in `LimitSettings`."""

    name: str
    """What the note of a turn says that it was stopped at. It is stored."""
    title: str
    """Its heading on the session's page."""
    unit: Unit
    count: Callable[[Used], float | None]
    """What is used of it; None if that is unknown, and so limits nothing."""
    adds: float = 0.0
    """What the next request is certain to use."""
    soft: str
    """What the model is told near the limit; `{used}`, `{limit}` and `{percent}` are numbers."""
    final: str
    """What the model is told with the final request."""
    find_limit: Callable[[Used, float], float] = lambda used, stated: stated
    """The limit that holds, given the stated one; 0 is none."""


class LimitSettings(Part):
    """`limits:`: of one run, one thread, one project, all projects.

    A field with a row is a budget of one run: to add one is to add its field with its row.
    """

    max_iterations: Annotated[
        int,
        Budget(
            name="iterations",
            title="Iterations",
            unit=Unit.TIMES,
            count=lambda used: used.iterations,
            adds=1,
            soft="Iteration {used} of {limit}",
            final="This is your last iteration.",
        ),
    ] = Field(
        default=50,
        ge=1,
        le=1000,
        description="Model calls of one run; a workflow may set less.",
    )
    context_tokens: Annotated[
        int,
        Budget(
            name="context",
            title="Context",
            unit=Unit.TOKENS,
            count=lambda used: used.context_tokens,
            find_limit=lambda used, stated: min(stated, used.window or stated),
            soft="{percent} % of your context is used",
            final="Your context is full.",
        ),
    ] = Field(
        default=200_000,
        ge=1000,
        description="Tokens of one prompt; the model's window, if that is smaller.",
    )
    wall_clock: Annotated[
        float,
        Budget(
            name="wall clock",
            title="Time",
            unit=Unit.SECONDS,
            count=lambda used: used.seconds,
            soft="{used} of your {limit} seconds are over",
            final="Your time is up.",
        ),
    ] = Field(default=900.0, gt=0, description="Seconds of one run.")
    cost_usd: Annotated[
        float,
        Budget(
            name="cost",
            title="Cost",
            unit=Unit.DOLLARS,
            count=lambda used: used.cost_usd,
            soft="{percent} % of your cost budget is used",
            final="Your cost budget is used up.",
        ),
    ] = Field(
        default=2.0,
        gt=0,
        description="Dollars of one run. If it is set, or a cap on a day is, a model without a "
        "known price is refused.",
    )
    tokens: Annotated[
        int,
        Budget(
            name="tokens",
            title="Tokens",
            unit=Unit.TOKENS,
            count=lambda used: used.tokens,
            soft="{percent} % of your tokens are used",
            final="Your tokens are used up.",
        ),
    ] = Field(
        default=0,
        ge=0,
        description="Tokens of all model calls of one run together, read (also from the cache) "
        "and written; 0: no cap.",
    )
    assumed_price: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Dollars per million tokens, read or written, of a model without a known "
        "price; 0: nothing is assumed.",
    )
    preview_bytes: int = Field(
        default=4096,
        ge=1024,
        le=65_536,
        description="Bytes of one result that the model is shown; the whole is a file. One that is "
        "longer by up to a quarter is shown whole. Of the output of a command never more than "
        "4096, or 5120 if that is everything; a diff of up to 8 KB is shown whole.",
    )
    answer_tokens: int = Field(
        default=21_000,
        ge=1000,
        le=64_000,
        description="Tokens of one answer of a model, if it can write as many. Nothing is sent "
        "while it is written: what stands between may cut a connection that is silent so long.",
    )
    final_grace: float = Field(
        default=120.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds past `wall_clock` that the final answer may take.",
    )
    max_identical_calls: int = Field(
        default=3,
        ge=2,
        le=100,
        description="Times in a row that a model may ask for the same calls, also in turns of two "
        "or three; from then on they are not made, and it is told so.",
    )
    identical_calls_after_hint: int = Field(
        default=2,
        ge=1,
        le=100,
        description="Times more that it may ask for them before the run ends.",
    )
    turns_per_day: int = Field(default=20, ge=1, description="Answers in one thread and day.")
    project_concurrency: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Failures of one project that all workers together look into at a time, beside "
        "one of its branches; 0: half of one worker's threads.",
    )
    retries_per_day: int = Field(
        default=50,
        ge=0,
        description="Jobs of one project that `retry` runs again in a day (UTC); 0: no cap.",
    )
    cost_usd_per_day: float = Field(
        default=0.0,
        ge=0,
        description="Dollars that all projects together may cost in a day (UTC); 0: no cap.",
    )
    project_cost_usd_per_day: float = Field(
        default=0.0,
        ge=0,
        description="Dollars that one project may cost in a day (UTC); 0: no cap.",
    )

    def list_dollar_caps(self) -> list[str]:
        """List the caps on dollars that the operator has set."""
        days = ("cost_usd_per_day", "project_cost_usd_per_day")
        own = ["cost_usd"] if "cost_usd" in self.model_fields_set else []
        return [
            f"limits.{name}" for name in (*own, *(each for each in days if getattr(self, each)))
        ]


BUDGETS: Mapping[str, Budget] = {
    name: row
    for name, each in LimitSettings.model_fields.items()
    for row in each.metadata
    if isinstance(row, Budget)
}
"""The rows of all budgets, by the names of their settings."""
