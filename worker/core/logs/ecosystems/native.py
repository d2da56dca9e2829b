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
        r"(?:==\d+==)?(?:ERROR|WARNING): (?:Address|Leak|Thread|Undefined|Memory)\w*Sanitizer",
        r"\S{1,200}:\d+(?::\d+)?: runtime error: ",
        r"SUMMARY: \w+Sanitizer",
        r"[^\s:]{1,200}: (?:In function|In member function|In file included)",
        r"In file included from ",
        r"[^\s:]{1,200}:\S{1,80}: undefined reference",
        r"[^\s:]{1,100}: (?:error|fatal error): ",
        r"collect2: error",
        r"FAILED: \S",
        r"(?:FAIL|XPASS): \S",
        r"The following tests FAILED",
        r"\d+ - \S{1,200} \((?:Failed|Timeout|SEGFAULT|Not Run|Child aborted|Exception)",
        r"\d+/\d+ Test .{1,200}\*\*\*",
        r"terminate called",
        r".{1,200}: Assertion .{1,200} failed",
        r"(?:[a-z]+-)?g?make(?:\[\d+\])?: \*\*\* No rule",
    ),
    closes=(
        r"(?:[a-z]+-)?g?make(?:\[\d+\])?: \*\*\*",
        r"\[       OK \]",
        r"-- Configuring incomplete",
        r"ninja: build stopped",
        r"(?:[a-z]+-)?g?make(?:\[\d+\])?: (?:Leaving|Entering)",
    ),
)
