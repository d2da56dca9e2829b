"""Every error that Sandpiper raises on purpose, as one tree.

    SandpiperError
    ├── ConfigError        the operator's file or environment is wrong: the start is refused
    ├── Rejected           the webhook receiver refuses a request (carries the HTTP status)
    ├── ArgumentError      a tool call's arguments are wrong: the model reads the message
    ├── SourceError        a read-only source has nothing to give: the model reads the message
    ├── ForgeError         GitLab did not accept a write
    ├── ModelError         no usable answer from the model
    │   └── ContextOverflow    the request is longer than the provider takes
    ├── SandboxLost        the container died during the run
    ├── StoreError         the session store failed
    │   ├── TurnTaken          somebody else committed this turn first
    │   └── Unreadable         what is stored there makes no sense, at least at this look
    ├── QueueError         the broker does not accept the trigger
    └── NotFinished        a job ends before its trigger is done with, and is taken up again
        ├── LeaseLost          another worker has taken over, or will
        ├── HandedOver         this worker is shutting down
        ├── Busy               another trigger is at work on the session
        ├── DebounceNotOver    a newer failure may supersede this one
        └── Postponed          no model answers now

`sandbox` is a package of its own and has its own small tree: see `sandbox/base.py`.

`transient` says whether it is worth trying again later. `doubtful` says that the answer may be
somebody else's, or pass: it ends nothing for good before it has stayed the same for minutes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_doubts: ContextVar[list[str] | None] = ContextVar("sandpiper_doubts", default=None)


@contextmanager
def collect_doubts() -> Iterator[list[str]]:
    """Yield a list that gets the message of each doubtful error of this context, also of those that
    are caught and answered with a default ("not found", "no member") before the block ends."""
    found: list[str] = []
    token = _doubts.set(found)
    try:
        yield found
    finally:
        _doubts.reset(token)


class SandpiperError(Exception):
    """The root. The message names what was wrong, where, and what to do."""

    def __init__(self, message: str, *, transient: bool = False, doubtful: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        self.doubtful = doubtful
        if doubtful and (found := _doubts.get()) is not None:
            found.append(message)


UNFORESEEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What a bug in a source or a tool may raise; any other unexpected exception ends the run."""


class ConfigError(SandpiperError):
    """The operator's configuration, a workflow file or a secret is missing or wrong."""


class Rejected(SandpiperError):
    """A request that the receiver refuses; `status` is the HTTP status to answer with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ArgumentError(SandpiperError):
    """The model called a tool with arguments that don't fit its schema."""


class SourceError(SandpiperError):
    """A source cannot give what was asked for; the message says what is missing and why."""


class ForgeError(SandpiperError):
    """GitLab refused a write, or could not be reached.

    `status` is the HTTP status that GitLab answered with, 0 if there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        doubtful: bool = False,
        status: int = 0,
    ) -> None:
        super().__init__(message, transient=transient, doubtful=doubtful)
        self.status = status


NO_TOOLS = "no_tools"
"""The `kind` of a ModelError for a model that is served without native tools."""

CIRCUIT_OPEN = "circuit_open"
"""The `kind` of a ModelError without a request: the provider has not answered for a while."""

SILENT = "timeout"
"""The `kind` of a ModelError for an answer that did not come, or not whole, in the time for it."""


class ModelError(SandpiperError):
    """The model gave no usable answer after all retries.

    `retry_after` is in seconds, as the provider asked, or None. `kind` is one of a few words.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        kind: str = "failed",
    ) -> None:
        super().__init__(message, transient=transient)
        self.retry_after = retry_after
        self.kind = kind


class ContextOverflow(ModelError):
    """The request is longer than the provider takes: a shorter one may be answered.

    `limit` is how many input tokens the provider takes, `count` how many it has counted in this
    request; 0 if it does not say.
    """

    def __init__(
        self, message: str, *, kind: str = "overflow", limit: int = 0, count: int = 0
    ) -> None:
        super().__init__(message, kind=kind)
        self.limit, self.count = limit, count


class SandboxLost(SandpiperError):
    """The sandbox's container is gone; its files since the last export are lost.

    `has_run` is false if it never started, so that its commands may safely be run again.
    """

    def __init__(self, message: str, *, has_run: bool = True) -> None:
        super().__init__(message)
        self.has_run = has_run


class StoreError(SandpiperError):
    """The session store cannot be read or written."""


class TurnTaken(StoreError):
    """The turn's `context.json` exists already: another worker committed it."""


class Unreadable(StoreError):
    """What is stored there makes no sense. It stays, and is looked at again in some minutes."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True, doubtful=True)


class QueueError(SandpiperError):
    """The broker does not accept the trigger."""


class NotFinished(SandpiperError):
    """The job ends before its trigger is done with, and is taken up again: at once by another
    worker (`LeaseLost`, `HandedOver`), or after a wait (`Busy`, `DebounceNotOver`, `Postponed`).

    Nothing is posted. `retry_after` is how many seconds to wait at least, None if nobody has said.
    """

    def __init__(
        self, message: str, *, transient: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, transient=transient)
        self.retry_after = retry_after


class LeaseLost(NotFinished):
    """This worker was considered dead, and another one has taken over its runs; or it was stopped
    before the run could end, and the next one continues it."""


class HandedOver(NotFinished):
    """This worker shuts down before the run ends."""


class Busy(NotFinished):
    """Another trigger is at work on the session."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)


class DebounceNotOver(NotFinished):
    """The failure is so recent that a newer one may supersede it; try again in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the failure rests for another {seconds:.1f} s (gitlab.debounce)",
            transient=True,
            retry_after=seconds,
        )


class Postponed(NotFinished):
    """No provider answers now; the run continues when one answers again.

    Since `waits_since` (epoch seconds) the run has only waited.
    """

    def __init__(
        self, message: str, *, waits_since: float = 0.0, retry_after: float | None = None
    ) -> None:
        super().__init__(message, transient=True, retry_after=retry_after)
        self.waits_since = waits_since
