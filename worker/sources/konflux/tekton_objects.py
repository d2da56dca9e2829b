"""Tekton's objects as types: only what is used (tekton.dev/v1)."""

from pydantic import Field

from worker.gitlab.read.api.wire import Answer


class Metadata(Answer):
    """A Kubernetes object's name and labels."""

    name: str
    labels: dict[str, str] = Field(default={})
    creationTimestamp: str | None = None


class Condition(Answer):
    """How far a run is: type Succeeded with status True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Terminated(Answer):
    """How a container ended."""

    exitCode: int = 0
    reason: str = ""


class Step(Answer):
    """A step of a task: a container of the task's pod."""

    name: str = ""
    container: str = ""
    terminated: Terminated | None = None


class RunStatus(Answer):
    """The status of a PipelineRun or a TaskRun; pod and steps are a TaskRun's."""

    conditions: tuple[Condition, ...] = ()
    startTime: str | None = None
    completionTime: str | None = None
    podName: str = ""
    steps: tuple[Step, ...] = ()


class Run(Answer):
    """A PipelineRun or a TaskRun."""

    metadata: Metadata
    status: RunStatus = RunStatus()

    @property
    def condition(self) -> Condition:
        """The condition `Succeeded`; an empty one if there is none yet."""
        found = (each for each in self.status.conditions if each.type == "Succeeded")
        return next(found, Condition())


class ListMeta(Answer):
    """Where a list goes on: `continue` is set if it does."""

    more: str = Field(default="", alias="continue")


class Runs(Answer):
    """A page of runs."""

    items: tuple[Run, ...] = ()
    metadata: ListMeta = ListMeta()
