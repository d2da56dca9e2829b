"""Jest, Mocha, TAP, ESLint."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"● ",
        r"\d+ failing",
        r"not ok \d",
        r"[✖✗✕] ",
        r"FAIL +\S+\.[cm]?[jt]sx?",
        r"(?:\w+)?Error: ",
        r"\d+:\d+ +error ",
    ),
    closes=(
        r"Test Suites: ",
        r"npm ERR!",
        r"# (?:tests|pass|fail) +\d",
    ),
)
