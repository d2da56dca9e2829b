"""The normal form of a log line, which lacks what differs from run to run. Pure."""

import re
from collections.abc import Iterable

LONGEST = 400
"""The most characters of a line that are read."""

_NUMBER = re.compile(r"^\d{1,9}: ?")


def drop_number(line: str) -> str:
    """Return a line of an excerpt without its number: `1843: text`."""
    return _NUMBER.sub("", line, 1)


def normalise_line(line: str) -> str:
    """Replace what differs from run to run by placeholders, and collapse blanks."""
    return _replace_all(line, _NUMBERS)


def normalise_places(line: str) -> str:
    """Replace what differs between two runs of the same failure (places, times and counts, but no
    values) by placeholders, and collapse blanks."""
    text = line[:LONGEST]
    for pattern in _CONFIGURED:
        text = pattern.sub(_protect_digits, text)
    if not _COMPARES.search(text):
        return _replace_all(text, (*_RUN_IDS, *_PLACES, *_MEASURED))
    for pattern in _COMPARED_VALUES:
        text = pattern.sub(_protect_digits, text)
    return _replace_all(text, _PLACES)


def _protect_digits(found: re.Match[str]) -> str:
    """Return the match; digits of its group `kept` become characters that no pattern replaces."""
    begin, end = (at - found.start() for at in found.span("kept"))
    text = found[0]
    return text[:begin] + text[begin:end].translate(_PROTECTED_DIGITS) + text[end:]


def restore_digits(normal: str) -> str:
    """Return a normal form with its protected digits as they were written."""
    return normal.translate(_RESTORED_DIGITS)


_Replacement = tuple[re.Pattern[str], str]
"""A pattern, and what replaces it."""


def _replace_all(line: str, more: Iterable[_Replacement]) -> str:
    text = line[:LONGEST]
    for pattern, placeholder in (*_VARIABLE, *more):
        text = pattern.sub(placeholder, text)
    return " ".join(text.split())


def _compile(*rows: tuple[str, str]) -> tuple[_Replacement, ...]:
    return tuple((re.compile(pattern), placeholder) for pattern, placeholder in rows)


_UNITS = r"(?:ns|us|µs|ms|s|sec|secs|m|min|h|[KMGT]i?B|[kKMGTB]|%|x)?"

_VARIABLE = _compile(
    (r"\x1b?\[[0-9;]{1,12}[mK]|\x1b\[[mK]|\x1b", ""),
    (r"(?<=\[)< (?=\d{1,9} ?ms\]$)", ""),
    (r"\bhttps?://[^/\s]{1,80}@", "https://"),
    (
        r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?"
        r"(?: ?Z\b| ?[+-]\d\d:?\d\d\b)?",
        "<time>",
    ),
    (r"\b\d{1,2}-[A-Z][a-z]{2}-\d{4}(?:::?| )\d\d:\d\d:\d\d(?:\.\d{1,9})?(?!\d)", "<time>"),
    (r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:[A-Z][a-z]{2} +\d{1,2}|\d{1,2} [A-Z][a-z]{2})\b",
     "<time>"),
    (r"(?<![\d:.])\d{1,2}:\d\d ?[AP]M\b", "<time>"),
    (r"(?<![\d:.])\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\d:])", "<time>"),
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
    (r"\b0x[0-9a-fA-F]+\b", "<id>"),
    # A pod of a replica set.
    (r"(?<=[a-z0-9]-)(?=[a-f]{0,9}\d)[0-9a-f]{8,10}-[a-z0-9]{5}\b", "<id>"),
    (r"\b(?=[a-f]{0,63}\d)(?=\d{0,63}[a-f])[0-9a-f]{7,64}\b", "<id>"),
    (r"\b[0-9a-fA-F]{32,128}\b", "<id>"),
    (r"(?<=/nix/store/)[0-9a-z]{32}(?=-)", "<id>"),
    # The thread of a pool that wrote a line of a program's log.
    (r"(?<=<time> )(?P<pool>\[[\w.$-]{0,100}?(?:dispatcher|thread|worker|exec)-)\d{1,5}(?=\])",
     r"\g<pool><n>"),
    (r"(?<=/scripts-)\d{1,19}-\d{1,19}(?=/)", "<id>"),
    (r"\brunner-[\w-]{1,60}?-project-\d+-concurrent-\d+(?:-(?=[a-z]{0,7}\d)[a-z0-9]{8})?\b",
     "<runner>"),
    (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.])", "<address>"),
    (r"(?<![\w:])\[?(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\]?(?![\w:])", "<address>"),
    (r"(?<=[a-z0-9\]>]):\d{4,5}(?=[/\s'\",;)]|$)", ":<n>"),
    # In a temporary folder, a file's own name is informative, but its parent folders are not.
    (
        r"(?<![\w.~-])/(?:private/)?(?:tmp|var/tmp|var/folders)/(?:[^\s/:'\"(),;]{1,100}/)*"
        r"(?:(?<=/)(?:tmp[^\s/:'\"(),;]{0,100}|[^\s/:'\"(),;.]{1,100}))?(?=[\s/:'\"(),;]|$)",
        "<tmp>",
    ),
    (r"(?<![\w.~-])/(?:private/)?(?:tmp|var/tmp|var/folders)/(?:[^\s/:'\"(),;]{1,100}/)*",
     "<tmp>/"),
    # Where a project is checked out, and in whose home folder, depends on the runner.
    (r"(?<![\w.~-])/(?:[^\s/:'\"(),;<>]{1,100}/){2,24}"
     r"(?=[^\s/:'\"(),;<>]{1,100}/[^\s/:'\"(),;<>])", "<dir>/"),
    (r"\b[A-Z]:\\(?:[^\s\\:'\"]{1,100}\\){1,24}(?=[^\s\\:'\"]{1,100}\\[^\s\\:'\"])", "<dir>/"),
    (r"\btmp[-_.]?(?=\w{0,40}[\dA-Z_])\w{4,40}\b", "<tmp>"),
    (r"\b(?=[A-Za-z0-9]{8,64}\b)(?:[A-Za-z]{1,4}\d{1,4}){3,}[A-Za-z]{0,4}\b", "<id>"),
)  # fmt: skip
"""Bounded and without nested repeats, because log lines are untrusted."""

