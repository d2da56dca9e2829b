"""Erlang and Elixir: Common Test, EUnit, ExUnit."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"\d+\) (?:test|property) ",
        r"\*\* \(\w+",
        r"\w+:\w+ failed(?: on line \d+)?$",
        r"== Compilation error",
        r"Assertion with ",
        r"%%% .{0,200}FAILED",
        r"Reason: ",
    ),
    closes=(
        r"Finished in ",
        r"Testing \S+: \*\*\* FAILED test case",
    ),
)
