"""The exact form of an error: its line without what is another in each run, and nothing else. Pure.

Dates, times, durations, ids, addresses in memory, ports, numbers of processes and jobs, and the
random endings of pods, containers and temporary paths are replaced. Names, files, places in files,
hosts, versions, status codes and values stay: two errors that differ in one of these are two.
"""

import re
from collections.abc import Iterable

LONGEST = 600
"""The most characters of a line that are read."""

_Replacement = tuple[re.Pattern[str], str]


def _compile(*rows: tuple[str, str]) -> tuple[_Replacement, ...]:
    return tuple((re.compile(pattern), placeholder) for pattern, placeholder in rows)


def normalise_exactly(line: str) -> str:
    """Replace what is another in each run of the same failure, and collapse blanks.

    In a line that compares values, these stay as they are.
    """
    text = _replace_all(line[:LONGEST], _ALWAYS)
    for pattern in _VERSIONS:
        text = pattern.sub(_protect, text)
    if _COMPARES.search(text):
        for pattern in _VALUES:
            text = pattern.sub(_protect, text)
    return " ".join(_replace_all(text, _OF_RUN).translate(_RESTORED).split())


def _replace_all(text: str, rows: Iterable[_Replacement]) -> str:
    for pattern, placeholder in rows:
        text = pattern.sub(placeholder, text)
    return text


_HIDDEN = "⓪①②③④⑤⑥⑦⑧⑨"
_PROTECTED, _RESTORED = str.maketrans("0123456789", _HIDDEN), str.maketrans(_HIDDEN, "0123456789")


def _protect(found: re.Match[str]) -> str:
    """Return the match; digits of its group `kept` become characters that no pattern replaces."""
    begin, end = (at - found.start() for at in found.span("kept"))
    text = found[0]
    return text[:begin] + text[begin:end].translate(_PROTECTED) + text[end:]


_HEX = r"(?:[0-9a-f]{7,128}|[0-9A-F]{7,128})"
_MIXED = r"(?=[A-Fa-f]{0,127}[0-9])(?=[0-9]{0,127}[A-Fa-f])"
_TEMPORARY = r"(?:/private)?/(?:var/)?(?:tmp|folders|temp)/|/dev/shm/|\\(?:[Tt]e?mp)\\"

_ALWAYS = _compile(
    (r"^==\d{1,10}==", "<n>:"),
    (r"\x1b?\[[0-9;]{1,12}[mK]|\x1b\[[mK]|\x1b", ""),
    (r"\bhttps?://[^/\s@]{1,80}@", "https://"),
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
    (r"\b0x[0-9a-fA-F]{9,16}\b|(?<=at )0x[0-9a-fA-F]+\b|(?<=address )0x[0-9a-fA-F]+\b", "<id>"),
    # What a runner, a cluster or a program makes names of.
    (r"\brunner-[\w-]{1,60}?-project-\d+-concurrent-\d+(?:-(?:[0-9a-f]{16}|"
     r"(?=[a-z]{0,7}\d)[a-z0-9]{8}))?\b", "<runner>"),
    (r"(?<=/builds/)[A-Za-z0-9_-]{8,24}/\d{1,4}(?=/)", "<runner>"),
    (r"(?<=[a-z0-9]-)(?=[a-f]{0,9}\d)[0-9a-f]{8,10}-[a-z0-9]{5}(?![\w-]*=)\b", "<id>"),
    (r"(?<=[a-z0-9]-)(?=[a-z]{0,4}[0-9])(?=[0-9]{0,4}[a-z])[bcdfghjklmnpqrstvwxz2456789]{5}"
     r"(?![\w-])", "<id>"),
    # Temporary folders and files.
    (rf"(?P<where>{_TEMPORARY}(?:[^\s'\":,;()]{{0,200}}[/\\])??)"
     r"(?P<name>(?:tmp|temp)[-_.]?|\.tmp|[A-Za-z][A-Za-z_]{0,40}[-_.])?"
     r"(?=[A-Za-z0-9_]{0,63}[0-9A-Z_]|(?<=tmp)|(?<=tmp\.))[A-Za-z0-9_]{6,64}"
     r"(?![A-Za-z0-9_]|\.\w)", r"\g<where>\g<name><id>"),
    (r"(?<=/var/folders/)[^\s/]{2}/[^\s/]{10,60}(?=/)", "<id>"),
    (r"\b(?P<name>pytest|go-build|go-tmp|npm|yarn|bazel|gradle|rustc|clang|ccache|tox|pip-[a-z-]{3,24}"
     r"|junit|mktemp|build-env)-?(?:\d{1,20}|[a-z0-9_]{8})(?=[/\\])", r"\g<name>-<id>"),
    (r"\btmp[-_.]?(?=\w{0,40}[\dA-Z_])\w{4,40}\b", "tmp<id>"),
    # Moments.
    (r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? (?=[A-Z0-9])", ""),
    (r"\b\d{1,2}[/ -](?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}[/ -]\d{4}"
     r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} {1,2}\d{1,2}"
     r"(?:,? \d{4}\b|(?= \d\d:\d\d))", "<time>"),
)  # fmt: skip
"""Ids that say nothing wherever they stand. Bounded, because log lines are untrusted."""

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|CES?T)\b| ?[+-]\d\d:?\d\d\b)?"
_UNIT = (
    r"(?:ns|us|µs|ms|s|m|h|d|nanos(?:econds?)?|micros(?:econds?)?|millis(?:econds?)?|secs?|seconds?"
    r"|mins?|minutes?|hrs?|hours?|days?)"
)
_AMOUNT = r"\d[\d.,]{0,20}"

