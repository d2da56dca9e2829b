"""pytest, unittest, tracebacks."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"={3,} (?:FAILURES|ERRORS) =",
        r"_{2,} \S.{0,150} _{2,}$",
        r"(?:ERROR|FAIL): [\w.]+(?: \(|$)",
        r"[\w./-]{1,200}\.py::\S.{0,200} (?:FAILED|ERROR)\b",
        r"E {2,}",
        r"Fatal Python error",
        r"[\w./-]{1,200}\.py:\d+: error: ",
        r"mypy: |ImportError while",
        r"Traceback \(most recent",
        r"(?:FAILED|ERROR) \S+\.py",
    ),
    closes=(
        r"={3,} (?:short test summary|warnings summary|slowest|\d+ )",
        r"Ran \d+ tests?",
    ),
)
