"""Leiningen and clojure.test."""

from worker.core.recognisers.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"(?:FAIL|ERROR) in \(",
        r"Reflection warning",
        r"Syntax error ",
    ),
    closes=(r"Ran \d+ tests",),
)
