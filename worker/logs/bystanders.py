"""Recognises lines that a log has whatever went wrong: banners, enders and consequences. Pure.

A failed job's log has many lines that look like an explanation and are none: what the runner and
the tools print in every run, what they print at the end of any failed one, and what only follows
from an error or counts them. Each is recognised by its form.
"""

import re
from enum import StrEnum

from worker.logs.error_lines import is_test_progress
from worker.logs.excerpt.scan import without_stamp
from worker.logs.line_kinds import JOB_FAILED, NOISE, TROUBLE, WEAK, strip_line
from worker.logs.line_marks import find_marks
from worker.logs.normal_form import normalise_line

LONGEST = 1000
"""The most characters of a line that are read."""


class Bystander(StrEnum):
    """Why a line explains no failure."""

    BANNER = "any run prints it"
    ENDER = "any failure ends so"
    CONSEQUENCE = "it only follows from the error, or counts"


_LEAST_LETTERS = 2

_ERRS = frozenset(
    {"fault", "trouble", "named", "colon_error", "loud", "crossed", "judged", "shouted"}
)

_RUNNER = re.compile(
    r"Running with gitlab-runner\b|  on \S.{0,200}, system ID:|Preparing (?:the \"|environment$)"
    r"|Using (?:\w+ executor|effective pull|docker image|Kubernetes|attach strategy|Shell \()"
    r"|Running on \S.{0,200}\.\.\.$|Getting source from Git|Gitaly correlation ID:"
    r"|Fetching changes\b|(?:Initialized|Reinitialized existing) .{0,20}Git repository"
    r"|Created fresh repository|Checking out \w{6,64} as |Skipping Git submodules"
    r"|Executing \"\w{1,40}\" stage|(?:Restoring|Saving) cache\b|Checking cache for "
    r"|Successfully extracted cache|(?:Down|Up)loading artifacts(?: for|$)|Running after_script$"
    r"|Cleaning up (?:project|file)|Waiting for (?:pod|services) |Job succeeded$"
)
"""What GitLab's runner prints around every script."""

_ECHO = re.compile(
    r"[$%] \S|\+{2,4} \S|> (?:[a-z]|\./)(?!.{0,400}(?i:error|fail|cannot|not found))|> \S{1,200}@\d"
    r"|The command \"|(?:Step |\[(?:[\w.-]{1,40} )?)\d{1,3}/\d{1,3}(?:\]| :) [A-Z]{2,12} "
)
_TRACED = re.compile(r"\+ (?:[a-z./]|[A-Z_]{2,40}=)")
"""A command as a shell with `set -x` prints it, or a line that a diff adds."""

_IN_DIFF = re.compile(r"-|@@|\?|\+ {2}|\+\S|diff ")

_HEADING = re.compile(
    r"(?:\[\w{1,8}\] )?\W{0,3}(?:[=_*#~-]{2,80} ?\S.{0,300}[=_*#~-]{2}|=\S.{0,300}={3})$"
)
_ANNOUNCES = re.compile(r"[^\d\"'`/.(]{1,100}:$|Traceback \(most recent call last\):$")

_PROGRESS = re.compile(
    r"(?:\[?INFO\]?:? |[-=>*•] ?|(?:#\d{1,4} )?\d[\d.]{0,9} )?(?:"
    r"(?:Down|Up)load(?:ed|ing)|Install(?:ed|ing)|Fetch(?:ed|ing)|Compiling|Unpacking|Collect(?:ed|ing)"
    r"|collected|collecting|Obtaining|Setting up|Selecting|Receiving|Cloning|Extracting|Preparing"
    r"|Pull(?:ed|ing)|Get:\d|Hit:\d|Building|Running|Starting|Scanning for|Task :\S{1,200}$|Using "
    r"|Finished at|Total time|Retrieving )"
    r"|make(?:\[\d{1,3}\])?: (?:Entering|Leaving) directory|==> [\w-]{1,40}(?: \(\w{1,40}\))?$"
)
"""How the report of a step begins that went well, or has only begun."""

