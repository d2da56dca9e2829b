"""Leiningen and clojure.test."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"(?:FAIL|ERROR) in \(",
        r"Reflection warning",
        r"Syntax error ",
    ),
    closes=(r"Ran \d+ tests",),
)
