"""What counts as the same test, and whether a line of a log names it. Pure.

A test is known by the job that runs it, its class or else its file, and its own name with its
parameters, each without what is another in every run. Random parameters are left out even where
that makes one test of several: so a test that is not among the failures has surely not failed.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zlib import crc32

from worker.ledger.record import FailedTest, NamedTest
from worker.safety.untrusted import one_line

MAX_PART = 300
"""The most characters of each part of a test's name; of a longer one a sum of the rest is kept."""

_GROUP = re.compile(r"(?:[\s:]{1,9}(?:\[[^\[\]]{0,500}\]|\d{1,6}[\s:/\\]{1,9}\d{1,6})){1,3}\s*$")
"""What GitLab takes from a job's name to get its group: matrix variables, the number of a shard."""

_MODULE = re.compile(
    r"(?:[a-z_]\w{0,99}\.){0,20}?(?:test_\w{1,99}|\w{1,99}_test)(?=\.[A-Z]|$)", re.ASCII
)

_STEP = " > "
"""Between the job that starts a child pipeline and the job there."""


def name_suite(job: str) -> str:
    """Return a job's name without the number of its shard and the variables of its matrix."""
    steps = one_line(job, 4 * MAX_PART).split(_STEP)
    return _cut(_STEP.join(_GROUP.sub("", step).strip() or step for step in steps))


def name_test(suite: str, classname: str, name: str, file: str, at: float = 0.0) -> NamedTest:
    """Name a test by what is the same in each of its runs.

    `at` is when its pipeline was made, in epoch seconds: dates of those days in the name are left
    out. All other dates are parameters that somebody has chosen.
    """
    place = classname or file
    cleaned = _BRACKETS.sub("", clean(name, at))
    # Surefire writes the types of JUnit 5's parameters in braces.
    own = _TYPES.sub(r"(\g<types>)\g<index>", cleaned) or "(no name)"
    return NamedTest(name_suite(suite), _cut(_name_place(clean(place, at))), _cut(own))


def find_file(test: NamedTest, file: str) -> str:
    """Return the path of a test's file in its repository: as the report names it, or as the name of
    a Python module does, which is all that pytest reports; "" if neither does."""
    if file and not file.startswith("/"):
        return file.removeprefix("./")
    module = _MODULE.match(test.place)
    return f"{module[0].replace('.', '/')}.py" if module else ""


