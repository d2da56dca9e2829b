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
    ),
    closes=(
        r"(?:ok|changed): \[",
        r"\*{9}$",
    ),
)
