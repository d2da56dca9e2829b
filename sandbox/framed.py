"""A sandbox that runs its calls through the runner in a container of any kind.

The runner's reports are hostile, since commands run beside it: each is checked.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any

from sandbox.base import (
    OUT,
    ExecResult,
    Output,
    SandboxError,
    SandboxGone,
    SandboxLimit,
    SandboxUnavailable,
)
from sandbox.image.preview import PREVIEW, most_shown
from sandbox.supervised import SupervisedContainer
from sandbox.wire import BadReport, Ended, Session, Silent, StreamBroken, split_content

COMMAND_CAP = 1 << 20
"""The longest command, in bytes."""


class FramedSandbox(SupervisedContainer):
    """A running sandbox. The contract is sandbox.base.Sandbox."""

    # ----------------------------------------------------------------------------------- commands

    def exec(self, command: str, *, timeout: float, number: int, cwd: str = "/tmp") -> ExecResult:
        """Run a command. Raises SandboxLimit if it is longer than 1 MiB."""
        if len(command.encode("utf-8", "replace")) > COMMAND_CAP:
            raise SandboxLimit(f"the command is longer than {COMMAND_CAP:,} bytes: use a file")
        request = {
            "verb": "exec",
            "command": command,
            "cwd": cwd,
            "timeout": timeout,
            "number": number,
            "cap": self._spec.output_cap,
            "preview": min(self._spec.preview, PREVIEW),
        }
        began = time.monotonic()
        try:
            with self._borrow_session() as session:
                request["alone"] = self._busy == 1
                self._doubtful = True
                report = self._ask(session, request, timeout + self._spec.grace)
                if report.get("spoilt") is not False:
                    session.ready = False  # the next command would inherit what this one changed
                if "error" in report:
                    raise_refusal({**report, "error": "failed"}, "the command was not begun")
                return parse_result(report, number, time.monotonic() - began)
        except StreamBroken as error:
            self._recover(session, error)
            return make_empty_result(time.monotonic() - began, timed_out=isinstance(error, Silent))

    def _ask(self, session: Session, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and read its report.

        A killed runner was killed by its command. A runner that exits with 0 has lost the
        connection. Any other exit code is a bug of the runner, and the sandbox is ended.
        """
        try:
            session.send_request(request, time.monotonic() + seconds)
            return session.read_report()
        except Ended as error:
            code = session.wire.get_exit_code() if self.container.is_running() else None
            if code is not None and 0 < code < 128:
                raise self._end(f"the runner in {self.container.name} failed: {error}") from error
            raise

    # -------------------------------------------------------------------------------------- files

    def put(self, path: str, content: Iterable[bytes]) -> int:
        target = resolve_tmp_path(path)
        with self._transfer(f"writing {path}") as (session, deadline):
            session.begin_request(self._request("put", path=target), deadline)
            size = self._send(session, content, self._spec.put_cap, path)
            raise_refusal(session.read_report(), path)
        return size

    def get(self, path: str, *, limit: int) -> bytes:
        with self._transfer(f"reading {path}") as (session, deadline):
            session.send_request(self._request("get", path=path, limit=limit), deadline)
            content = b"".join(self._receive(session, limit, path))
            raise_refusal(session.read_last_report(), path)
        return content

    def export(self, tell_left_out: Callable[[str], object] | None = None) -> Iterator[bytes]:
        """See Sandbox.export. Commands that still run are ended first."""
        self._end_commands()
        what = "the sandbox's files"
        with self._transfer("saving the sandbox's files") as (session, deadline):
            session.send_request(self._request("pack", **self._spec.archive_caps), deadline)
            yield from self._receive(session, self._spec.archive_cap, what)
            report = session.read_last_report()
            raise_refusal(report, what)
            left_out = _describe_left_out(report)
            if left_out and tell_left_out:
                tell_left_out(left_out)

    def restore(self, archive: Iterable[bytes]) -> None:
        """Unpack an archive from `export` inside the container.

        Raises SandboxLimit if a cap is exceeded or unpacking runs out of memory, SandboxError if it
        is no archive, and SandboxUnavailable if the connection is lost: another start may succeed.
        """
        what = "the saved files of the session"
        try:
            with self._transfer("restoring the files") as (session, deadline):
                request = self._request("unpack", **self._spec.archive_caps)
                try:
                    session.begin_request(request, deadline)
                    self._send(session, archive, self._spec.archive_cap, what)
                    raise_refusal(session.read_report(), what)
                except Ended as error:
                    # If neither the runner nor the container has failed, the connection is lost.
                    # The container's end may be reported late, which `explain_end` waits out.
                    if (
                        session.wire.get_exit_code() in (None, 0)
                        and not self.container.explain_end()
                        and self.container.is_running()
                    ):
                        raise SandboxUnavailable(f"restoring the files: {error}") from error
                    raise
        except SandboxGone as error:
            with suppress(SandboxGone):  # the archive is blamed only if the engine still answers
                self.container.is_running()
                raise SandboxLimit(f"{what} cannot be unpacked: {error}") from error
            raise SandboxUnavailable(f"restoring the files: {error}") from error

    def _request(self, verb: str, **fields: object) -> dict[str, Any]:
        return {"verb": verb, "timeout": self._spec.transfer_timeout, **fields}

    def _send(self, session: Session, content: Iterable[bytes], cap: int, what: str) -> int:
        size, until = 0, time.monotonic() + self._spec.transfer_timeout
        for piece in split_content(content):
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} has more than {cap:,} bytes")
            if time.monotonic() > until:
                raise SandboxLimit(f"{what} took over {self._spec.transfer_timeout:.0f} s to come")
            session.send_data(piece)
        session.end_data()
        return size

    def _receive(self, session: Session, cap: int, what: str) -> Iterator[bytes]:
        size = 0
        for piece in session.read_data():
            size += len(piece)
            if size > cap:
                raise SandboxLimit(f"{what} are more than {cap:,} bytes")
            yield piece

    @contextmanager
    def _transfer(self, doing: str) -> Iterator[tuple[Session, float]]:
        """Open a call that moves files. If its stream breaks, recover and raise SandboxGone."""
        deadline = time.monotonic() + self._spec.transfer_timeout + self._spec.grace
        try:
            with self._borrow_session() as session:
                yield session, deadline
        except StreamBroken as error:
            self._recover(session, error)
            raise SandboxGone(f"{doing}: the sandbox broke off ({error})") from error


def resolve_tmp_path(path: str) -> str:
    """Return `path` normalised. Raises ValueError if it is not a file's path under /tmp."""
    pure = PurePosixPath(path)
    parts = [part for part in pure.parts if part not in ("/", "//")]
    if "\0" in path or ".." in parts or not pure.is_absolute() or parts[:1] != ["tmp"]:
        raise ValueError(f"{path!r} is not a path under /tmp")
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if len(parts) < 2 or path.endswith("/"):
        raise ValueError(f"{path!r} names a folder, not a file")
    if max(sizes) > 255 or sum(sizes) + len(sizes) > 1024:
        raise ValueError(f"{path[:100]!r}… is too long for a path")
    return "/" + "/".join(parts)


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


def _describe_left_out(report: dict[str, Any]) -> str:
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