_VERSION = re.compile(
    r"\W{0,4}[A-Za-z][\w.+-]{0,40}(?: version)?[ /]v?\d{1,5}\.\d{1,5}\.\d\S{0,40}"
    r"(?:$| [(\[]| (?:by|on|from|built|linux|darwin)\b)|platform \w{3,20} -- "
)

_EXITS = re.compile(
    r"(?:\bexit(?:ed|s)?(?: with)?(?: (?:code|status|error))*|returned (?:a )?non-zero[\w ]{0,20}"
    r"|\b(?:code|status))[: ]{1,3}-?\d{1,3}\W{0,4}$"
    r"|(?:failed|exited) with (?:exit )?(?:code|status)[: ]{1,2}\d{1,3}: "
)
_NOT_ALONE = re.compile(r"(?i:^no \w|expect|assert|\bgot\b|\bwant|should|HTTP|URL|respon)|[=!]=")

_ENDS = re.compile(
    r"(?:\[\w{1,8}\] )?(?:\w{1,20} aborted!?$|Stop\.$|Tasks: TOP|\(See full trace by"
    r"|(?:\w{1,20} )?(?:build|tests?|job|task|pipeline|lint(?:ing)?|checks?|compilation"
    r"|compile|command)s? (?:has |have |was |were )?"
    r"(?:failed|failure|aborted|unsuccessful|cancell?ed)(?: with (?:an )?(?:error|exception)s?)?"
    r"[.!]{0,3}$"
    r"|(?:some|there (?:are|were)) (?:\w+ )?(?:errors?|failures?|tests? fail\w*)\b[^:]{0,30}$"
    r"|finished: \w{1,20}$|npm err!$|.{0,200}: recipe for target '.{1,100}' failed"
    r"|(?:error: )?recipe `.{1,100}` failed|task: Failed to run task|Error \d{1,3}$)",
    re.IGNORECASE,
)
"""How a tool reports the failure of a whole, whatever it was."""

_NO_REASON = re.compile(
    r"(?:exit (?:code|status) \d{1,4}|execution took .{1,60}|cancell?ed|Job failed)\s*$"
)
"""How the runner's last words end if they say only that the script failed, or was not done in its
time."""

_MAKE = re.compile(r"(?:g?make|[\w.-]{1,40})(?:\[\d{1,3}\])?: \*\*\* ")
_MADE = re.compile(r"\[.{0,400}\] (?:Error -?\d|Interrupt|Terminated)|Waiting for unfinished")
_SOLVE = re.compile(r"(?:ERROR: )?failed to (?:solve|build)\b", re.IGNORECASE)
_PROCESS = re.compile(r"process \"|executor failed running|exit(?:ed)? (?:with )?(?:code|status)")

_FOLLOWS = re.compile(
    r"\b(?:due to|because of) (?:the )?(?:\d{1,6} |some |one or more )?"
    r"(?:(?:previous|above|earlier|prior)\b|errors?\b)"
    r"|\bbuild (?:stopped|interrupted)|waiting for (?:other|unfinished) jobs"
    r"|not remade because|all later \w{1,20} cancell?ed"
    r"|(?:one or more|some|the following|\d{1,6}) (?:\w{1,20} ){0,3}(?:errors? occurred\W{0,3}$"
    r"|(?:check|hook|test|job|task|target|step)s? (?:have |has |were )?(?:failed|not successful))",
    re.IGNORECASE,
)
_COUNTED = (
    r"(?:fail\w{0,5}|errors?|errored|problems?|issues?|offen[cs]es?|warnings?|violations?|pass\w{0,5}"
    r"|tests?|cases?|examples?|assertions?|suites?|specs?|files?|skipped|skips|pending|todo|total"
    r"|runs?|ignored|checks?|hooks?|tasks?|targets?|jobs?|snapshots?|succe\w{0,7}|unexpected"
    r"|mistakes?|findings?|expectations?|scenarios?|steps?|undefined)"
)
_COUNT = re.compile(
    rf"(?<![\w.-])(?P<number>\d{{1,9}}) (?:\w{{1,20}} ){{0,2}}?{_COUNTED}\b"
    rf"|\b{_COUNTED}(?: run)?(?: ?[:=] ?|\t)(?P<value>\d{{1,9}})\b",
    re.IGNORECASE,
)
_COUNT_OF_DIFF = re.compile(r"[-+] (?:Snapshot|Received|Expected) {2}[-+] \d{1,6}$")
"""How jest says how many lines of a snapshot differ."""

