"""`limits:`, `retention:`, `worker:`: the limits and storage time of runs, and their workers."""

from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import Field, create_model, model_validator

from worker.conversation.limits import BUDGETS, Limits
from worker.settings.base import Clash, Part


def _make_budget_fields() -> dict[str, Any]:
    """Make the settings of a run's budgets from their rows: each one's type and its field."""
    types = get_type_hints(Limits)
    return {
        each.name: (
            types[each.name],
            Field(default=each.default, description=row.setting, **row.bounds),
        )
        for each in fields(Limits)
        if (row := BUDGETS.get(each.name))
    }


_BudgetSettings: Any = create_model("_BudgetSettings", __base__=Part, **_make_budget_fields())


class LimitSettings(_BudgetSettings):  # type: ignore[misc]
    """`limits:`: of one run, one thread, one project, all projects.

    Those of one run are the table of budgets, `conversation.limits.Limits`.
    """

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
        description="Failures of one project that all workers together look into at a time; 0: "
        "half of one worker's threads.",
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

    def make_limits(self, **others: Any) -> Limits:
        """Make the limits of a run; `others` are what `Limits` has besides the budgets."""
        return Limits(**self.model_dump(include=set(BUDGETS)), **others)


class RetentionSettings(Part):
    """`retention:`."""

    days: float = Field(
        default=90.0,
        ge=0,
        le=36_500,
        description="Days after which `sandpiper sweep` removes a session; 0: never.",
    )


class WorkerSettings(Part):
    """`worker:`, in seconds."""

    grace: float = Field(
        default=60.0,
        gt=0,
        description="Seconds that runs have after SIGTERM to end between two steps and be handed "
        "over. What kills the process has to wait longer.",
    )
    heartbeat: float = Field(
        default=8.0, gt=0, description="Seconds between two signs of life of a worker."
    )
    lease: float = Field(
        default=30.0,
        gt=0,
        description="Seconds without a sign of life after which a worker is taken for dead, and "
        "its runs over. At least three heartbeats.",
    )

    @model_validator(mode="after")
    def _check_lease(self) -> "WorkerSettings":
        if self.lease < 3 * self.heartbeat:
            raise Clash(
                f"expected a lease ({self.lease:g}) of at least three heartbeats "
                f"(of {self.heartbeat:g})",
                "lease",
                "heartbeat",
            )
        return self
