"""What a tool is: a name, a description, typed arguments, and a function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from sandbox.base import Sandbox
from worker.arguments import A, schema
from worker.core.messages import ToolSpec
from worker.core.ports import Source


@dataclass(frozen=True, slots=True)
class Bench:
    """What tools work with in one run.

    `exec_timeout` is the longest a command may take, in seconds. `redact` takes secrets out of
    results, whatever they are made of; what is written into the sandbox comes redacted.
    """

    sandbox: Sandbox
    sources: Mapping[str, Source]
    exec_timeout: float
    redact: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Made:
    """What a tool made: the JSON object for the model, and the bytes it stands for."""

    content: Mapping[str, Any]
    size: int
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolDef(Generic[A]):
    """One row of the table of tools.

    `run` gets the parsed arguments, the bench, and the call's number in the session, which names
    its spill file. It raises ArgumentError or SourceError for what the model should read.
    `ordered` tools see what earlier calls did and wait for them; others may run side by side.
    """

    name: str
    description: str
    args: type[A]
    run: Callable[[A, Bench, int], Made]
    ordered: bool = False

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(self.name, self.description, schema(self.args))