_NAMES_TARGET = re.compile(r"FAILED: (?:\[code=\d{1,4}\] )?\S{1,300} ?\S{0,300}$")
_NOTHING = re.compile(r"\W{0,8}0 (?:error|warning|failure|problem)", re.IGNORECASE)
_OTHER_WORD = re.compile(r"[A-Za-z]{3,}|[\"'`/]")
_MOST_OTHERS = 4
_OF_COUNTS = """
found the and with out for have has had were was are ran run fix fixable option files file error
errors failed failure failures tests test total result results done finished completed summary
seconds sec secs potentially checked source inspected detected would could left unchanged
reformatted generated there took time elapsed fail failing passed status suite suites
"""
_WORDS_OF_COUNTS = frozenset(_OF_COUNTS.split())


def find_bystander(line: str, near: tuple[str, ...] = ()) -> Bystander | None:
    """Return why a line of a log explains no failure, whichever it is; None if it may explain one.

    `near` are the lines around it: only they tell the echo of a command from a line of a diff.
    """
    stamped = without_stamp(line[:LONGEST].rstrip())
    text = strip_line(stamped)
    if _RUNNER.match(stamped) or sum(map(str.isalnum, text)) < _LEAST_LETTERS:
        return Bystander.BANNER
    if _ECHO.match(text) or (_TRACED.match(text) and not any(map(_IN_DIFF.match, near))):
        return Bystander.BANNER
    if _only_follows(text):
        return Bystander.CONSEQUENCE
    if _ends_any_failure(text):
        return Bystander.ENDER
    return Bystander.BANNER if _is_banner(text) else None


def reports_trouble(line: str) -> bool:
    """Whether a line itself says that something went wrong."""
    text = strip_line(line[:LONGEST])
    return bool(find_marks(text) & _ERRS) or TROUBLE.search(text) is not None


def _ends_any_failure(text: str) -> bool:
    if JOB_FAILED.match(text):
        return _NO_REASON.search(text) is not None
    if made := _MAKE.match(text):  # make's own errors are no echo of a command's
        return _MADE.match(text, made.end()) is not None
    if _SOLVE.match(text):
        return _PROCESS.search(text) is not None
    if _EXITS.search(text) and not _NOT_ALONE.search(text):
        return True
    normal = normalise_line(text)
    if noise := NOISE.match(normal):
        reason = _REASON.match(normal, noise.end())  # as in "Job failed: no space left"
        said = reason["reason"] if reason else ""
        is_told = len(said.split()) > 1 and not NOISE.match(said) and reports_trouble(said)
        return not (_REFUSED.search(text) or is_told)
    trailer = "trailer" in find_marks(text)
    return trailer or _ENDS.match(text) is not None or WEAK.match(text) is not None


_REFUSED = re.compile(r"\b[45]\d\d [A-Z]")
"""A server's answer."""

_REASON = re.compile(r".{0,200}?: (?P<reason>.*)")


def _only_follows(text: str) -> bool:
    whole = _NOTHING, _NAMES_TARGET, _COUNT_OF_DIFF
    if _FOLLOWS.search(text) or any(form.match(text) for form in whole):
        return True
    counts = [*_COUNT.finditer(text)]
    if not any(int(each["number"] or each["value"]) for each in counts) or _NOT_ALONE.search(text):
        return False
    others = [
        word
        for word in _OTHER_WORD.findall(_COUNT.sub(" ", text))
        if word.lower() not in _WORDS_OF_COUNTS
    ]
    return len(others) < _MOST_OTHERS and not find_marks(" ".join(others)) & _ERRS


def _is_banner(text: str) -> bool:
    if is_test_progress(text) or _ANNOUNCES.match(text):
        return True
    marks = find_marks(text)
    if _HEADING.match(text):
        return "colon_error" not in marks and "named" not in marks
    quiet = not marks & _ERRS
    return quiet and bool(_PROGRESS.match(text) or _VERSION.match(text))
