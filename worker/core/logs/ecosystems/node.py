"""Jest, Mocha, Playwright, TAP, ESLint."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"● ",
        r"\d+ failing",
        r"not ok \d",
        r"[✖✗✕✘] ",
        r"\d+\) \[[^\]]{1,40}\] › ",
        r"FAIL +\S+\.[cm]?[jt]sx?",
        r"(?:\w+)?Error: ",
        r"\d+:\d+ +error ",
        r"\S{1,300}\.[cm]?[jt]sx?(?:\(\d+,\d+\)|:\d+:\d+)(?::| -) ",
        r"ERROR in ",
        r"'\S{1,80}' errored after",
        r"Error in plugin",
        r"Warning: Task ",
        r"(?:lerna|gyp) ERR!",
        r"ERR_PNPM|ELIFECYCLE",
        r"Module not found",
        r"(?:error|ERROR)\s+TS\d+",
        r"× |❯ ",
        r"npm (?:ERR!|error) code",
        r"error Command failed",
    ),
    closes=(
        r"Test Suites: ",
        r"npm ERR!",
        r"# (?:tests|pass|fail) +\d",
    ),
)
