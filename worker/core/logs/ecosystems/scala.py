"""sbt with ScalaTest or specs2."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"- .{0,300}\*\*\* FAILED \*\*\*",
        r"x \S",
        r"==> X ",
    ),
    closes=tuple(
        rf"(?<=\[info\]{indent})(?:- (?!.*\*\*\* FAILED)|\+ )" for indent in (" ", " " * 3, " " * 5)
    ),
)
