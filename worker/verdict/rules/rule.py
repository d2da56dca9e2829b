"""What a rule is, and how it is applied to a failing job."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from worker.verdict.gitlab_reasons import PREPARING
from worker.verdict.jobs import FailingJob, RuleMatch
from worker.verdict.rules.runner_log import (
    list_runner_lines,
    name_facts,
)
from worker.verdict.verdict import Verdict

LONGEST = 2000
"""The most characters of a line that a rule reads."""

SHOWN = 280
"""The most characters of a line that a rule quotes."""

_BEFORE = 80
"""About how many characters of a long line are quoted before what the rule has matched."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a job failed. `changed_paths` are what the merge request changes, None if unknown;
    `added_lines` are those that it adds, None unless all of them are known."""

    project: str = ""
    sha: str = ""
    changed_paths: tuple[str, ...] | None = ()
    added_lines: str | None = ""

    def may_add(self, word: str) -> bool:
        """Whether the merge request adds a line with this word, or may do so."""
        return self.added_lines is None or word in self.added_lines


@dataclass(frozen=True, slots=True)
class Sight:
    """What a rule has found: line `number` of the job's log, `text`, where its pattern matched
    between `start` and `end`. A rule that needs no line has found 0 and ""."""

    job: FailingJob
    scene: Scene
    number: int = 0
    text: str = ""
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause that is recognised without a model: a row of the table.

    Its sentences name what is at hand: `{image}` and whatever else `name_facts` knows.
    """

    name: str
    cause: str
    to_do: str
    reasons: frozenset[str] = PREPARING
    """GitLab's failure_reason of the job is one of these."""
    verdict: Verdict = Verdict.INFRASTRUCTURE
    """If it is unknown, the rule is only a lead for the model."""
    lines: tuple[re.Pattern[str], ...] = ()
    """If there are any, one of the job's last lines must match one of them: where only the runner
    writes, in the stage in which the job ended before its script, or after the script."""
    unless: tuple[re.Pattern[str], ...] = ()
    """A line that matches one of these does not count: other causes share the words."""
    quoted_lines: tuple[re.Pattern[str], ...] = ()
    """The rule quotes a line that matches one of these, if any."""
    script: bool = False
    """Whether `lines` are the last words of the script's last command, if nothing else went wrong
    there."""
    choose: "Callable[[Sequence[Line]], Line]" = lambda found: found[-1]
    """Picks one of the lines that match."""
    holds: Callable[[Sight], bool] = lambda sight: True
    """Whether what was found is meant."""
    has_started: bool | None = None
    """Whether a runner must have taken the job; None: it does not matter."""
    doubtful: Callable[[Sight], bool] = lambda sight: False
    """When a model must be asked all the same."""


def apply_rule(rule: Rule, job: FailingJob, scene: Scene) -> RuleMatch | None:
    """Return what `rule` says of a job, or None if it does not apply."""
    if job.reason not in rule.reasons or rule.has_started not in (None, may_have_started(job)):
        return None
    sight = _find_line(rule, job, scene)
    if sight is None or not rule.holds(sight):
        return None
    facts = name_facts(job, sight.text)
    return RuleMatch(
        rule=rule.name,
        verdict=rule.verdict.value,
        cause=rule.cause.format_map(facts),
        to_do=rule.to_do.format_map(facts),
        line=sight.number,
        text=_cut_around(sight),
        certain=rule.verdict is not Verdict.UNKNOWN and not rule.doubtful(sight),
    )


def may_have_started(job: FailingJob) -> bool:
    """Whether a runner took the job, or wrote a log of it."""
    return job.has_started or bool(job.end)


