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
        r"/\S{1,300}:\[\d+,\d+\]",
        r"\S{1,300}\.(?:java|kt|scala|groovy):\d*:? ?(?:\[|error)",
        r"e: (?:file:)?/",
        r"[\w$.]{1,200}:\d+ (?:expected|»|Expected)",
        r"[\w$]{1,200}[.>][\w$\[\]>.-]{1,200}:\d+",
        r"Failed to execute goal",
        r"(?:Rule \d+|Could not (?:resolve|find|transfer)) ",
        r"Execution failed for task",
        r"[\w$.]{1,200}(?:Exception|Error)(?:: |$)",
        r"Caused by: ",
        r"Exception in thread",
        r"\[javac\] \S+:\d+: error",
    ),
    closes=(
        r"\* Try:",
        r"BUILD FAIL",
        r"-> \[Help",
        r"Re-run Maven",
        r"Tests run: .{0,80}Errors: 0, Skipped: \d+, Time",
    ),
)
