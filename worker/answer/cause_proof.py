"""Tells a quote that proves a cause from one that is only context. Pure.

A quote that stands byte for byte in a log may still explain nothing: `Running with gitlab-runner`
is in every log, and `could not compile … due to 1 previous error` in every failed build. A quote
proves a cause if it is in the output of the command that failed, names a file and line of the
change, or is in the test report or in what another system left; and if it is no banner, no ender
and no consequence.

A cause itself may blame something new that was installed. "Infrastructure" may mean that a
release, an image or a runner has changed since the job passed; where both logs name the thing that
is blamed, and it is the same, that is not so.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache

from worker.errors import ArgumentError, SourceError
from worker.logs.bystanders import find_bystander, reports_trouble
from worker.logs.failing_command import FailingCommand, find_failing_command
from worker.logs.named_places import find_places
from worker.verdict.changed_files import select_lines
from worker.verdict.facts import Installed
from worker.verdict.finding import Captures, Evidence, Finding, JobLog, Place, RepoFile
from worker.verdict.remarks import Remark, name, remark
from worker.verdict.verdict import Ruling, Verdict

_NEAR = 4
"""How many lines around a line tell what it is."""

_LAST_WORDS = 3
_ENDING = 10
"""How many last lines of a log say how the job ended."""

_ENDED = re.compile(r"(?P<passed>Job succeeded\s*$)|(?:ERROR|FATAL): Job failed\b")
_TIMED_OUT = re.compile(r"ERROR: Job failed: execution took longer than ")
_UPLOADS = re.compile(r"(?:Uploading artifacts|Saving cache) for successful job")


def mark_context(
    finding: Finding, captures: Captures, changed_paths: Collection[str] = ()
) -> Finding:
    """Return `finding`, whose quotes are proven by `captures`, with what each quote lacks that
    proves no cause (`Evidence.lacks`). `changed_paths` are the files that the change touches."""

    @cache
    def read_log(place: Place) -> "_Log | None":
        try:
            lines = captures.read_lines(place) if isinstance(place, JobLog) else ()
        except (SourceError, ArgumentError):
            return None
        return _Log(lines, find_failing_command(lines)) if lines else None

    return replace(
        finding,
        evidence=tuple(
            replace(
                quote,
                lacks=_find_lack(quote, finding.verdict, changed_paths, read_log(quote.place)),
            )
            for quote in finding.evidence
        ),
    )


@dataclass(frozen=True, slots=True)
class _Log:
    lines: Sequence[str]
    command: FailingCommand

    @property
    def last_words(self) -> str:
        """How the runner says that the job ended; a script may have printed the same before."""
        return next(filter(_ENDED.match, reversed(self.lines[-_ENDING:])), "")

    @property
    def is_silent(self) -> bool:
        """Whether the failing command wrote nothing: then its echo is all that there is."""
        if not self.command.text or any(map(str.strip, self.command.select(self.lines))):
            return False
        return not any(map(_UPLOADS.match, self.lines[self.command.last :]))


def _find_lack(
    quote: Evidence, verdict: Verdict, changed_paths: Collection[str], log: _Log | None
) -> str:
    """Return why a quote does not prove the verdict, in a few words; "" if it does."""
    place, texts = quote.place, quote.text.split("\n")
    if isinstance(place, RepoFile):
        if verdict is not Verdict.CHANGE:
            return f"a line of a file does not show that it is “{verdict}”"
        changed = not place.ref and place.path in changed_paths
        return "" if changed else "the change does not touch that file, and a file shows no failure"
    if log is None:
        kinds = [find_bystander(line) for line in texts]
        return next(filter(None, kinds), "") if all(kinds) else ""
    ended = _ENDED.match(log.last_words)
    if ended and ended["passed"]:
        return "that job passed"
    paths = changed_paths if verdict is Verdict.CHANGE else ()
    numbers = range(quote.line, max(quote.line, quote.last) + 1)
    lacks = [
        _find_lack_of_line(number, text, paths, log)
        for number, text in zip(numbers, texts, strict=False)
    ]
    return next(filter(None, lacks), "") if all(lacks) else ""


def _find_lack_of_line(number: int, text: str, changed_paths: Collection[str], log: _Log) -> str:
    command = log.command
    whole = log.lines[number - 1] if 0 < number <= len(log.lines) else text
    inside = command.first <= number <= command.last
    # A script that reached its time limit shows in its last lines where it hung.
    is_last_word = inside and number > command.last - _LAST_WORDS
    if is_last_word and _TIMED_OUT.match(log.last_words):
        return ""
    if log.is_silent and number == command.first - 1:
        return ""
    near = tuple(log.lines[max(0, number - 1 - _NEAR) : number + _NEAR])
    kind = find_bystander(whole, near) or find_bystander(text, near)
    if kind is not None:
        return kind
    if inside or _is_of_runners_failure(number, whole, log):
        return ""
    named = find_places(whole) if changed_paths else ()
    if named and any(select_lines(path, named) for path in changed_paths):
        return ""
    if log.is_silent:
        return f"it is not the command that failed, on line {command.first - 1}"
    return (
        f"it is not in the output of the command that failed, lines {command.first} to "
        f"{command.last}"
    )


def _is_of_runners_failure(number: int, line: str, log: _Log) -> bool:
    """Whether the runner says in the line why it failed the job itself, after the script."""
    if number <= log.command.last or not reports_trouble(line):
        return False
    if _ENDED.match(line):
        return True
    return any(map(_UPLOADS.match, log.lines[log.command.last : number]))


# ----------------------------------------------------------------------------- what a cause blames

_MAX_CAUSE = 4_000
"""The most characters of a cause that are read."""

_NEW = r"\b(?:new|newer|newest|latest|later|updated|upgraded|different|changed|another)\s"
_NAME = r"[`'\"“]?([\w@][\w@./+:=-]{1,99})"
_END = r"[`'\"”]?"
_HAPPENED = (
    r"\s(?:was|has\sbeen|had\sbeen|got)\s(?:\w{1,20}ly\s|just\s)?(?:released|updated|upgraded"
    r"|bumped|published|rebuilt|moved|replaced|changed|re-?tagged)\b"
)
_BLAMED = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_NEW}(?:\w{{1,20}}\s)?(?:release|version|build)\sof\s(?:the\s|a\s)?{_NAME}",
        rf"{_NEW}{_NAME}{_END}\s(?:release|version|image|build)\b",
        rf"{_NEW}(?:\w{{1,20}}\s)?(image|runner)\b",
        rf"{_NAME}{_END}(?:\s(?:image|package|release))?(?:\sv?\d[\w.]{{0,40}})?{_HAPPENED}",
        rf"\b(image|runner){_HAPPENED}",
        rf"\b(?:up(?:grade|date)|bump|release)\s(?:of|to)\s(?:the\s|a\s|an\s|new\s)?{_NAME}",
    )
)

_DENIED = re.compile(r"\b(?:no|not|nor|neither|without|never)\b[^.;]{0,10}$", re.IGNORECASE)


def hold_against_installed(ruling: Ruling, verdict: Verdict, cause: str) -> Ruling:
    """Return `ruling`; if `verdict` is infrastructure and `cause` blames a thing that both logs
    name and that has not changed since the job passed, with that refuted."""
    text = re.sub(r"\s+", " ", cause[:_MAX_CAUSE])
    blamed = {
        _normalise(found[1])
        for form in _BLAMED
        for found in form.finditer(text)
        if not _DENIED.search(text[max(0, found.start() - 20) : found.start()])
    }
    same = [each for each in ruling.same_as_passed if _list_names(each) & blamed]
    if verdict is not Verdict.INFRASTRUCTURE or ruling.hard or not same:
        return ruling
    return replace(
        ruling,
        contradictions=((verdict, _tell_same(same[0], ruling.last_pass)), *ruling.contradictions),
        refuted_verdicts=ruling.refuted_verdicts | {verdict},
    )


def _list_names(installed: Installed) -> set[str]:
    """Return the names by which a cause may mean it: an image and a runner also by that word."""
    kind = {installed.kind} & {"image", "runner"}
    return {_normalise(installed.name), _normalise(installed.name.rpartition("/")[2]), *kind}


def _normalise(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text.partition("==")[0].strip(".,;:").lower())


def _tell_same(installed: Installed, last_pass: Remark) -> Remark:
    if installed.kind == "runner":
        return remark("it ran on the same runner as ", *last_pass, ", which passed")
    what = name(f"{installed.name} {installed.version}")
    words = " is the image of " if installed.kind == "image" else " was installed in "
    return remark(what, words, *last_pass, " too, which passed")
