"""What a rule is, how it is applied to a failing job, and what it may ask of what it has found.
Pure.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from worker.verdict.diffs import may_choose_runner, may_configure
from worker.verdict.facts import PREPARING
from worker.verdict.jobs import FailingJob, RuleMatch
from worker.verdict.rules.runner_log import (
    HELPER_IMAGE,
    LONGEST,
    find_image,
    list_runner_lines,
    name_facts,
)
from worker.verdict.verdict import Verdict

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
    """What a rule has found in a job's log; nothing if it needs no line."""

    job: FailingJob
    scene: Scene
    number: int = 0
    text: str = ""
    start: int = 0
    """Where in `text` its pattern matched."""
    end: int = 0

    def may_change_configuration(self) -> bool:
        """Whether the merge request may have changed its jobs' configuration."""
        paths = self.scene.changed_paths
        return paths is None or any(map(may_configure, paths))

    def may_choose_runners(self) -> bool:
        """Whether the merge request may have changed which runners may take jobs, which no image
        decides."""
        paths = self.scene.changed_paths
        return paths is None or any(map(may_choose_runner, paths))

    def may_name_image(self) -> bool:
        """Whether the merge request may have chosen the image, as it never does the runner's helper
        image."""
        image = find_image(self.job, self.text)
        return HELPER_IMAGE not in image and (
            self.may_change_configuration() or self._names_part(image)
        )

    def _names_part(self, image: str) -> bool:
        """Whether the merge request adds a line with the image's name or its tag: a file of
        versions may be what the configuration reads."""
        name, _, tag = image.rpartition("/")[2].partition(":")
        told = (each for each in (name, tag) if len(each) > 2 and each != "latest")
        return any(map(self.scene.may_add, told))

    def may_lack_own_image(self) -> bool:
        """Whether the merge request may be to blame for a missing image: it may have changed the
        image's name, or its pipeline or project should have built the image."""
        text = f"{self.text} {find_image(self.job, self.text)}".lower()
        scene = self.scene
        ours = scene.project.lower() in text or (scene.sha and scene.sha[:8] in text)
        return self.may_name_image() or bool(ours)

    def may_name_pulled_image(self) -> bool:
        """Whether the merge request may have named the image that is pulled."""
        image = find_image(self.job, self.text)
        return self.may_change_configuration() and (not image or self._names_part(image))

    def may_be_the_job(self) -> bool:
        """Whether the job itself may have made the runner fail: by a variable, a service or an
        image that its configuration names, or as the runner's last lines are about an image."""
        texts = (text for _, text in list_runner_lines(self.job))
        return self.may_change_configuration() or any(map(_ABOUT_IMAGE.search, texts))

    def was_unschedulable(self) -> bool:
        """Whether the last word on the pod is that no node has enough CPU or memory for it."""
        events = [text for _, text in list_runner_lines(self.job) if text.startswith("\t")]
        return any(re.search(r"Unschedulable: .{0,400}Insufficient", text) for text in events[-1:])

    def fetches_repository(self) -> bool:
        """Whether the runner fetched the project's repository, and not a submodule, a file in LFS,
        or the repository of another address."""
        lines = list_runner_lines(self.job)
        before = [text for number, text in lines if number <= self.number]
        if not any(map(_FETCHING.match, before)) or any(map(_CHECKED_OUT.match, before)):
            return False
        if not (found := _URL.search(self.text)):
            return True
        # A runner may know GitLab by another name than its users, so that the path has to be the
        # same, and the host need not.
        address = found[1].partition("://")[2]
        path = address.partition("/")[2].rstrip("/").removesuffix(".git").lower()
        page = self.job.url.partition("://")[2].partition("/-/")[0].partition("/")[2].lower()
        folders = (_FOLDER.search(text) for _, text in lines)
        made = any(each and each[1].lower().endswith(f"/{path}") for each in folders)
        return bool(path) and (made or path in {page, self.scene.project.lower()})


