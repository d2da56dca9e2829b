"""What a recogniser is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recogniser:
    """How the tools of one ecosystem begin and end a block that explains a failure.

    Regular expressions, matched at the beginning of a line, after blanks and a log level in
    brackets. They are joined into one expression: they must have no capturing groups, and nothing
    that can match a long text in two ways.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...] = ()
