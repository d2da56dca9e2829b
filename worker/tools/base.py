"""What a tool is: a name, a description, typed arguments, and a function."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from sandbox.base import Sandbox, SandboxError, SandboxGone, SandboxNotStarted
from worker.conversation.messages import ToolSpec
from worker.errors import UNFORESEEN, ArgumentError, SandboxLost, SourceError
from worker.logs.preview import LIMIT, head_and_tail
from worker.safety.untrusted import one_line
from worker.tools.arguments import A, schema
from worker.tools.saved_documents import SavedDocuments
from worker.tools.source import Source

MAX_MESSAGE = 300
"""Characters of an unexpected exception's message that the model is shown."""

MAX_REFUSAL = 2048
"""Bytes that it is shown of what is wrong with its arguments."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools work with in one run.

    `exec_timeout` is the longest time for one command in seconds. `redact` removes secrets from
    results; documents are redacted before they are written into the sandbox. `preview_bytes` is the
    size of a result's preview, `whole_bytes` the largest size of a result that is shown whole.
    `documents` records what was saved before.
    """

    sandbox: Sandbox
    sources: Mapping[str, Source]
    exec_timeout: float
    redact: Callable[[str], str]
    preview_bytes: int = LIMIT
    whole_bytes: int = 1 << 20
    documents: SavedDocuments = field(default_factory=SavedDocuments)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result: the JSON object for the model, and the size of the output it describes."""

    content: Mapping[str, Any]
    size: int
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolDef(Generic[A]):
    """One row of the table of tools.

    `run` is given the parsed arguments, the context, and the call's number in the session, which
    names its spill file. It raises ArgumentError or SourceError with a message for the model.
    A tool that `runs_in_order` waits for earlier calls, whose effects it sees; others run in
    parallel.
    """

    name: str
    description: str
    args: type[A]
    run: Callable[[A, ToolContext, int], ToolOutput]
    runs_in_order: bool = False

    @property
    def spec(self) -> ToolSpec:
        """The tool's description for the model."""
        return ToolSpec(self.name, self.description, schema(self.args))


def catch_failure(run: Callable[[], ToolOutput], name: str) -> ToolOutput:
    """Call `run`; a failure of tool `name` becomes an error result. Raises only SandboxLost."""
    try:
        return run()
    except SandboxGone as error:
        has_run = not isinstance(error, SandboxNotStarted)
        raise SandboxLost(str(error), has_run=has_run) from error
    except SourceError as error:
        return ToolOutput({"unavailable": str(error)}, 0, is_error=True)
    except SandboxError as error:
        return ToolOutput({"error": str(error)}, 0, is_error=True)
    except ArgumentError as error:  # it quotes what the model wrote, however long that is
        return ToolOutput({"error": head_and_tail(str(error), MAX_REFUSAL)}, 0, is_error=True)
    except UNFORESEEN as error:
        _log.exception("%s failed", name)
        message = one_line(f"{type(error).__name__}: {error}", MAX_MESSAGE)
        return ToolOutput({"error": f"{name} failed: {message}"}, 0, is_error=True)
