"""Checks the runner's reports. They are hostile: commands run beside the runner."""

from typing import Any

from sandbox.base import OUT, ExecResult, Output, SandboxError, SandboxLimit
from sandbox.image.preview import PREVIEW, most_shown
from sandbox.wire import BadReport

_MESSAGE = 300
_NAMED = 5


def clip_text(text: str, limit: int = most_shown(PREVIEW)) -> str:
    """Cut `text` to at most `limit` bytes of valid UTF-8."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def parse_result(report: dict[str, Any], number: int, seconds: float) -> ExecResult:
    """Parse the report of a command. Raises BadReport for what no runner sends."""
    timed_out, code = report.get("timed_out"), report.get("exit_code")
    if not isinstance(timed_out, bool):
        raise BadReport("timed_out is not a boolean")
    if code is not None and (type(code) is not int or not 0 <= code <= 255):
        raise BadReport("exit_code is not one")
    if (code is None) != timed_out:
        raise BadReport("exit_code and timed_out contradict each other")
    out_of_memory = report.get("out_of_memory")
    if out_of_memory is not None and not isinstance(out_of_memory, bool):
        raise BadReport("out_of_memory is not a boolean")
    return ExecResult(
        exit_code=code,
        stdout=_parse_output(report.get("stdout"), f"{OUT}/{number}.txt"),
        stderr=_parse_output(report.get("stderr"), f"{OUT}/{number}.err.txt"),
        seconds=seconds,
        timed_out=timed_out,
        out_of_memory=out_of_memory,
    )


def _parse_output(stream: object, path: str) -> Output:
    if not isinstance(stream, dict):
        raise BadReport("a stream is missing")
    preview, binary = stream.get("preview"), stream.get("binary")
    if not isinstance(preview, str) or not isinstance(binary, bool):
        raise BadReport("a stream has no preview")
    size, lines, kept = (_parse_count(stream.get(key)) for key in ("size", "lines", "kept"))
    if kept > size or lines > size:
        raise BadReport("a stream's counts contradict each other")
    return Output(
        preview=clip_text(preview),
        size=size,
        lines=lines,
        path=path if kept else None,
        file_size=kept,
        binary=binary,
    )


def _parse_count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 60:
        raise BadReport("a count is not one")
    return value


def make_empty_result(seconds: float, *, timed_out: bool) -> ExecResult:
    """Make the result of a command without a report.

    The command timed out, or killed its runner, or was killed as the connection was lost.
    """
    if timed_out:
        return ExecResult(None, Output("", 0, 0), Output("", 0, 0), seconds, timed_out=True)
    text = (
        "[the command ended the process that kept its output, or the connection to it broke: the "
        "output is lost]"
    )
    return ExecResult(
        137, Output("", 0, 0), Output(text, len(text), 0), seconds, out_of_memory=False
    )


def describe_left_out(report: dict[str, Any]) -> str:
    """Describe what an archive does not hold; "" if it holds all. Raises BadReport."""
    count, names = _parse_count(report.get("left_out")), report.get("names")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise BadReport("the names of what was left out are none")
    if not count:
        return ""
    shown = "; ".join(clip_text(each, _MESSAGE) for each in names[:_NAMED])
    more = f"; and {count - _NAMED:,} more" if count > _NAMED else ""
    return f"{count:,} left out: {shown}{more}"


def raise_refusal(report: dict[str, Any], what: str) -> None:
    """Raise the error that the report's code stands for, if it has one.

    limit: SandboxLimit · missing: FileNotFoundError · path: ValueError · others: SandboxError.
    """
    code = report.get("error")
    if code is None:
        return
    message = f"{what}: {clip_text(str(report.get('message')), _MESSAGE)}"
    if code == "limit":
        raise SandboxLimit(message)
    if code == "missing":
        raise FileNotFoundError(message)
    if code == "path":
        raise ValueError(message)
    raise SandboxError(message)
