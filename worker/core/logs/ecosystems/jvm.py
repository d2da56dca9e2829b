"""Maven, Gradle, JUnit, Ant."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r".{0,200}<<< (?:FAILURE|ERROR)!",
        r"\* What went wrong",
        r"(?:Failed tests|Tests in error|Failures|Errors): *$",
        r"\S.{0,200} > .{0,200} FAILED$",
        r"> Task \S+ FAILED",
        r"COMPILATION ERROR",
        r"Exception in thread",
        r"\[javac\] \S+:\d+: error",
    ),
    closes=(
        r"\* Try:",
        r"BUILD FAIL",
        r"Tests run: .{0,80}Errors: 0, Skipped: \d+, Time",
    ),
)