_OF_RUN = _compile(
    (r"(?<![\d.])\d{4}-\d\d-\d\dT\d\d_\d\d_\d\d(?:_\d{1,6})?Z?", "<time>"),
    (r"\bm=[+-]\d{1,9}\.\d{1,12}", ""),
    (rf"(?<![\d.])\d{{4}}[-/]\d\d[-/]\d\d(?:[T_ ]?{_CLOCK}|[T ]\d\d:\d\d)?{_ZONE}(?![\d.])",
     "<time>"),
    (rf"(?<!\d)20\d\d[01]\d[0-3]\d(?:[T_-]?[0-2]\d[0-5]\d[0-5]\d)?{_ZONE}(?!\d)", "<time>"),
    (rf"(?<![\d.])\d\d[./]\d\d[./]20\d\d(?![\d.])(?: {_CLOCK})?", "<time>"),
    (rf"(?<![\d:.]){_CLOCK}(?: ?[AP]M\b)?{_ZONE}(?![\d:])", "<time>"),
    (r"(?<![\d:.])\d{1,2}:\d\d ?(?:[AP]M|UTC|GMT)\b|(?<=\bat )[0-2]\d:[0-5]\d(?![\d:])", "<time>"),
    (rf"<time>:{_CLOCK}{_ZONE}", "<time>"),
    (r"<time>(?:[ ,:]{0,2}(?:<time>|20\d\d\b)){1,3}", "<time>"),
    (r"(?<![\w.])1[5-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?![\w.])", "<time>"),
    (r"^\[ {0,8}\d{1,9}\.\d{3,6}\]", "<time>"),
    # Durations; several of them are one.
    (rf"(?<![\w.:/-])(?:\d{{1,5}}h ?)?(?:\d{{1,5}}m ?)?{_AMOUNT}[ -]?{_UNIT}(?![A-Za-z\d])"
     rf"|(?<![\w.:/-])\d{{1,5}}h ?\d{{1,5}}m(?![A-Za-z\d])", "<n>"),
    (rf"(?P<what>\b(?:elapsed|duration|took|time)(?:[ _]?(?:ms|s|secs?|seconds|taken))?"
     rf"[:= ]{{1,2}}){_AMOUNT}\b", r"\g<what><n>"),
    (r"(?<= in )\d{1,6}\.\d{1,3}(?= |$|\))|(?<=\()\d{1,6}\.\d{2,3}(?=\)$)", "<n>"),
    (r"<n>(?:[ ,]{0,2}(?:and )?<n>){1,4}", "<n>"),
    # Ids, as far as they are not names.
    (rf"(?<![\w.]){_MIXED}{_HEX}(?![A-Za-z0-9_])|(?<=sha256:){_HEX}|(?<=@){_MIXED}{_HEX}"
     r"(?![A-Za-z0-9_])", "<id>"),
    (r"\b[0-9a-fA-F]{32,128}\b|\b0[0-7][0-9A-HJKMNP-TV-Z]{24}\b", "<id>"),
    (r"(?<=[a-z]_)(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])[0-9a-f]{8,40}(?![A-Za-z0-9_])", "<id>"),
    (r"\b0x[0-9a-fA-F]+\b", "<id>"),
    (r"(?P<type>\b[A-Z]\w{0,100}|\[[A-Z])@(?=[a-f]{0,8}\d|[a-f]{5,8}\b)[0-9a-f]{5,8}\b",
     r"\g<type>@<id>"),
    (r"(?<![\w.-])\d{9,19}(?![\w.]| ?(?:[kKMGT]i?)?[Bb](?:ytes?)?\b)", "<n>"),
    # Ports.
    (r"(?P<host>://[^\s/:@'\"]{1,120}|\b(?:localhost|host\.docker\.internal)"
     r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}|\[?::1?\]?|\[[0-9a-fA-F:]{3,40}\]):\d{2,5}(?!\w|[.:]\d)",
     r"\g<host>:<n>"),
    (r"(?P<host>(?<=['\"])(?:\d{1,3}(?:\.\d{1,3}){3}|localhost)['\"], )\d{2,5}(?=\))"
     r"|\b\d{2,5}(?=/(?:tcp|udp)\b)", r"\g<host><n>"),
    (r"(?i:(?P<port>\b(?:ports?|listen(?:ing)?(?: on)?)[ '\"]{0,2}[:=#]?[ '\"]{0,2}))\d{2,5}"
     r"(?![\w.])", r"\g<port><n>"),
    (r"(?P<host>\b(?:tcp|udp|dial|connect(?:ing|ion)?|to|from|host|server|address|addr|at|on|via"
     r"|broker|node|ECONN[A-Z]{3,9}|ETIMEDOUT|ENOTFOUND)[ =:'\"(]{1,3}"
     r"(?:[a-z0-9]{1,24}(?:\+[a-z]{1,8})?://)?"
     r"(?=[a-z])[a-z0-9_-]{0,80}(?:<[a-z]{2,8}>)?(?:\.[a-z0-9-]{1,60}){0,8}):\d{2,5}"
     r"(?!\w|[.:]\d)(?<!:\d\d\d\d\d\d)", r"\g<host>:<n>"),
    (r"(?P<host>(?<![\w./-])(?=[a-z])[a-z0-9-]{0,80}<id>|(?<![\w./-])[a-z][a-z0-9-]{1,60}"
     r"(?:\.[a-z0-9-]{1,60}){0,6}\.(?:com|net|org|io|dev|local|internal|svc|example|test|lan|corp))"
     r":\d{2,5}(?!\w|[.:]\d)", r"\g<host>:<n>"),
    (r"(?<=\b172\.)(?:1[7-9]|2\d|30)\.\d{1,3}\.\d{1,3}(?![\w.])", "<id>"),
    # Processes, threads and jobs.
    (r"(?<=') \(\d{1,10}\)(?= panicked at )", ""),
    (r"(?<=\(node:)\d{1,10}(?=\))|(?<=<)\d{1,6}\.\d{1,9}\.\d{1,6}(?=>)|(?<=\[gw)\d+(?=\])", "<n>"),
    (r"(?P<pad>: {1,9})\d{1,10}(?= +(?:Segmentation fault|Aborted|Killed|Terminated|Bus error"
     r"|Floating point exception|Illegal instruction|Trace/breakpoint trap)\b)", r"\g<pad><n>"),
    (r"(?<=\w\[)\d{2,7}(?:\.\d{1,4})?(?=\](?::| ))|(?<=^\[)\d{2,9}(?=\] )", "<n>"),
    (r"^(?P<nslog>(?:<time> )?[\w.-]{1,60}\[)\d{3,9}:\d{4,12}(?=\] )", r"\g<nslog><n>"),
    (r"^(?P<glog>[IWEF])\d{4} <time> +\d{1,10}\b", r"\g<glog> <time>"),
    (r"(?i:(?P<what>\b(?:pid|tid|ppid|process(?: id)?|thread(?: id)?|goroutine|worker|executor"
     r"|jobs?(?:[ _-]id)?|build(?:[ _-](?:id|number))?|pipelines?(?:[ _-]id)?|run[ _-]id|runner"
     r"|request[ _-]id|session[ _-]id|container[ _-]id|seed)"
     r"(?:[ :=#/]{1,3}|(?<=[a-z])-|: ?#))\(?)\d{1,20}(?![\w.]*[A-Za-z.]\w)\b", r"\g<what><n>"),
    (r"(?P<pool>\[[\w.$-]{0,100}?(?:dispatcher|thread|worker|exec)-)\d{1,5}(?=\])",
     r"\g<pool><n>"),
    (r"\b(?P<pool>pool-)\d{1,5}(?=-thread)", r"\g<pool><n>"),
    (r"\b(?P<thread>Thread)-\d{1,9}\b", r"\g<thread>-<n>"),
    (r"(?P<name>\b[a-z][a-z0-9]{1,30}(?:[-_][a-z][a-z0-9]{0,20}){0,4}[-_](?:ci|job|build|pipeline"
     r"|run)[-_])\d{3,20}\b", r"\g<name><n>"),
)  # fmt: skip
"""What differs by chance, unless the line compares it."""

_VERSIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:[=~<>!]=|\b[vV]ersions? ['\"]?|\bv|@|(?i:\b(?:image|pull(?:ing)?|manifest for"
        r"|tag(?:ged)?|release)):? ['\"`]?[\w./:-]{0,120}?)(?P<kept>\d{1,8}(?:[.-]\d{1,8}){1,3})"
        r"(?![\w:]|\.\d)",
        r"(?P<test>::\w{1,200})\[(?P<kept>[^\]]{1,200})\]",
        r"(?P<kept>\b(?:CVE|GHSA|RUSTSEC|PYSEC)-\d{4}-\d{3,9}\b)",
    )
)
"""Versions and the parameters of tests, which may look like dates and durations."""

_IS = r"(?<![=!<>])(?:[=!]==?|[<>]=|(?<!\S)[<>](?!\S))(?!=)"
_VALUE = rf"(?:-?\d[\d.,_]{{0,40}}(?: ?{_UNIT})?(?![\w:-]|\.\d)|true|false|null|None)"
_SAYS = (
    r"(?i:\b(?:expected|received|actual|got|want(?:ed)?|left|right|to be|to equal|but was|than"
    r"|returned|saw))[:=]?"
)
_VALUES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<quote>['\"])(?P<kept>[^'\"/\\]{{1,200}})(?P=quote)"
        rf"(?=\s{{0,2}}(?:{_IS}|(?:not )?in\b))",
        rf"(?:{_IS}|{_SAYS}|(?i:\b(?:but|value|in|is)\b)) {{0,2}}(?:(?P<quote>['\"`])|<)"
        r"(?P<kept>[^'\"/\\<>`]{1,200})(?(quote)(?P=quote)|>)",
        rf"(?:{_IS}|{_SAYS}|(?i:\b(?:assert|status|code)\b)[:=]?) {{0,2}}(?P<kept>{_VALUE})",
        rf"(?P<kept>{_VALUE})(?=\s{{1,2}}(?:{_IS}|is not\b))",
        r"\b(?P<kept>0x[0-9a-fA-F]{1,8})\b",
    )
)
"""Values that a line compares."""

_COMPARES = re.compile(
    r"(?i:assert|expect|\b(?:got|want(?:ed)?|actual|should|to be|(?:left|right)(?= ?[:=`])"
    rf"|equals?|but was|mismatch)\b)|{_IS}|\bis not\b"
)
"""A part of a line that may compare values: then its values are part of its error."""
