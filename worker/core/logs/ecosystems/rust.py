"""cargo and rustc."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"error(?:\[E\d+\])?: ",
        r"---- .{1,200} stdout ----",
        r"thread .{1,200} panicked at",
        r"failures:",
        r"error: (?:could not compile|test failed|aborting|failed to)",
        r"(?:left|right): ",
        r"assertion .{1,200}failed",
        r"warning: (?:unused|denied)",
        r"Diff in /",
    ),
    closes=(
        r"test result: ",
        r"error: aborting due to",
        r"warning: ",
    ),
)
