"""What a job is given. `wiring.py` fills it with real parts, tests with others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sandbox.base import Driver, Sandbox
from worker.core.context import Subject
from worker.core.limits import Limits
from worker.core.messages import ToolSpec
from worker.core.ports import (
    Clock,
    Desk,
    FailedJob,
    Forge,
    LogLines,
    Model,
    SessionStore,
    Toolbox,
)
from worker.playbook import Playbook, Workflow


class Kit(Protocol):
    """The tools and sources of one workflow, bound to one subject."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""
        ...

    @property
    def notes(self) -> str:
        """The sources' part of the system prompt."""
        ...

    @property
    def lines(self) -> LogLines:
        """Captured logs, to prove quotes by."""
        ...

    def failures(self) -> tuple[FailedJob, ...]:
        """What can be told of the failure without a model. Raises nothing."""
        ...

    def open(self, sandbox: Sandbox) -> Toolbox:
        """The toolbox over a running sandbox."""
        ...


@dataclass(frozen=True, slots=True)
class Deps:
    """The parts of a job.

    `owner` names this worker in claims. `salt` sets dry-run sessions apart. `hosts` are the hosts
    a note may link to. `choices` are the models that a comment may ask for, by their names;
    `turns_per_day` is how often one thread is answered in a day.
    """

    desk: Desk
    forge: Forge
    store: SessionStore
    sandboxes: Driver
    model: Callable[[], Model]
    kit: Callable[[Subject, Workflow], Kit]
    playbook: Playbook
    limits: Limits
    clock: Clock
    redact: Callable[[str], str]
    gitlab_url: str
    hosts: frozenset[str]
    owner: str
    salt: str = ""
    choices: Mapping[str, Callable[[], Model]] = field(default_factory=dict)
    turns_per_day: int = 20

    def limits_for(self, workflow: str, model: Model) -> Limits:
        """The operator's limits, tightened by the workflow's and by the model's window."""
        wanted = self.playbook.get(workflow).max_iterations or self.limits.max_iterations
        return replace(
            self.limits,
            max_iterations=min(self.limits.max_iterations, wanted),
            context_tokens=min(self.limits.context_tokens, model.context_tokens),
        )
