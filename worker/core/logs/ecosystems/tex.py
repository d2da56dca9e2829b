"""TeX."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"! [A-Z]",
        r"l\.\d+ ",
        r"Runaway argument",
    ),
    closes=(r"No pages of output",),
)
