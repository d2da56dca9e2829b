"""What a single line says, and what that weighs: its marks, from its words, its beginning and its
punctuation; and how much its words are those of lines by which people have explained failures.

The formats of blocks are those of `ecosystems`. The weights of marks are fitted on failed logs in
which people had marked the explaining lines: the first of each mark by logistic regression over the
marks alone, the second together with the line's place in the log (see `excerpt.weigh`). Refit the
second ones when a mark changes. The words' are `weights.bin`, which `python -m tests.fit_weights`
makes.
"""

import pkgutil
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from zlib import crc32

from ahocorasick_rs import AhoCorasick

from worker.logs.ecosystems import CLOSES, OPENS

_READ = 300
"""The most characters of a line that are read."""

_WORDS = {
    "fault": "error errors fatal panic panicked exception exceptions traceback fail fails failed"
    " failing failure failures assert assertion crash crashed",
    "trouble": "cannot unable undefined unresolved denied refused timeout missing invalid"
    " unexpected mismatch conflict conflicts killed segmentation segfault dumped abort aborted"
    " aborting unsupported unknown rejected broken incorrect illegal violation violations differ"
    " differs undeclared expired unreachable unrecognized unauthorized forbidden",
    "negation": "not no can't couldn't couldnt doesn't didn't isn't wasn't without never",
    "expected": "expected expects expecting expect actual actually got want wanted received was",
    "calm": "ok okay pass passed passes passing success successful successfully done complete"
    " completed finished succeeded",
    "level": "info debug trace notice",
    "soft": "warn warning warnings deprecated deprecation ignored ignoring skipped skipping retry"
    " retrying",
    "progress": "downloading downloaded download installing installed fetching compiling unpacking"
    " collecting obtaining"
    " setting resolving resolved receiving updating cloning extracting preparing processing"
    " selecting checking copying uploading pulling get running building starting",
    "advice": "note help hint tip see please information run try",
    "test": "test tests spec specs example examples testing",
    "claim": "but should shouldn't must timed than instead left because find load",
    "told": "you your this only any may",
    "record": "log logs report reports reported results release upload uploaded store stats"
    " duration summary workflow",
    "reason": "reason due wrong difference message problem problems issue issues bad",
}
_CLASS = {word: name for name, words in _WORDS.items() for word in words.split()}
_SHOUTED = {word.upper() for name in ("fault", "trouble") for word in _WORDS[name].split()}
_WORD = re.compile(r"[A-Za-z][A-Za-z']*")
_PATHS = re.compile(r"(?<!\S)\S*[\w.-]/[\w./-]+")
_NOTHING_HINTS = ("0", "no", "zero", "without", "=>")
_COUNTED = re.compile(r"[1-9]")

_HEADS = {
    "stamp": r"\W?\d\d:\d\d:\d\d|\W?\d{4}-\d\d-\d\d",
    "python_frame": r'File "',
    "frame": r"at \S|from \S+:\d+|in [`/]|\.\.\. \d+ more|#\d+ ",
    "caret": r"[|\s]*+[\^~]++[\s^~]*+$|\|",
    "judged": r"E {2,}",
    "pointed": r"> {2,}\S",
    "diff_head": r"--- |\+\+\+ |@@|diff --git",
    "diff": r"[+-](?![+-])\s*\S",
    "numbered": r"\d+\) ",
    "bullet": r"[-*•] ",
    "rule": r"\W{5,}+$",
    "heading": r"[=_*#~-]{2,}+ ?\S.*[=_*#~-]{2}$",
    "echo": r"[$>] ?\S|\+{1,2}\w|The command \"",
    "place_head": r"[\w./\\@-]+\.\w{1,10}[:(]\d",
    "make": r"g?make(?:\[\d+\])?: ",
    "loud": r"\W{0,6}(?:ERROR|FATAL|FAIL|error(?:\[\w+\])?:|fatal:|panic:|not ok|Traceback"
    r"|Caused by|[✗✖✕✘●❌])",
}
_HEAD = re.compile(r"\s*+(?:" + "|".join(f"(?P<{n}>{p})" for n, p in _HEADS.items()) + ")")
_WELL = re.compile(
    r"\s*+(?:[✓✔√] |--- PASS|=== (?:RUN|PAUSE|CONT|NAME) |PASS(?:ED)?\b|ok\b|OK\b|=*+\[\+\] "
    r"|\[ +OK \]|\[ RUN +\]|Test Case .{1,200} (?:passed|started)\b"
    r"|(?:\[? *\d{1,3}%|\[ *\d+/\d+\] )(?!.{0,200}(?:[Ee]rror:|FAILED))"
    r"|(?:\[INFO\] )?(?:Download(?:ing|ed)|Progress)\b"
    r"|Running `\S{0,200}rustc )"
    r"|(?:(?![Ee]rror|ERROR|[Ff]ail|FAIL|Exception|atal|anic).){0,60}?\b(?:DEBUG|TRACE)\b|.{0,100}?(?:level=(?:debug|trace)\b|\[(?:debug|trace)\])"
    r"|.{1,250}(?:\.\.\. ?(?:ok|OK|passed)|\bPASSED(?:\s+\[ *\d+%\])?"
    r"|: (?: +OK(?: \([\d.]{1,9}s\))?|OK \([\d.]{1,9}s\)) *)$"
)
"""How passed tests, debug messages and progress look, whatever words they contain."""

