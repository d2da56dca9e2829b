"""RSpec, minitest, RuboCop."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"Failures:",
        r"Failure/Error:",
        r"rspec \./",
        r"(?:rake|bundler:) (?:aborted|failed)",
        r"\d+\) (?:Failure|Error)",
        r"\d+\) [A-Z]\w*(?: |::|#)",
        r"\S+\.rb:\d+:\d+: [CWEF]: ",
    ),
    closes=(
        r"Finished in ",
        r"\d+ (?:runs|examples), ",
    ),
)