_ABOUT_IMAGE = re.compile(
    r"failed to pull|image pull failed|pull access denied|\bmanifest\b", re.IGNORECASE
)
_CHECKED_OUT = re.compile(r"Checking out |Updating/initializing submodules|Updated submodules")
_FETCHING = re.compile(r"Getting source from Git|Fetching changes|Cloning repository")
_FOLDER = re.compile(r"nitialized (?:empty|existing) Git repository in (.{1,400}?)/\.git/?$")
_URL = re.compile(r"unable to access '(https?://[^']{1,400})'")


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
    choose: "Callable[[Sequence[_Line]], _Line]" = lambda found: found[-1]
    """Picks one of the lines that match."""
    holds: Callable[[Sight], bool] = lambda sight: True
    """Whether what was found is meant."""
    has_started: bool | None = None
    """Whether a runner must have taken the job; None: it does not matter."""
    doubtful: Callable[[Sight], bool] = lambda sight: False
    """When a model must be asked all the same."""

    def apply(self, job: FailingJob, scene: Scene) -> RuleMatch | None:
        """Return what the rule says of a job, or None if it does not apply."""
        may_have_started = job.has_started or bool(job.end)
        if job.reason not in self.reasons or self.has_started not in (None, may_have_started):
            return None
        if self.script:
            found = _find_last_trouble(self, job)
        else:
            found = _choose_match(self.lines or self.quoted_lines, list_runner_lines(job), self)
        if found:
            number, text, match = found
            sight = Sight(job, scene, number, text, match.start(), match.end())
        elif self.lines:
            return None
        else:
            sight = Sight(job, scene)
        if not self.holds(sight):
            return None
        facts = name_facts(job, sight.text)
        return RuleMatch(
            rule=self.name,
            verdict=self.verdict.value,
            cause=self.cause.format_map(facts),
            to_do=self.to_do.format_map(facts),
            line=sight.number,
            text=_cut_around(sight),
            certain=self.verdict is not Verdict.UNKNOWN and not self.doubtful(sight),
        )


def _cut_around(sight: Sight) -> str:
    """Return the part of the line that the rule has matched, with what stands around it."""
    text = sight.text
    if len(text) <= SHOWN:
        return text
    begin = min(max(0, sight.start - _BEFORE), max(0, sight.end - SHOWN // 2))
    if begin:
        begin = text.find(" ", begin, sight.start + 1) + 1 or begin
    return text[begin : begin + max(SHOWN, min(sight.end - begin, 2 * SHOWN))].rstrip()


_Line = tuple[int, str, re.Match[str]]
"""A line's number and text, and what a rule has matched in it."""


def _choose_match(
    patterns: Sequence[re.Pattern[str]], lines: Sequence[tuple[int, str]], rule: Rule
) -> _Line | None:
    found: list[_Line] = []
    for number, text in lines:
        read = text[:LONGEST]
        match = next(filter(None, (pattern.search(read) for pattern in patterns)), None)
        if match and not any(pattern.search(read) for pattern in rule.unless):
            found.append((number, text, match))
    return rule.choose(found) if found else None


# -------------------------------------------------------------------------- the script's last words

_NEAR_END = 12
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


def _find_last_trouble(rule: Rule, job: FailingJob) -> _Line | None:
    """Return the line of the script's last command that matches, if the log shows no other trouble
    and nothing but consequences after it."""
    if not job.began:
        return None
    script = [*takewhile(lambda line: not _AFTER.match(line[1]), job.end)]
    commands = [at for at, (_, text) in enumerate(script) if text.startswith("$ ")]
    last = script[commands[-1] if commands else 0 :][-_NEAR_END:]
    found = _choose_match(rule.lines, last, rule)
    if found is None:
        return None
    if any(_DONE.search(text[:LONGEST]) for number, text in last if number > found[0]):
        return None
    shown = [text for _, text in script]
    # The excerpt may have cut its lines: those near the end are read whole.
    whole = {str(number): text for number, text in job.end}
    for line in job.excerpt.split("\n"):
        numbered = re.match(r"(\d{1,9}): ?", line)
        shown.append(whole.get(numbered[1], line[numbered.end() :]) if numbered else line)
    return None if any(_is_other_trouble(rule, text[:LONGEST]) for text in shown) else found


_DONE = re.compile(
    r"\b(?:succeeded|successful(?:ly)?|done|complete[d]?|finished|downloaded|pulled|passed|ok)\b",
    re.IGNORECASE,
)
"""In a line after the trouble: the work went on."""


def _is_other_trouble(rule: Rule, text: str) -> bool:
    """Whether a line says that something else went wrong."""
    if _TESTED.search(text):
        return True
    if any(pattern.search(text) for pattern in rule.lines) or _AFTER.match(text):
        return any(pattern.search(text) for pattern in rule.unless)
    return bool(_TROUBLE.search(text)) and not _MERELY.search(text)