def clean(text: str, at: float = 0.0) -> str:
    """Return a name, or a line that may contain one, without what is another in each run."""
    text = one_line(text, 8 * MAX_PART)
    for pattern, placeholder in _MOVING:
        text = pattern.sub(placeholder, text)
    if at and _DATE.search(text):
        days = {datetime.fromtimestamp(at, UTC).date() + timedelta(days=day) for day in (-1, 0, 1)}
        forms = {day.strftime(form) for day in days for form in ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d")}
        text = _DATE.sub(lambda found: "<date>" if found[0] in forms else found[0], text)
    return " ".join(text.split())


def _cut(text: str) -> str:
    if len(text) <= MAX_PART:
        return text
    return f"{text[: MAX_PART - 12]}…n{crc32(text.encode(errors='replace')):010}"


def _name_place(place: str) -> str:
    """Return a class or a path as it is on every runner and every system."""
    if "/" in place or _WINDOWS_PATH.match(place):
        place = _CHECKOUT.sub("", place.replace("\\", "/"))
        return _LINE.sub("", place)
    return place.replace("\\", ".")


_BRACKETS = re.compile(r"\(\)(?=$|\[)|\s[(\[]\d{1,6}(?:\.\d{1,6})? ?m?s[)\]]$")
_TYPES = re.compile(r"\{(?P<types>[\w.$<>, \[\]]{1,200})\}(?P<index>\[\d{1,6}\])?$")
_WINDOWS_PATH = re.compile(r"[A-Za-z]:\\|[\w.-]{1,100}(?:\\[\w.-]{1,100}){1,30}\.\w{1,5}$")
_CHECKOUT = re.compile(
    r"(?:[A-Za-z]:)?/?(?:GitLab-Runner/)?builds/(?:[\w-]{8,24}/\d{1,4}/)?[\w.-]{1,100}/[\w.-]{1,100}/"
    r"|^(?:/app|/usr/src/app|/src|/workspace|/code)/|^\./"
)
"""Where runners check a project out. What is below may begin with folders of the group's name."""
_LINE = re.compile(r"(?<=\.\w{1})(?<!\d):\d{1,7}(?::\d{1,7})?$|(?<=\w):\d{1,7}(?::\d{1,7})?$")
_DATE = re.compile(r"(?<!\d)\d{4}(?P<sign>[-/]?)\d\d(?P=sign)\d\d(?!\d)")

_HEX = r"[0-9a-f]{8,64}|[0-9A-F]{8,64}"
_MINUTE = r"\d{4}-\d\d-\d\d[T_ ]\d\d[:_-]?\d\d"
_MIXED = r"(?=[A-Fa-f]{0,63}\d)(?=\d{0,63}[A-Fa-f])"

_MOVING = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        (r"(?<=at )0x[0-9a-fA-F]{1,16}\b|\b0x[0-9a-fA-F]{9,16}\b", "<address>"),
        (r"(?<=[\w\])$])@(?=[a-f]{0,8}\d|[a-f]{5,8}\b)[0-9a-f]{5,8}\b", "@<address>"),
        (r"\$\$Lambda[$/\w]{0,60}|\$MockitoMock\$\d{1,20}|\$\$EnhancerBy\w{1,40}\$\$\w{1,20}",
         "$<generated>"),
        # Temporary folders: of pytest, Python, mktemp, Go, JUnit and macOS.
        (r"\bpytest-of-[\w.-]{1,40}/pytest-\d{1,9}(?:/popen-gw\d{1,4})?", "<tmp>"),
        (r"/(?:private/)?var/folders/[^\s/]{2}/[^\s/]{10,60}/T", "/tmp"),
        (r"(?<=[/\\])tmp[._-]?(?=[a-z]{0,9}[\dA-Z_]|[a-z]{8}\b)\w{6,12}\b", "<tmp>"),
        (r"\btmp(?=[a-z_]{0,7}\d)[a-z0-9_]{8}\b|\btmp\.\w{6,12}\b", "<tmp>"),
        (r"(?<=/tmp/)(?P<name>[A-Za-z][A-Za-z_-]{0,80})\d{4,20}(?:/\d{3})?\b", r"\g<name><tmp>"),
        # Moments, but for those that somebody has chosen: they are round.
        (rf"{_MINUTE}[:_-]?(?!00|59)\d\d(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
        (rf"{_MINUTE}:\d\d[.,](?!0{{1,9}}\b|9{{1,9}}\b)\d{{3,9}}(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"(?<![\w.])1[5-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?![\w.])", "<time>"),
        # Ports that the system has chosen.
        (r"(?<=[\w\].]:)(?:3[2-9]|[456]\d)\d{3}(?!\w|[.:]\d)", "<port>"),
        # Of parallel workers, and of runs of one test.
        (r"(?<=[a-z_-])gw\d{1,3}\b|\[gw\d{1,3}\]", "gw<n>"),
        (r" ?[(\[]?\b(?:[Rr]etry|[Rr]erun|[Aa]ttempt) ?#?\d{1,3}(?:(?: of |/)\d{1,3})?[)\]]?$", ""),
        (r"\brepetition \d{1,6} of \d{1,6}\b", "repetition"),
        (r"(?<=_spec\.rb:)\d{1,7}\b", "<line>"),
        # Ids, as far as they are no names.
        (rf"(?<![A-Za-z0-9]){_MIXED}(?:{_HEX})(?![A-Za-z0-9])", "<id>"),
        (r"\b[0-9a-fA-F]{32,128}\b|\b0[0-7][0-9A-HJKMNP-TV-Z]{24}\b", "<id>"),
        (r"(?i:(?<=seed)(?P<is>[ =:_-]{1,2})\d{1,20}\b)", r"\g<is><n>"),
        (r"(?<![\w.])\d{13,20}(?![\w.])", "<n>"),
    )
)  # fmt: skip
"""What is another in each run, in the order in which it is replaced."""


# ---------------------------------------------------------------------------- renamed and moved


def is_renamed(old: FailedTest, new: FailedTest) -> bool:
    """Whether two names may be of one test that was renamed or moved: the same file and the same
    name in another class, or the same class and name in another folder or job. Whether they have
    ever run side by side, who has the record knows."""
    if old.test == new.test or get_stem(old.test.name) != get_stem(new.test.name):
        return False
    same_file = bool(old.file) and _name_place(clean(old.file)) == _name_place(clean(new.file))
    if old.test.suite == new.test.suite:
        return same_file or _get_last(old.test.place) == _get_last(new.test.place) != ""
    return (old.test.place, old.test.name) == (new.test.place, new.test.name)


def get_stem(name: str) -> str:
    """Return a test's own name, without the path of what contains it; with its parameters."""
    return re.split(r" > | › |::(?=\w)", name)[-1]


def _get_last(place: str) -> str:
    """Return the last part of a class or a path."""
    if "/" in place or _FILE.search(place):
        return place.rpartition("/")[2]
    return re.split(r"[.$:]", place)[-1]


_FILE = re.compile(
    r"\.(?:bats|cc?|cpp|cs|dart|exs?|feature|go|java|kt|lua|php|py|rb|rs|scala|sh|swift|t|[cm]?[jt]sx?)$"
)


# ---------------------------------------------------------------------------- tests in a job's log

_WORD = re.compile(r"\w+|<[a-z]{2,9}>")
_ENDS = re.compile(
    r"(?:\(\))?(?:\s{0,3}$|\s{0,3}(?::(?!:)|[,;)…|#]|\.\.\.|\.$|<<<|[─=_]{3}|[-–—]{2} )|\s[-–—]"
    r"|\s{0,3}(?:FAIL|FAILED|stdout|panicked|where|at|in)\b|\s{1,3}\d{1,9}(?:\.\d{1,3})? ?m?s$"
    r"|\s{1,3}(?:[(\[]\d[\d.,]{0,9} ?(?:m?s|sec\w{0,4})?[)\]]|\[ {0,3}\d{1,3}%\])"
    r"| \((?P<place>(?:[\w$]{1,100}\.){0,20}[\w$]{1,100})\)(?:$| \())"
)
"""What may follow a test's whole name: unittest's place, too."""

_HEADS = re.compile(
    r"(?:\[[^\]]{0,60}\]|\d{1,7}\)|[\W_]|\b(?:\d{1,7}|gw\d{1,4}|test|rspec|thread|FAIL(?:ED|URE)?|Failed"
    r"|ERROR|not ok)(?!\w))*+"
)
"""What may stand before it, besides where it is."""

_BETWEEN = re.compile(r"(?:\.(?:py|rb))?(?:<[a-z]{2,9}>|[\W_]|\b\d{1,7}\b)*+")


def matches(test: NamedTest, text: str) -> bool:
    """Whether a line of a log names this test: its whole name, and if the line says where a test
    is, its class or file too. The line of a group, a class or a longer name does not."""
    return bool(find_tests([test], [text]))


def find_tests(tests: Iterable[NamedTest], lines: Iterable[str]) -> tuple[NamedTest, ...]:
    """Return those of the tests that one of the lines of their job's log names, each once."""
    texts = [clean(line) for line in lines]
    return tuple(test for test in dict.fromkeys(tests) if _is_named(test, texts))


def _is_named(test: NamedTest, lines: Iterable[str]) -> bool:
    name, last = _find_words(test.name), _find_words(_get_last(test.place))
    return name is not None and any(
        _is_whole(test, last, line[: found.start()], found[0], line[found.end() :])
        for line in lines
        for found in name.finditer(line)
    )


def _find_words(name: str) -> re.Pattern[str] | None:
    """Return a pattern for a name. Tools join its parts each in their way; its parameters, in
    brackets at its end, and all other signs are as they are."""
    at = found.start() if (found := _PARAMETERS.search(name)) else len(name)
    parts = re.split(r"([\s>›»:./\\#]+)", name[:at])
    parts = [_JOINT if at % 2 else re.escape(part) for at, part in enumerate(parts)]
    pattern = "".join(parts) + re.escape(name[at:])
    return re.compile(rf"(?<!\w){pattern}(?!\w)[\])\"']{{0,3}}") if _WORD.search(name) else None


def _is_whole(
    test: NamedTest, last: re.Pattern[str] | None, before: str, name: str, after: str
) -> bool:
    """Whether a name in a line is a test's whole name, and what the line says of its place is
    right; `last` is the last part of its place."""
    end = _ENDS.match(after)
    if end is None and not (" with data set " in test.name and after.startswith(" (")):
        return False
    if end is not None and end["place"]:
        where = end["place"].removesuffix(f".{test.name}")
        return last is not None and any(
            at.end() == len(where) and _is_at(test.place, where) for at in last.finditer(where)
        )
    if last and any(
        _BETWEEN.fullmatch(before, at.end()) and _is_at(test.place, before[: at.end()])
        for at in last.finditer(before)
    ):
        return True
    # A plain word is no name by itself.
    return _HEADS.fullmatch(before) is not None and re.search("[^a-z]", test.name) is not None


def _is_at(place: str, text: str) -> bool:
    """Whether what stands at the end of a text is this place, as far as both name its folders."""
    chain = _CHAIN.search(_SOURCE.sub("", text[-_MOST_CHAIN:]))
    said = _WORD.findall(chain[0]) if chain else []
    return all(
        ours == theirs
        for ours, theirs in zip(reversed(_WORD.findall(place)), reversed(said), strict=False)
    )


_JOINT = r"[\s>›»:./\\#]{1,5}"
_PARAMETERS = re.compile(r"[\[(].*[\])]$")
_SOURCE = re.compile(r"\.(?:py|rb)(?=::)")
_MOST_CHAIN = 400
_CHAIN = re.compile(r"[\w$.:/\\-]+(?: > [\w$]+)*$")
