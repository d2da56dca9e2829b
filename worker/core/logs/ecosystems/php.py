"""PHPUnit, PHP itself, Composer."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"There (?:was|were) \d+ (?:failure|error|warning)",
        r"\d+\) [\w\\]+::\w+",
        r"(?:PHP )?(?:Fatal|Parse) error: ",
        r"Your requirements could not be resolved",
        r"KO ",
    ),
    closes=(
        r"(?:FAILURES|ERRORS)!",
        r"OK \(\d",
    ),
)
