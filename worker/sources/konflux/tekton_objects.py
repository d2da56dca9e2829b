"""Tekton's objects as types: only what is used (tekton.dev/v1)."""

from pydantic import BaseModel, ConfigDict, Field


class _Object(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Metadata(_Object):
    """A Kubernetes object's name and labels."""

    name: str
    labels: dict[str, str] = {}
    creationTimestamp: str | None = None


class Condition(_Object):
    """How far a run is: type Succeeded with status True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Terminated(_Object):
    """How a container ended."""

    exitCode: int = 0
    reason: str = ""


class Step(_Object):
    """A step of a task: a container of the task's pod."""

    name: str = ""
    container: str = ""
    terminated: Terminated | None = None


class RunStatus(_Object):
    """The status of a PipelineRun or a TaskRun; pod and steps are a TaskRun's."""

    conditions: tuple[Condition, ...] = ()
    startTime: str | None = None
    completionTime: str | None = None
    podName: str = ""
    steps: tuple[Step, ...] = ()


class Run(_Object):
    """A PipelineRun or a TaskRun."""

    metadata: Metadata
    status: RunStatus = RunStatus()

    @property
    def condition(self) -> Condition:
        """The condition `Succeeded`; an empty one if there is none yet."""
        found = (each for each in self.status.conditions if each.type == "Succeeded")
        return next(found, Condition())


class ListMeta(_Object):
    """Where a list goes on: `continue` is set if it does."""

    more: str = Field(default="", alias="continue")


class Runs(_Object):
    """A page of runs."""

    items: tuple[Run, ...] = ()
    metadata: ListMeta = ListMeta()
