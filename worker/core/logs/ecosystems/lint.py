"""Linters that print one place per line, and link checkers."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"[^\s:]{1,200}:\d+:\d*:? (?:error|warning|[A-Z]{1,4}\d{1,4})\b",
        r"[A-Z]{1,5}\d{2,5} (?:\[\*\] )?[A-Z`].{1,250}[^.\s]$",
        r"(?:Issues|Problems) ",
        r">>> Lint for ",
        r"Error \(\w+\)",
        r"\S{1,300} - \w{1,80} \S{1,200} (?:is invalid|failed validation): ",
        r"[\w./-]{1,200}:\d+(?::\d+)?: \S",
        r"\d+\. \S+://",
        r"(?:Incorrectly formatted|would reformat|diff --git) ",
    ),
    closes=(r"\d+ files? (?:checked|inspected)",),
)