_NUMBERS = _compile(
    (r"\b(?P<said>(?:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?:?|code:?|error:?) )(?=[45]\d\d\b)"
     r"4(?=\d\d\b)", r"\g<said>&4"),
    (rf"(?<![\w&])[-+]?\d[\d.,_]*(?:[eE][-+]?\d{{1,4}})?{_UNITS}(?![A-Za-z\d])", "<n>"),
    (r"(?<=\[gw)\d+(?=\])|(?<=\bport )\d+", "<n>"),
)  # fmt: skip
"""Numbers: two failures whose texts differ only in these have the same signature."""

_RUN_IDS = _compile(
    (r"(?i:\b(?P<id>pid|tid|seed|(?:process|thread)(?=[ :=-]{1,2}\d{4})"
     r"|port(?=[ :=-]{1,2}\d{5})|goroutine(?= \d{1,15} \[))(?:[ :=]{1,2}|-))\d{1,15}\b",
     r"\g<id> <n>"),
    (r"(?<!\d)\d{9,19}(?!\d)", "<n>"),
    (r"(?P<type>\b[A-Z]\w{0,100}|\[[A-Z])@(?=[a-f]{0,8}\d)(?=\d{0,8}[a-f])[0-9a-f]{5,8}\b",
     r"\g<type>@<id>"),
    (r"(?<![\w.])(?=\d{1,4}[hm]\d)(?:\d{1,4}h)?(?:\d{1,4}m)?(?:\d{1,5}(?:\.\d{1,9})?s)?"
     r"(?![A-Za-z\d])", "<n>"),
)  # fmt: skip
"""Ids, hash codes and composed times. They differ by chance, unless the line compares values."""

_PROTECTED_DIGITS = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")
_RESTORED_DIGITS = str.maketrans("⓪①②③④⑤⑥⑦⑧⑨", "0123456789")

_CONFIGURED = tuple(
    re.compile(pattern)
    for pattern in (
        # The port of a service. A random one has five digits.
        r"(?:://[^\s/:@'\"]{1,100}|\blocalhost|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}|::)"
        r":(?P<kept>\d{2,4})(?!\w|[.:]\d)",
        r"\b[Pp]orts?[ :]{1,2}(?P<kept>\d{2,4})(?!\w|[.:]\d)",
        r"\b(?:to|dial|tcp|udp|host|server) ['\"]?[a-z][\w.-]{0,100}:(?P<kept>\d{2,4})"
        r"(?!\w|[.:]\d)",
        # An image with its tag, a version.
        r"(?i:\b(?:image|pull(?:ing)?|manifest for|tag(?:ged)?)):? ['\"`]?"
        r"(?P<kept>[\w./:@-]{1,200})",
        r"(?:==|\b[vV]ersions? ['\"]?|\bv)(?P<kept>\d{1,6}(?:\.\d{1,6}){1,3})(?!\w)",
    )
)
"""Values that a person configured: the same in every run of one failure."""

_COMPARED_VALUES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<quote>['\"])(?P<kept>[^'\"/\\]{1,200})(?P=quote)(?=\s{0,2}[=!]=)",
        r"(?:[=!]=|(?i:\b(?:expected|received|actual|got|want(?:ed)?|left|right|to be|to equal"
        r"|but was)):?) {0,2}(?:(?P<quote>['\"])|<)(?P<kept>[^'\"/\\<>]{1,200})"
        r"(?(quote)(?P=quote)|>)",
        r"(?<!at )(?<!address )\b(?P<kept>0x[0-9a-fA-F]{1,8})\b",
    )
)
"""Values that a line compares, apart from temporary files and addresses in memory."""

