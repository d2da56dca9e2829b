"""cargo and rustc."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"error(?:\[E\d+\])?: ",
        r"---- .{1,200} stdout ----",
        r"thread .{1,200} panicked at",
        r"failures:",
    ),
    closes=(
        r"test result: ",
        r"error: aborting due to",
        r"warning: ",
    ),
)
