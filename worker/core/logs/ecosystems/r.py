"""R: R CMD check, testthat."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"\W{0,4}(?:\d+\. )?(?:Failure|Error) ?[:(]",
        r"Error in ",
        r"\* checking .{0,200}\.\.\. (?:\[.{0,30}\] )?(?:ERROR|WARNING|NOTE)",
        r"(?:Running the tests in .{0,100} failed|Last \d+ lines of output)",
    ),
    closes=(
        r"\* checking .{0,200}\.\.\. (?:\[.{0,30}\] )?OK",
        r"\* DONE",
    ),
)
