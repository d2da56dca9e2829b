""".NET, MSBuild, PowerShell and Pester."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r".{0,200}: error [A-Z]{2,}\d+",
        r"\[-\] ",
        r"Failed +[\w.]+[. (]",
        r"Error Message:",
        r"Assert\.\w+\(\) Failure",
        r"\S.{0,250} \[FAIL\]",
        r"\+ (?:CategoryInfo|FullyQualifiedErrorId)",
    ),
    closes=(
        r"\[\+\] ",
        r"Passed +[\w.]+",
        r"Tests (?:completed|Passed)",
    ),
)