_PREFIX = re.compile(
    r"#\d{1,4} (?:\d{1,6}\.\d{1,4} )?|\[\d\d:\d\d:\d\d(?:\.\d{1,6})?\]:? +"
    r"|[A-Za-z][\w.-]{0,40} +\| |##\[error\]|\[info\] {3}(?=\S)"
)
"""What image builds, task runners, Docker Compose and sbt put before each line."""

_ANNOTATED = "##[error]"
"""How a runner marks a line as an error, whatever words it contains."""

_NO_SOURCE = "(Unknown Source)"
"""Java's place of a frame without debug information."""

_LEVEL = r"\s*+(?:\[\w{4,7}\]:?\s+)?"
_OPENS = re.compile(f"{_LEVEL}(?:{'|'.join(OPENS)})")
_CLOSES = re.compile(f"{_LEVEL}(?:{'|'.join(CLOSES)})")

_HOLDS = {
    "trouble": (
        *("not found", "Not found", "No such", "o module named", "unbound variable", "not met"),
        *("not installed", "is outdated", "is required", "are required", "not defined"),
    ),
    "named": ("Error", "Exception", "Failure"),
    "crossed": (*"✗✖✕✘●❌", "[-]", "not ok", "***", "Fatal Python error", "[BUG]"),
    "colon_error": (
        *("error:", ": error", "Error: ", "Exception: ", "[error]", "ERROR:", "Failure: "),
    ),
    "link": ("://",),
    "fold": (
        *("travis_time", "travis_fold", "##[endgroup]", "##[group]"),
        *("section_start:", "section_end:"),
    ),
    "ended": (
        *("exited with", "exit code", "exit status", "Job failed", "Your build", "status code"),
        *("returned non-zero", "returned a non-zero"),
    ),
    "probe": (
        *("conftest.c", "_configtest.c", "CMakeTmp", "CMakeScratch", "/meson-private/"),
        *("testfile.c", "-- Looking for", "-- Performing Test"),
    ),
    "quoted": ("'", '"', "`", "‘"),
    "test_name": ("::", "test_", "_test", "Test.", "Tests.", "Spec."),
}
_PARTS = tuple((part, name) for name, parts in _HOLDS.items() for part in parts)
_FINDER = AhoCorasick([part for part, _ in _PARTS])
_NOTHING = re.compile(
    r"\b(?:0|no|without|zero) (?:\w+ )?(?:errors?|fail\w*|exceptions?|warnings?|problems?)\b"
    r"|(?:errors?|fail\w*|exceptions?)\W{1,4}0\b|=> (?:\d|on|off|enabled|no value)",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"\b[1-9]\d* (?:tests? |examples?,? |specs? |errors? )?(?:failed|failures?|errors?|failing"
    r"|problems?|offenses?)\b|(?:Fail(?:ures|ed)|Errors?)\W{1,3}[1-9]",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b[1-9]\d* (?:\w+ )?(?:fail\w*|errors?)\b|(?:fail\w*|errors?)\W{1,3}[1-9]"
    r"|^test result: FAILED|\d FAILED TESTS?$|^FAIL\t|# fail +[1-9]",
    re.IGNORECASE,
)
_TALLY = re.compile(
    r"\b\d+ (?:passed|passing|skipped|pending|total|tests?|examples?|runs|assertions|specs?)\b"
    r"|\b(?:Tests(?: run)?|Passed|Total|Assertions)\W{1,3}\d"
    r"|^\W{0,6}\d+ failing\b|^test result: FAILED|\bFAILED \((?:failures|errors)=|# fail +[1-9]"
    r"|\d FAILED TESTS?$|^FAIL\t\S+\t\d",
)
_TRAILER = re.compile(
    r"(?:\[ERROR\]|\[error\])? *(?:$|-> \[Help \d|\[Help \d+\]|To see the full stack trace"
    r"|Re-run Maven|For more information|After correcting|mvn <|Please refer to \S+surefire"
    r"|> Run with --|[>*] Get more help at|\* Try:|Run with --\w|> Learn more about"
    r"|npm (?:ERR!|error) (?:A complete log of this run|This is probably not a problem with npm"
    r"|Please include the following file|\s+\S+\.log$|$)"
    r"|info Visit https://yarnpkg|note: (?:run with `RUST_BACKTRACE|this error originates)"
    r"|Some errors have detailed explanations|Run `?npm audit|To address (?:all )?issues"
    r"|See (?:https?://|also \")|\[notice\] )"
)
"""What a build tool writes after any error: how to learn more."""

