"""go test, go build, go vet."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"--- FAIL: ",
        r"panic: ",
        r"# [\w.-]+/\S+$",
        r"Error Trace:",
        r"\[Fail\] ",
        r"fatal error: ",
        r"WARNING: DATA RACE",
        r"FAIL\s+\S+ \[(?:build|setup) failed",
    ),
    closes=(
        r"(?:ok|FAIL)\s+\S+/\S+\s",
        r"--- PASS: ",
        r"=== RUN ",
    ),
)
