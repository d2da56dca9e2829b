"""C and C++: compilers, linkers, CMake, make, GoogleTest."""

from worker.core.logs.ecosystems.base import Recogniser

RECOGNISER = Recogniser(
    opens=(
        r"[^\s:]{1,200}:\d+(?::\d+)?: (?:fatal )?error:",
        r"CMake Error",
        r"[^\s:]{1,200}: (?:undefined reference|multiple definition)",
        r"\S{0,100}ld: ",
        r"\[  FAILED  \]",
        r"[^\s:]{1,200}:\d+: Failure",
        r"ERROR: (?:Address|Leak|Thread|Undefined)Sanitizer",
    ),
    closes=(
        r"(?:[a-z]+-)?g?make(?:\[\d+\])?: \*\*\*",
        r"\[       OK \]",
        r"-- Configuring incomplete",
    ),
)