_COMPARES = re.compile(
    r"(?i:assert|expect|\b(?:got|want(?:ed)?|actual|should|to be|(?:left|right)(?= ?[:=`])"
    r"|equals?)\b)|[=!]=|(?<!\S)[<>]=?(?!\S)|\bis not\b"
)
"""A part of a line that may compare values: then its values are part of its error."""

_UNIT = r"(?:ns|us|µs|ms|s|secs?|(?:milli)?seconds|mins?|minutes|[KMGT]i?B)"
_MEASURE = rf"\d[\d.,]{{0,20}} ?{_UNIT}(?![A-Za-z\d])"

_PLACES = _compile(
    # Ids of processes and threads: of Rust, a sanitizer, glog, Node, Erlang, a shell and NSLog.
    (r"(?<=') \(\d{1,10}\)(?= panicked at )", ""),
    (r"^==\d{1,10}==", "==<n>=="),
    (r"^[IWEF]\d{4} <time> +\d{1,10}\b|^\[ {0,8}\d{1,9}\.\d{3,6}\]", "<time>"),
    (r"(?<=\(node:)\d{1,10}(?=\))|(?<=<)\d{1,6}\.\d{1,9}\.\d{1,6}(?=>)", "<n>"),
    (r"(?P<pad>: {1,9})\d{1,10}(?= +(?:Segmentation fault|Aborted|Killed|Terminated|Bus error"
     r"|Floating point exception|Illegal instruction|Trace/breakpoint trap)\b)", r"\g<pad><n>"),
    (r"^\d{1,5}(?=\) )", "<n>"),
    (r"^(?P<nslog>(?:<time> )?[\w.-]{1,60}\[)\d{3,9}:\d{4,12}(?=\] )", r"\g<nslog><n>"),
    (r"(?<= in )\d{1,6}\.\d{1,3} \(\d{1,6}\.\d{1,3}\)(?= seconds)", "<n>"),
    (r"(?<=<Thread\()Thread-\d{1,9}(?= \(|, )", "Thread-<n>"),
    (r"(?<=started )(?P<daemon>daemon )?\d{6,20}\b", r"\g<daemon><n>"),
    (r"(?<=::):\d{4,5}(?!\w)", ":<n>"),
    (r"(?:(?<=[A-Za-z_)\]>])|(?<=[A-Za-z_]\d)|(?<=[A-Za-z_]\d\d)):\d{1,7}(?::\d{1,7})?"
     r"(?=[^\w.-]|\.(?!\d)|-(?!\w)|$)|^\d{1,7}:\d{1,7}(?=\s)"
     r"|\b(?:[Ll]ines?|[Cc]ol(?:umn)?|pid|port|L) ?\d{1,9}", "<place>"),
    (r"^\d{1,6}/\d{1,6} Test +#\d{1,6}(?=: )", "Test"),
    (r"(?P<file>\.\w{1,10})\(\d{1,7},\d{1,7}\)", r"\g<file><place>"),
    (rf"(?P<before>[(\[]|(?i:\b(?:elapsed:?|in|after|took|within)) )(?:< )?{_MEASURE}",
     r"\g<before><n>"),
    (r"(?<=\[)\d{1,9}(?:/\d{1,9})?(?=\])(?<!\w)|(?<=\[gw)\d+(?=\])"
     r"|(?<=\[) {0,3}\d{1,3}%(?=\])", "<n>"),
    (r"(?P<label>\b(?:[Tt]ests?(?: run)?|Assertions|Failures|Errors|Warnings|Deprecations"
     r"|Notices|Skipped|Incomplete|Risky|Passed|Failed|Ignored|Total):) \d{1,9}(?=, [A-Z]|$)",
     r"\g<label> <n>"),
    (r"(?<= in )\d{1,9} files? \(checked \d{1,9} source files?\)", "<n> files"),
)  # fmt: skip
"""Places, times of a run and test counts: what differs between two runs of one failure."""

_MEASURED = _compile(
    (rf"(?<![\w.]){_MEASURE}", "<n>"),
    (r"(?:^|(?<=[(,:|=] )|(?<=[(,=]))\d{1,9}(?= (?:passed|failed|skipped|todo|deselected"
     r"|xfailed|xpassed|ignored|measured|filtered|total)\b)"
     r"|\b\d{1,9}(?= (?:failures?|errors?|warnings?|tests?|examples|snapshots|problems?)\b)",
     "<n>"),
)  # fmt: skip
"""Times, sizes and counts. They differ by chance, unless the line compares values."""
