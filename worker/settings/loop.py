"""`loop:`: how a turn is led."""

from pydantic import Field

from worker.core.conversation.plan import PlanBy
from worker.settings.base import Part


class LoopSettings(Part):
    """`loop:`. A workflow may set other values of the same fields."""

    plan: PlanBy = Field(
        default=PlanBy.FACTS,
        description="What is prepared before the model is asked: `off`; `facts`: the "
        "representative logs, the diff and the list of jobs are saved in the sandbox while the "
        "model thinks, it is shown what explains the failure, and steps are proposed by rules; "
        "`model`: `models.helper` proposes the steps.",
    )
