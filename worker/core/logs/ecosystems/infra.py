"""Containers, packages, infrastructure as code."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"ERROR: (?:failed|Could not|No matching)",
        r"The command .{1,300} returned a non-zero",
        r"E: ",
        r"[╷│] *Error: ",
        r"RPM build errors",
        r"error: (?:Bad exit|Failed build)",
        r"(?:fatal|failed): \[",
        r"\*\*\* WARNING: Service ",
        r"Health check error",
        r"ERROR: (?:process|failed to solve|Job failed|Service|executor)",
        r"> \[.{1,100}\d/\d+\] ",
        r"failed to (?:solve|build|pull|create|start)",
        r"(?:Cannot connect|Error response from daemon|denied: |manifest for )",
        r"(?:helm|kubectl|terraform|ansible)\S{0,40}: ",
        r"Error from server",
        r"nox > Session .{1,80} failed",
        r"ERROR: +\S{1,40}: commands failed",
        r"error: Recipe ",
    ),
    closes=(
        r"(?:ok|changed): \[",
        r"\*{9}$",
    ),
)
