"""What a rule is, and how it is applied to a failing job."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from worker.core.failure.file_kinds import may_configure
from worker.core.failure.jobs import FailingJob, RuleMatch
from worker.core.finding import Verdict

LONGEST = 1000
"""The most characters of a line that a rule reads."""

SHOWN = 280
"""The most characters of a line that a rule quotes."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a job failed. `changed_paths` are what the merge request changes, None if unknown."""

    project: str = ""
    sha: str = ""
    changed_paths: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One cause that is recognised without a model.

    The rule applies to a job whose failure_reason is one of `reasons`. If it has `lines`, one of
    them must also match one of the job's last lines: where only the runner writes (before the
    script began or after it ended) or, with `script`, near the script's end if nothing else went
    wrong there. With `quoted_lines`, the rule quotes a line that matches one of them, if any.
    `doubtful` says when a model must be asked all the same. The usual verdict is infrastructure; a
    rule whose verdict is unknown is only a lead for the model. A `before_script_only` rule applies
    only if the script never began.
    """

    name: str
    cause: str
    to_do: str
    reasons: frozenset[str]
    verdict: Verdict = Verdict.INFRASTRUCTURE
    lines: tuple[re.Pattern[str], ...] = ()
    quoted_lines: tuple[re.Pattern[str], ...] = ()
    script: bool = False
    before_script_only: bool = False
    doubtful: Callable[[Scene, str], bool] = lambda scene, line: False


def compile_patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    """Compile patterns of lines, for `re.search`. They must be bounded: log lines are untrusted."""
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


def may_change_configuration(scene: Scene, line: str) -> bool:
    """For `Rule.doubtful`: whether the merge request may have changed its jobs' configuration."""
    return scene.changed_paths is None or any(map(may_configure, scene.changed_paths))


def apply_rule(rule: Rule, job: FailingJob, scene: Scene) -> RuleMatch | None:
    """Return what `rule` says of a job, or None if it does not apply."""
    if job.reason not in rule.reasons or (rule.before_script_only and _may_have_begun(job)):
        return None
    found = _find_line(rule, job)
    if found is None:
        return None
    number, text = found
    return RuleMatch(
        rule=rule.name,
        verdict=rule.verdict.value,
        cause=rule.cause,
        to_do=rule.to_do,
        line=number,
        text=text[:SHOWN].rstrip(),
        certain=rule.verdict is not Verdict.UNKNOWN and not rule.doubtful(scene, text),
    )


def _may_have_begun(job: FailingJob) -> bool:
    """Whether the script may have begun: a runner took the job, and no log shows the contrary."""
    return job.has_started and not (job.read and job.end and not job.began)


def _find_line(rule: Rule, job: FailingJob) -> tuple[int, str] | None:
    """Return the line that the rule needs, None if there is none; (0, "") if it needs none and can
    quote none."""
    if rule.script:
        return _find_last_trouble(rule, job)
    if rule.lines:
        return _find_last_match(rule.lines, _get_runner_lines(job))
    return _find_last_match(rule.quoted_lines, _get_runner_lines(job)) or (0, "")


def _get_runner_lines(job: FailingJob) -> Sequence[tuple[int, str]]:
    """Return the lines at the log's end that the runner wrote."""
    if not job.began:
        return job.end
    final = [at for at, (_, text) in enumerate(job.end) if _FINAL.match(text)]
    return job.end[final[-1] :] if final else ()


def _find_last_match(
    patterns: Sequence[re.Pattern[str]], lines: Sequence[tuple[int, str]]
) -> tuple[int, str] | None:
    for number, text in reversed(lines):
        if any(pattern.search(text[:LONGEST]) for pattern in patterns):
            return number, text
    return None


# -------------------------------------------------------------------------- the script's last words

NEAR_END = 12
"""How many of the script's last lines may hold its last trouble."""

_FINAL = re.compile(r"(?:ERROR|FATAL): Job failed")
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


def _find_last_trouble(rule: Rule, job: FailingJob) -> tuple[int, str] | None:
    """Return the line near the script's end that matches, if the log shows no other trouble."""
    if not job.began:
        return None
    script = [*takewhile(lambda line: not _AFTER.match(line[1]), job.end)]
    found = _find_last_match(rule.lines, script[-NEAR_END:])
    if found is None:
        return None
    excerpt = (re.sub(r"^\d{1,9}: ?", "", line) for line in job.excerpt.split("\n"))
    shown = [*(text for _, text in script), *excerpt]
    return None if any(_is_other_trouble(rule, text[:LONGEST]) for text in shown) else found


def _is_other_trouble(rule: Rule, text: str) -> bool:
    """Whether a line says that something else went wrong."""
    if _TESTED.search(text):
        return True
    if any(pattern.search(text) for pattern in rule.lines) or _AFTER.match(text):
        return False
    return bool(_TROUBLE.search(text)) and not _MERELY.search(text)
