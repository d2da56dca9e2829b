"""Lua, Perl, Tcl, Emacs Lisp, Vim and shell test tools."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"(?:Failure|Error) (?:→|->) ",
        r"# +Failed test",
        r"Test Summary Report",
        r"(?:FAILED|Found errors in|Caught exception) ",
        r"not ok ",
        r"Failed \d+/\d+ subtests",
        r"\S{1,200} \.\.+ (?:Dubious|Failed)",
        r"#   at \S{1,200} line \d",
        r"FAIL ",
    ),
    closes=(
        r"ok \d",
        r"# tests ",
    ),
)