_WARNED = re.compile(r"\s*+\S{1,200}:\d{1,7}(?::\d{1,7})?: (?:warning|\w{0,40}Warning): ")
"""A warning of a compiler or of Python. A warning treated as an error is reported as an error."""

_FLAG = re.compile(r" -[IDLWfO][\w/.=-]")
_FLAGS = 3
"""A line with at least this many flags is a compiler command."""

_PLACE = re.compile(r"\.\w{1,5}(?:[:(]|\",)\d|[,:] line \d")
_EXIT = re.compile(
    r"(?:exited with|exit(?:ed)? (?:code|status)|returned (?:a )?(?:non-zero )?(?:exit )?"
    r"(?:code|status)|status code)[: ]*[1-9]\d{0,2}\b|\*\*\* \[[^\]]{0,200}\] Error \d"
    r"|^BUILD FAILED|^Build (?:step|failed)|FAILURE: Build failed",
    re.IGNORECASE,
)


def find_marks(text: str) -> set[str]:
    """Return the names of the line's marks, each of which has a weight."""
    line = _PREFIX.sub("", text[:_READ], count=1) if _PREFIX.match(text) else text[:_READ]
    # Half of a surrogate pair is no text to the finder; a model can write one in JSON.
    line = line if line.isascii() else line.encode("utf-8", "replace").decode("utf-8")
    found = _find_words(line.replace(_NO_SOURCE, ""))
    if text.startswith(_ANNOTATED):
        found.add("shouted")
    if head := _HEAD.match(line):
        found.add(str(head.lastgroup))
    found.update([_PARTS[at][1] for at, _, _ in _FINDER.find_matches_as_indexes(line, True)])
    _add_patterns(line, found)
    _add_shape(line, found)
    return found


def says_command_failed(text: str) -> bool:
    """Whether the line says that a command failed."""
    return _EXIT.search(text[:1000]) is not None


def _find_words(line: str) -> set[str]:
    words = set(_WORD.findall(_PATHS.sub(" ", line) if "/" in line else line))
    found = {_CLASS[word] for word in map(str.lower, words) if word in _CLASS}
    if not words.isdisjoint(_SHOUTED):
        found.add("shouted")
    return found


def _add_patterns(line: str, found: set[str]) -> None:
    if "fault" in found or "named" in found or "soft" in found:
        lowered = line.lower()
        if any(hint in lowered for hint in _NOTHING_HINTS) and _NOTHING.search(line):
            found.add("nothing")
        elif _COUNTED.search(line) and _SUMMARY.search(line):
            found.add("summary")
        if _FAILED.search(line) and _TALLY.search(line):
            found.add("tally")
    if ("." in line or " line " in line) and _PLACE.search(line):
        found.add("place")
    if _TRAILER.match(line):
        found.add("trailer")
    if "arning: " in line and _WARNED.match(line):
        found.add("warned")
    if " -" in line and len(_FLAG.findall(line)) >= _FLAGS:
        found.add("command")
    if _OPENS.match(line):
        found.add("opens")
    elif _CLOSES.match(line):
        found.add("closes")
    if "tally" not in found and _WELL.match(line):
        found.add("well")


def _add_shape(line: str, found: set[str]) -> None:
    stripped = line.strip()
    if line[:1].isspace():
        found.add("indented")
    if stripped.endswith(":"):
        found.add("colon")
    elif stripped.endswith(("{", ";", "}", ");")):
        found.add("brace")
    if len(stripped) < 12:
        found.add("short")
    elif len(stripped) > 160:
        found.add("long")
    if not found:
        found.add("quiet")


# ------------------------------------------------------------------- what the marks weigh

