"""GHC, hspec, tasty."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"[^\s:]{1,200}\.l?hs:\d+:\d+:? (?i:error|warning)",
        r"[^\s:]{1,200}\.l?hs:\d+:\d+:$",
        r"\S.{0,200}: +FAIL\b",
        r"Failures:",
    ),
    closes=(
        r"Finished in ",
        r"\S.{0,200}: +OK\b",
        r"\[ *\d+ of \d+\] Compiling",
    ),
)
