"""xcodebuild, xcpretty, Swift."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"[^\s:]{1,200}:\d+: error: [-+]\[",
        r"❌ ",
        r"\*\* (?:BUILD|TEST|ARCHIVE) .{0,20}FAILED",
        r"The following build commands failed",
        r"Failing tests:",
        r"Undefined symbols for",
        r"\S{1,300}\.(?:swift|m|mm|h):\d+(?::\d+)?: (?:fatal )?error: ",
        r"xcodebuild: error",
        r"Testing failed:",
        r"✗ ",
        r"(?:ld|clang): (?:error|symbol|library)",
    ),
    closes=(
        r"Executed \d+ tests?, with 0 fail",
        r"Test Case .{0,200} passed",
    ),
)