WEIGHTS = {
    "fault": (1.21, 0.468),
    "trouble": (0.91, 0.965),
    "negation": (0.81, 0.435),
    "expected": (0.93, 0.299),
    "calm": (-0.31, -0.550),
    "level": (-1.22, -0.759),
    "soft": (-0.99, -0.478),
    "progress": (-1.38, -0.631),
    "advice": (0.34, 0.122),
    "test": (0.16, 0.269),
    "claim": (1.64, 0.859),
    "told": (-1.00, -0.333),
    "record": (-1.00, -1.464),
    "reason": (0.36, -0.385),
    "shouted": (1.58, 1.988),
    "stamp": (-0.97, 0.006),
    "python_frame": (0.06, -0.952),
    "frame": (1.21, 0.234),
    "caret": (0.64, -0.875),
    "judged": (0.18, 0.757),
    "pointed": (0.42, 0.140),
    "diff_head": (1.73, -1.173),
    "diff": (0.80, -0.080),
    "numbered": (1.89, 1.544),
    "bullet": (0.23, 0.424),
    "rule": (-0.21, -1.606),
    "heading": (0.53, 0.128),
    "echo": (-0.56, -1.148),
    "place_head": (-0.24, -0.585),
    "make": (-0.35, -0.473),
    "loud": (0.81, -0.036),
    "named": (0.47, 0.312),
    "crossed": (1.11, 1.467),
    "colon_error": (0.07, -0.120),
    "link": (-0.10, -0.620),
    "fold": (-1.36, -1.119),
    "ended": (1.42, -0.507),
    "quoted": (0.41, -0.183),
    "test_name": (0.49, 1.042),
    "nothing": (-1.82, -0.846),
    "summary": (1.14, 0.570),
    "tally": (-0.70, -1.612),
    "place": (0.45, -0.110),
    "opens": (1.43, 0.384),
    "closes": (-0.30, -0.790),
    "well": (-1.84, -0.868),
    "trailer": (-0.33, 0.583),
    "warned": (0.00, -2.129),
    "probe": (-1.87, -2.223),
    "command": (-0.28, 0.684),
    "indented": (0.15, -0.849),
    "colon": (0.46, -0.222),
    "brace": (0.32, 0.180),
    "short": (-0.14, -0.482),
    "long": (0.14, 0.346),
    "quiet": (-0.77, -0.637),
}
"""The weights of each mark: by itself, and together with the line's place."""

_BASE_OWN, _BASE = -1.63, -4.941
_MOST = 6.0


def sum_marks(names: Iterable[str]) -> tuple[float, float]:
    """Return a line's own weight, from -6 to 6, and what its marks add to its final weight."""
    pairs = [WEIGHTS[name] for name in names]
    own = _BASE_OWN + sum(first for first, _ in pairs)
    return max(-_MOST, min(_MOST, own)), _BASE + sum(second for _, second in pairs)


# ------------------------------------------------------------------------- what its words weigh

SIZE = 1 << 16
"""How many weights of words there are."""

HEADER = struct.Struct("<8sHff")
"""The head of `weights.bin`: `MAGIC`, `VERSION`, scale and bias. One signed byte a weight follows:
the weight divided by the scale."""

MAGIC = b"SPWORDS\n"
VERSION = 1
"""The way in which words are hashed and weights stored; another one is not read."""

_FACTOR, _NEUTRAL = 0.25, -2.5
"""How much a line's score counts beside its other weights, and the score that adds nothing.
Not fitted."""

_SCORED = 200  # characters of a line whose words are read
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[^\sa-z\d]{1,8}")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class WordWeights:
    """The weights of words: a word's is at its hash, in units of `scale`."""

    scale: float
    bias: float
    weights: memoryview

    def score(self, text: str) -> float:
        """Return how likely a line with these words explains a failure."""
        return self.bias + self.scale * sum(map(self.weights.__getitem__, hash_words(text)))


def weigh_words(text: str) -> float:
    """Return what is added to a line's weight for its words."""
    return _FACTOR * (_load_weights().score(text) - _NEUTRAL)


@cache
def _load_weights() -> WordWeights:
    return read_weights(pkgutil.get_data(__package__, "weights.bin") or b"")


def read_weights(data: bytes) -> WordWeights:
    """Read what `HEADER` describes. Raises ValueError if it is of another version or size."""
    magic, version, scale, bias = HEADER.unpack_from(data)
    if (magic, version, len(data)) != (MAGIC, VERSION, HEADER.size + SIZE):
        raise ValueError(f"weights.bin is not of version {VERSION}: make it again")
    return WordWeights(scale, bias, memoryview(data)[HEADER.size :].cast("b"))


def hash_words(text: str) -> set[int]:
    """Return the numbers below `SIZE` of a line's words, of its pairs of words and of its first
    word. All numbers are one word."""
    found = _TOKEN.findall(_HUMPS.sub(" ", text[:_SCORED].strip()).lower())
    words = ["0" if word.isdigit() else word for word in found]
    pairs = map(" ".join, pairwise(words))
    first = [f"^{word}" for word in words[:1]]
    return {crc32(each.encode()) % SIZE for each in (*words, *pairs, *first)}
