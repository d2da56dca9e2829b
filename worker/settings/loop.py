"""`loop:`: how a turn is run."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from worker.settings.base import Part
from worker.settings.runs import MOST_CALLS, Gate, PlanBy


class ToolList(StrEnum):
    """Which tools a model is told of."""

    FULL = "full"
    COMPACT = "compact"


def read_off(value: object) -> object:
    """Return "off" for False, which is how YAML reads an unquoted `off`."""
    return "off" if value is False else value


PlanChoice = Annotated[
    PlanBy, BeforeValidator(read_off, json_schema_input_type=PlanBy | Literal[False])
]
GateChoice = Annotated[
    Gate, BeforeValidator(read_off, json_schema_input_type=Gate | Literal[False])
]


class LoopSettings(Part):
    """`loop:`. A workflow may set another `plan` and `gate`."""

    plan: PlanChoice = Field(
        default=PlanBy.FACTS,
        description="What is prepared before the model is asked: `off`; `facts`: the "
        "representative logs, the diff and the list of jobs are saved in the sandbox while the "
        "model thinks, it is shown what explains the failure, and steps are proposed by rules; "
        "`model`: `models.helper` proposes the steps.",
    )
    gate: GateChoice = Field(
        default=Gate.RULES,
        description="What a text has to be before it ends a turn: `off`: anything; `rules`: no "
        "promise, no tool call written as text, no raw data, with the sections of a finding, and "
        "not without a look; `judge`: `models.helper` is asked as well. What does not pass is "
        "asked for once more.",
    )
    tools: ToolList = Field(
        default=ToolList.FULL,
        description="Which tools the model is told of: `full`: all of the workflow's; `compact`: "
        "the workflow's `small_tools`, and `find_tool`, by which it finds the others.",
    )
    find_tool_uses: int = Field(
        default=3, ge=1, le=100, description="Times that `find_tool` may be used in one run."
    )
    empty_retries: int = Field(
        default=2,
        ge=0,
        le=20,
        description="Times in a row that a model is asked again after an answer without a text or "
        "a call; then the run ends.",
    )
    broken_answers: int = Field(
        default=3,
        ge=1,
        le=20,
        description="Answers in a row that are cut at their length limit or cannot be read, after "
        "which the run ends.",
    )
    calls_per_answer: int = Field(
        default=64,
        ge=1,
        le=MOST_CALLS,
        description="Tool calls of one answer; of an answer with more of them none is made, and it "
        "counts as broken.",
    )
