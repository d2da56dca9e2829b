"""`sandbox_exec`: runs a command in the session's container."""

from typing import Any

from pydantic import Field

from sandbox.base import Output
from sandbox.tools import LOG, describe_output
from worker.tools.arguments import Arguments
from worker.tools.base import ToolContext, ToolDef, ToolOutput


class Args(Arguments):
    """The arguments of `sandbox_exec`."""

    command: str = Field(min_length=1, max_length=100_000, description="A bash script.")
    timeout_seconds: float | None = Field(
        default=None, gt=0, description="Shorter than the usual limit."
    )


_WHY_KILLED = {True: ", for want of memory", None: ", perhaps for want of memory", False: ""}


def run_command(args: Args, context: ToolContext, number: int) -> ToolOutput:
    """Run the command; a non-zero exit status is a result like any other."""
    timeout = min(args.timeout_seconds or context.exec_timeout, context.exec_timeout)
    done = context.sandbox.exec(args.command, timeout=timeout, number=number)
    content: dict[str, Any] = {"exit_code": done.exit_code}
    if done.timed_out:
        content["timed_out"] = f"killed after {timeout:g} seconds; what it wrote until then follows"
    elif done.exit_code == 137:
        content["killed"] = f"by signal 9{_WHY_KILLED[done.out_of_memory]}"
    content |= _describe_stream("stdout", done.stdout)
    if done.stderr.size:
        content |= _describe_stream("stderr", done.stderr)
    return ToolOutput(content, done.stdout.size + done.stderr.size)


def _describe_stream(name: str, output: Output) -> dict[str, Any]:
    content: dict[str, Any] = {name: output.preview}
    if output.path:
        content[f"{name}_file"] = output.path
        content[f"{name}_bytes"] = output.size
        content[f"{name}_lines"] = output.lines
        if output.file_size < output.size:
            content[f"{name}_cut"] = f"the file holds only the first {output.file_size} bytes"
    return content


TOOL = ToolDef(
    name="sandbox_exec",
    description=(
        "Run a bash script in the sandbox. Files stay between calls, background processes end with "
        f"the call. {describe_output()} {LOG}"
    ),
    args=Args,
    run=run_command,
    runs_in_order=True,
)
