"""The decisive errors of a failed job, each with the key by which it is the same elsewhere. Pure.

Two errors are equal if their lines are, without what is another in each run (`normalise_exactly`):
a branch explains a failure only by the very same error.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from worker.logs import trace
from worker.logs.decisive_lines import (
    find_last_said,
    find_said,
    find_telling,
    keep_decisive,
)
from worker.logs.exact_form import normalise_exactly
from worker.logs.failed_tests import find_messages
from worker.logs.failing_command import find_last_words
from worker.logs.failure_lines import read_command_lines
from worker.logs.line_kinds import GAP, TROUBLE, strip_line
from worker.logs.named_places import join_headings
from worker.logs.normal_form import normalise_line
from worker.logs.signature import join_key
from worker.safety.untrusted import one_line
from worker.verdict.facts import TIME_LIMITS

MOST = 200
"""The most errors of a job that are listed one by one; of more, all together are one error."""

LINE = 320
"""The most characters of an error's line."""


def list_errors(lines: Sequence[str], command: str = "") -> tuple[tuple[str, str], ...]:
    """List every decisive error of the error text of a failed job: its key, and its line.

    `lines` are redacted, with or without their numbers; `command` is the name of the command that
    wrote them, if that is known. If none of them is decisive, it is the last one that says
    something; () says that the error is not known.
    """
    return _list_errors(lines, command, lines)


def _list_errors(
    lines: Sequence[str], command: str, log: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return the errors of the lines; `log` are all lines of their log, for the tests' messages."""
    joined = [*join_headings(lines)]
    telling = find_telling(joined, command)
    kept = {each.normal for each in keep_decisive(telling, joined, command, last=False)}
    said = {each.text: each.normal for each in telling}
    for pattern in (_JUDGES, TROUBLE):
        said |= {text: normalise_line(text) for text in find_said(joined, pattern)}
    kept |= {
        normal
        for text, normal in said.items()
        if not _WARNS.match(text) and not _COUNTS.search(text)
    }
    texts = [text for text in map(strip_line, joined) if normalise_line(text) in kept]
    texts = texts or [text for text in [find_last_said(joined)] if text]
    found: dict[str, str] = {}
    for text in _add_messages(texts, log):
        found.setdefault(normalise_exactly(text), text)
    if len(found) > MOST:
        key = join_key(*sorted(found))
        return ((key, one_line(f"{len(found)} errors: {next(iter(found.values()))}", LINE)),)
    return tuple((join_key(form), one_line(text, LINE)) for form, text in found.items())


def _add_messages(texts: Sequence[str], lines: Sequence[str]) -> Iterator[str]:
    """Yield the errors; a failed test of which other lines say why it failed, with these lines."""
    said = [*find_messages(dict.fromkeys(texts), lines).values()]
    for text in texts:
        yield next((each for each in said if each.startswith(f"{text}: ")), text)


_WARNS = re.compile(
    r"(?!WARNING: (?:DATA RACE|\w{1,30}Sanitizer))\W{0,3}(?i:warn(?:ing)?)\b(?! \S{1,200}:\d)"
)
_COUNTS = re.compile(
    r"\b\d{1,9} (?:failed|failures?|errors?|tests?|examples|specs?|assertions)\b.{0,60}"
    r"\b\d{1,9} (?:passed|failed|failures?|errors?|skipped|deselected|rerun|total|warnings?)\b"
    r"|\bTests run: \d|\b(?:Tests|Suites|Snapshots): {1,12}\d|(?:\.\.\.|…)$"
)
"""A line that counts, with a test more in a merge request another one; or that tells of work."""

_JUDGES = re.compile(
    r"\b(?i:assert(?:ion)?)\b|\b(?i:expected)\b.{1,300}\b(?i:received|got|but|actual|found|to)\b"
    r"|\b(?:got|actual)\b.{1,300}\b(?:want(?:ed)?|expected)\b"
    r"|\bwant(?:ed)?\b.{1,300}\b(?:got|have)\b"
    r"|\b[A-Z]\w{2,60}(?:Error|Exception): \S|: Error: \S|(?i:\bfatal error: )"
    r"|^\W{0,3}(?:CRITICAL|FATAL|SEVERE|HIGH)\b|\b(?:CVE-\d{4}-\d{3,9}|GHSA(?:-\w{4}){3})\b"
    r"|\b(?i:\d{1,6} (?:\w{1,20} )?vulnerabilit(?:y|ies)|severity|secret)\b"
    r"|\b(?i:mismatch\w{0,2}|differs?|undefined|undeclared)\b"
    r"|\b(?i:(?:needs?|would|not|un)[ -]?(?:re)?format\w{0,4})\b|\b(?i:too ?many|rate limit)"
    r"|\b(?i:thresholds?|limit|budget|coverage)\b.{0,80}\b(?i:below|above|under|over|crossed"
    r"|exceed\w*|not met|reached)\b"
    r"|\b(?i:below|above|under|over)\b.{0,40}\b(?i:thresholds?|limit|budget)\b"
    r"|\bE(?:CONN|HOST|NET|TIMED|ADDR|PIPE|AI_|NOENT|ACCES|PERM|EXIST)\w{0,12}\b"
    r"|\b(?i:returned|status(?: code)?|HTTP(?:/[\d.]{1,3})?|response)[ :=]{1,3}[45]\d\d\b"
    r"|\b(?i:un(?:known|resolved|recogni[sz]ed|supported|authori[sz]ed)|incompatible|duplicate"
    r"|not allowed|not up to date)\b"
    r"|\b(?i:dial|connect(?:ing|ion)?|request|lookup|handshake|deadline)\b.{0,200}"
    r"\b(?i:refused|reset|timed out|time-?out|unreachable|no such host|EOF|broken|failed"
    r"|exceeded)\b"
)
"""A line that compares values, gives a finding its severity, or tells of a lost connection: of
several in one log each may be an error by itself."""


COMPARED = 8192
"""The bytes of a log's excerpt from which its errors are taken."""

_END = 80


def read_errors(
    cleaned: bytes, reason: str = "", passed: Iterable[str] = ()
) -> tuple[tuple[str, str], ...]:
    """Return `list_errors` of a job's whole log, cleaned and redacted, that failed for GitLab's
    `reason`. Two logs of one failure are read alike, whatever else they contain.

    Of a job that met its time limit it is also where it hung; without that nothing is known. Nor is
    it if the lines of a run that has `passed` have all of them too.
    """
    lines = read_command_lines(cleaned, COMPARED)
    command = lines.command.name if lines.command else ""
    excerpt = [*lines.excerpt]
    if len(cleaned) > COMPARED and lines.is_list():
        if not lines.is_whole:
            return ()
        excerpt += [GAP, *lines.failures]
    every = trace.split_lines(cleaned)
    found = _list_errors(excerpt, command, every)
    if usual := lines.find_usual(passed):
        left = lines.drop_usual(usual)
        found = found if list_errors([*left.excerpt, *left.failures], command) else ()
    if reason not in TIME_LIMITS:
        return found
    last = find_last_words(every[-_END:]).values()
    hung = tuple((join_key(normalise_exactly(each)), one_line(each, LINE)) for each in last)
    return (*found, *hung) if hung else ()