def _cut_around(sight: Sight) -> str:
    """Return the part of the line that the rule has matched, with what stands around it."""
    text = sight.text
    if len(text) <= SHOWN:
        return text
    begin = min(max(0, sight.start - _BEFORE), max(0, sight.end - SHOWN // 2))
    if begin:
        begin = text.find(" ", begin, sight.start + 1) + 1 or begin
    return text[begin : begin + max(SHOWN, min(sight.end - begin, 2 * SHOWN))].rstrip()


def _find_line(rule: Rule, job: FailingJob, scene: Scene) -> Sight | None:
    """Return the line that the rule needs, None if there is none; one without text if it needs none
    and can quote none."""
    if rule.script:
        found = _find_last_trouble(rule, job)
    else:
        found = _choose_match(rule.lines or rule.quoted_lines, list_runner_lines(job), rule)
    if found is None:
        return None if rule.lines else Sight(job, scene)
    number, text, match = found
    return Sight(job, scene, number, text, match.start(), match.end())


Line = tuple[int, str, re.Match[str]]
"""A line's number and text, and what a rule has matched in it."""


def take_longest(found: Sequence[Line]) -> Line:
    """Return the longest of the lines: of several that tell the same, it tells most."""
    return max(found, key=lambda line: len(line[1]))


def _choose_match(
    patterns: Sequence[re.Pattern[str]], lines: Sequence[tuple[int, str]], rule: Rule
) -> Line | None:
    found = list[Line]()
    for number, text in lines:
        read = text[:LONGEST]
        match = next(filter(None, (pattern.search(read) for pattern in patterns)), None)
        if match and not any(pattern.search(read) for pattern in rule.unless):
            found.append((number, text, match))
    return rule.choose(found) if found else None


# -------------------------------------------------------------------------- the script's last words

NEAR_END = 12
"""How many of the script's last lines may hold its last trouble."""

_AFTER = re.compile(
    r"(?:Running after_script|Uploading artifacts for failed job|Saving cache for failed job"
    r"|Cleaning up project directory|(?:ERROR|FATAL): Job failed)"
)
_TESTED = re.compile(
    r"\bFAIL(?:ED|URES?)?\b|\bAssert|\bassert\w*[ (]|\b[Ee]xpected\b"
    r"|\b\d{1,6} (?:failed|failures?)\b|\b[Ff]ailures?:|\b[Tt]ests? (?:failed|run)"
    r"|[✗✖✕●❌]|\bnot ok \d"
    r"|\b(?:Syntax|Type|Name|Import|Key|Value|Attribute|Index)Error\b"
)
_MERELY = re.compile(
    r"^(?:error: |fatal: )?(?:process|command|script|job|the command|recipe)\b.{0,200}"
    r"(?:exit|returned|failed)|^g?make(?:\[\d{1,4}\])?: \*\*\*|^compilation terminated"
    r"|^npm (?:ERR!|error)",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(?:error|fatal|failed|failure|panic|exception|traceback|cannot|could not|denied|refused"
    r"|undefined|timed out|killed)\b",
    re.IGNORECASE,
)


def _find_last_trouble(rule: Rule, job: FailingJob) -> Line | None:
    """Return the line of the script's last command that matches, if the log shows no other trouble
    and nothing but consequences after it."""
    if not job.began:
        return None
    script = [*takewhile(lambda line: not _AFTER.match(line[1]), job.end)]
    commands = [at for at, (_, text) in enumerate(script) if text.startswith("$ ")]
    last = script[commands[-1] if commands else 0 :][-NEAR_END:]
    found = _choose_match(rule.lines, last, rule)
    if found is None or any(_goes_on(text) for number, text in last if number > found[0]):
        return None
    shown = [*(text for _, text in script), *_read_excerpt(job)]
    return None if any(_is_other_trouble(rule, text[:LONGEST]) for text in shown) else found


def _read_excerpt(job: FailingJob) -> Iterator[str]:
    """Yield the excerpt's lines, whole where they are near the end: it may have cut them."""
    whole = {str(number): text for number, text in job.end}
    for line in job.excerpt.split("\n"):
        numbered = re.match(r"(\d{1,9}): ?", line)
        yield whole.get(numbered[1], line[numbered.end() :]) if numbered else line


_DONE = re.compile(
    r"\b(?:succeeded|successful(?:ly)?|done|complete[d]?|finished|downloaded|pulled|passed|ok)\b",
    re.IGNORECASE,
)


def _goes_on(text: str) -> bool:
    """Whether a line after the trouble says that the work went on."""
    return bool(_DONE.search(text[:LONGEST]))


def _is_other_trouble(rule: Rule, text: str) -> bool:
    """Whether a line says that something else went wrong."""
    if _TESTED.search(text):
        return True
    if any(pattern.search(text) for pattern in rule.lines) or _AFTER.match(text):
        return any(pattern.search(text) for pattern in rule.unless)
    return bool(_TROUBLE.search(text)) and not _MERELY.search(text)
