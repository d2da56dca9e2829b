"""Small stand-ins with laws of their own, for what a unit test must control."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sandbox.base import ExecResult, Output, SandboxGone
from worker.conversation.messages import ToolCall, ToolResult, ToolSpec, Usage
from worker.conversation.model import Reply, Request, StopReason
from worker.errors import ModelError
from worker.safety.redact import Redaction, Removed, mark
from worker.tools.source import Document, Ran

EMPTY = Output("", 0, 0)


@dataclass
class HandClock:
    """A clock that moves only when it is told to, or slept on."""

    time: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


@dataclass
class SetClock(HandClock):
    """A clock of which the time of day can be set, by so many seconds; its other time goes on."""

    ahead: float = 0.0

    def now(self) -> float:
        return self.time + self.ahead


@dataclass
class MemorySandbox:
    """Files in a dict; a command's result is what `answer` says."""

    answer: Callable[[str], ExecResult] = lambda command: ExecResult(0, EMPTY, EMPTY, 0.0)
    files: dict[str, bytes] = field(default_factory=dict)
    commands: list[tuple[str, float, int]] = field(default_factory=list)
    gone: bool = False

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        self._alive()
        self.commands.append((command, timeout, number))
        return self.answer(command)

    def put(self, path: str, content: Iterable[bytes]) -> int:
        self._alive()
        if not path.startswith("/tmp/"):
            raise ValueError(f"{path} is not under /tmp")
        self.files[path] = b"".join(content)
        return len(self.files[path])

    def get(self, path: str, *, limit: int) -> bytes:
        self._alive()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][:limit]

    def export(self, tell_left_out: Callable[[str], object] | None = None) -> Iterator[bytes]:
        self._alive()
        yield b"tar"

    def close(self) -> None:
        self.gone = True

    def _alive(self) -> None:
        if self.gone:
            raise SandboxGone("the container is gone")


Answer = Reply | ModelError


@dataclass
class ScriptedModel:
    """Answers from a list, in order; keeps every request."""

    answers: Sequence[Answer]
    name: str = "test/model"
    context_tokens: int = 100_000
    binds_thinking: bool = False
    keeps_cache_without_tools: bool = True
    requests: list[Request] = field(default_factory=list)

    def reply(self, request: Request) -> Reply:
        answer = self.answers[len(self.requests)]
        self.requests.append(request)
        if isinstance(answer, ModelError):
            raise answer
        return answer


def says(text: str, *calls: ToolCall, tokens: int = 10) -> Reply:
    """An answer of the scripted model."""
    stop = StopReason.TOOL_CALLS if calls else StopReason.END
    return Reply(text, calls, "", stop, Usage(uncached_input=tokens, output=1), 0.01)


@dataclass
class EchoToolbox:
    """One tool that answers every call with its own arguments."""

    ran: list[tuple[ToolCall, int]] = field(default_factory=list)
    fails: Callable[[ToolCall], Exception | None] = lambda call: None

    def is_repeatable(self, call: ToolCall) -> bool:
        return True

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        for number, call in enumerate(calls, first):
            if error := self.fails(call):
                raise error
            self.ran.append((call, number))
            yield Ran(ToolResult(call.id, call.name, call.arguments), len(call.arguments), 0.0)


@dataclass
class FixedSource:
    """A source with one answer; keeps the arguments it was asked with."""

    spec: ToolSpec
    answer: Document | Exception
    asked: list[str] = field(default_factory=list)

    def fetch(self, arguments: str) -> Document:
        self.asked.append(arguments)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def masking(secret: bytes, kind: str) -> Callable[[bytes], Redaction]:
    """What a redactor does that knows one secret."""

    def remove(data: bytes) -> Redaction:
        clean = data.replace(secret, mark(kind).encode())
        return Redaction(clean, (Removed(kind, secret),) * data.count(secret))

    return remove
