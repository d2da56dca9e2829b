"""What a tool is: a name, a description, typed arguments, and a function."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from sandbox.base import Sandbox, SandboxError, SandboxGone
from worker.arguments import A, schema
from worker.core.conversation.messages import ToolSpec
from worker.core.ports import Source
from worker.core.text.preview import LIMIT
from worker.core.text.untrusted import one_line
from worker.errors import UNFORESEEN, ArgumentError, SandboxLost, SourceError

MAX_MESSAGE = 300
"""Characters of an exception that nobody has foreseen."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools work with in one run.

    `exec_timeout` is the longest a command may take, in seconds. `redact` takes secrets out of
    results, whatever they are made of; what is written into the sandbox comes redacted.
    `preview_bytes` are those of one result that the model is shown.
    """

    sandbox: Sandbox
    sources: Mapping[str, Source]
    exec_timeout: float
    redact: Callable[[str], str]
    preview_bytes: int = LIMIT


@dataclass(frozen=True, slots=True)
class ToolOutput:
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
    run: Callable[[A, ToolContext, int], ToolOutput]
    runs_in_order: bool = False

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(self.name, self.description, schema(self.args))


def catch_failure(run: Callable[[], ToolOutput], name: str) -> ToolOutput:
    """What `run`, named `name`, makes; its failure is a value too. Raises only SandboxLost."""
    try:
        return run()
    except SandboxGone as error:
        raise SandboxLost(str(error)) from error
    except SourceError as error:
        return ToolOutput({"unavailable": str(error)}, 0, is_error=True)
    except (ArgumentError, SandboxError) as error:
        return ToolOutput({"error": str(error)}, 0, is_error=True)
    except UNFORESEEN as error:
        _log.exception("%s failed", name)
        told = one_line(f"{type(error).__name__}: {error}", MAX_MESSAGE)
        return ToolOutput({"error": f"{name} failed: {told}"}, 0, is_error=True)
