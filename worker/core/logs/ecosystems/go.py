"""go test, go build, go vet."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"--- FAIL: ",
        r"panic: ",
        r"# [\w.-]+/\S+$",
        r"Error Trace:",
        r"\[Fail\] ",
    ),
    closes=(
        r"(?:ok|FAIL)\s+\S+/\S+\s",
        r"--- PASS: ",
        r"=== RUN ",
    ),
)
