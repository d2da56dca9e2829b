"""Groups the failing jobs of a pipeline by cause, and compares a failure with the one before. Pure.

Jobs with exactly the same errors form a group, whatever they are called; a failed build is in the
group of another that has all its errors and more. One job represents a group, and only its log has
to be examined.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from worker.logs.failing_command import find_failing_command, find_unfinished_test
from worker.logs.line_kinds import JOB_FAILED, TROUBLE
from worker.logs.normal_form import LONGEST
from worker.logs.signature import TEXT, Signature, join_key, lead_with, make_signature
from worker.safety.untrusted import one_line
from worker.verdict.facts import BY_ITSELF, TIME_LIMITS
from worker.verdict.jobs import FailingJob, Group, RuleMatch, Survey


@dataclass(slots=True)
class _JobGroup:
    signature: Signature
    ruled: RuleMatch | None
    jobs: list[FailingJob] = field(default_factory=list)

    @property
    def errors(self) -> frozenset[str]:
        """The build errors, none if a rule explains the failure."""
        return frozenset() if self.ruled else self.signature.build_errors

    @property
    def key(self) -> str:
        """By which the failure is remembered. The same error in another job, or of another command,
        may have another cause. What has an exit code of its own, such as a killed program, is
        another failure too."""
        if not self.signature.key:
            return ""
        ended = {
            f"{job.family or job.name}\n{job.command}\n{job.exit_code}"
            for job in self.jobs
            if job.read
        }
        return join_key(self.signature.key, *sorted(ended))

    @property
    def text(self) -> str:
        """The error: what a rule found in the runner's words if the script did not begin, or
        shows no error. If nothing is an error, it is the last words of the failing command, or of
        the one that wrote the file it reads, else what the runner says of it: it is shown, but
        nothing is remembered by it."""
        ruled = self.ruled.text if self.ruled else ""
        by_script = self.jobs[0].began and self.signature.key
        error = self.signature.text if by_script or not ruled else ruled
        return error or _find_last_words([text for _, text in self.jobs[0].end])


def _find_last_words(lines: Sequence[str]) -> str:
    """Return the last line with words that the failing command wrote, else what the command before
    it could not do, if both name one file; else the runner's last word; "" for nothing. `lines` are
    those of a log's end."""
    command = find_failing_command(lines)
    said: Sequence[str] = ()
    wrote: Sequence[str] = ()
    if command.in_script:
        said = command.select(lines)
        before = lines[: max(0, command.first - 2)]
        earlier = find_failing_command([*before, "ERROR: Job failed"])
        if {*_FILE.findall(earlier.text)} & {*_FILE.findall(command.text)}:
            wrote = earlier.select(before)
    words = (line.strip() for line in reversed(said) if _WORDS.search(line[:LONGEST]))
    failed = (text for line in reversed(wrote) if TROUBLE.search((text := line.strip())[:LONGEST]))
    ended = (line.strip() for line in reversed(lines) if JOB_FAILED.match(line))
    return one_line(next(words, "") or next(failed, "") or next(ended, ""), TEXT)


_WORDS = re.compile(r"[A-Za-z]{3,}.{0,80}?[A-Za-z]{3,}")
_FILE = re.compile(r"(?<![\w./:-])[\w./-]{1,100}\.[A-Za-z]\w{0,7}(?![\w./])")

_BY_SHELL = 126
"""From here on an exit code is the shell's word for what became of a program: it could not be run,
or a signal ended it."""


def group_jobs(
    jobs: Iterable[FailingJob], recognise: Callable[[FailingJob], RuleMatch | None]
) -> tuple[Group, ...]:
    """Group the jobs by cause.

    A job whose build errors are all among those of another job is in that job's group. A job whose
    log was not read joins its family's group if the family has only one cause.
    """
    groups: dict[str, _JobGroup] = {}
    unread: list[FailingJob] = []
    for job in jobs:
        if job.external:  # a few words of another system tell no two errors apart
            groups[f"external {job.name}"] = _JobGroup(Signature(text=job.excerpt), None, [job])
            continue
        ruled = recognise(job)
        if not job.read and not ruled:
            unread.append(job)
            continue
        found = make_signature((job.error_text or job.excerpt).split("\n"), job.command)
        if job.reason in TIME_LIMITS:
            test = find_unfinished_test(line for _, line in job.end)
            found = lead_with(f"{test} has not ended", found) if test else found
        if ruled and ruled.certain:
            name = f"rule {ruled.rule}"
        elif found.key:
            name = f"{found.key} {job.exit_code}" if job.exit_code >= _BY_SHELL else found.key
        else:
            name = f"{job.reason} {job.family or job.name}"
        groups.setdefault(name, _JobGroup(found, ruled)).jobs.append(job)
    groups = _merge_builds(groups)
    for job in unread:
        kind = (job.family, job.reason)
        alike = [
            group
            for group in groups.values()
            if any((each.family, each.reason) == kind for each in group.jobs)
        ]
        if len(alike) != 1:
            alike = [groups.setdefault(f"unread {job.reason}", _JobGroup(Signature(), None))]
        alike[0].jobs.append(job)
    listed = [
        Group(each.key, each.text, tuple(each.jobs), each.ruled, others=each.signature.others)
        for each in groups.values()
    ]
    return tuple(
        sorted(listed, key=lambda each: (-len(each.jobs), each.external, each.jobs[0].job_id))
    )


def _merge_builds(groups: Mapping[str, _JobGroup]) -> dict[str, _JobGroup]:
    """Merge each group into another that has all its build errors and more."""
    merged: dict[str, _JobGroup] = {}
    for name, group in sorted(groups.items(), key=lambda each: -len(each[1].errors)):
        whole = (other for other in merged.values() if group.errors and group.errors < other.errors)
        if larger := next(whole, None):
            larger.jobs += group.jobs
        else:
            merged[name] = group
    return merged


class Difference(Enum):
    """What a failure is beside the one that was looked at before."""

    NONE = auto()
    """The very same runs of the same jobs: nothing was run again."""

    SAME_WAY = auto()
    """The same jobs, run again, with the same errors."""

    OTHER = auto()
    """Other jobs, or other errors; also if that cannot be told."""


def compare_failures(before: Survey | None, now: Survey, *, same_pipeline: bool) -> Difference:
    """Return how the failure `now` differs from the one `before`."""
    if before is None or not before.groups or not now.groups:
        return Difference.OTHER
    if same_pipeline and _list_runs(before) == _list_runs(now):
        return Difference.NONE
    ours, theirs = _list_errors(before), _list_errors(now)
    known = all(error for *_, error in ours)
    return Difference.SAME_WAY if known and ours == theirs else Difference.OTHER


def _list_runs(survey: Survey) -> set[tuple[int, str]]:
    return {(job.job_id, "" if job.job_id else job.name) for job in survey.jobs}


def _list_errors(survey: Survey) -> list[tuple[str, str, str]]:
    """List each failing job with GitLab's reason and what tells its error from others, in order.

    That is "" if only its end is known. That a job failed outside its script is an error by itself
    where GitLab says how, and so are a rule's name and the words of another system.
    """
    found: list[tuple[str, str, str]] = []
    for group in survey.groups:
        rule = group.rule_match.rule if group.rule_match else ""
        for job in group.jobs:
            error = group.key or rule or (job.reason if job.reason not in BY_ITSELF else "")
            found.append((job.name, job.reason, job.excerpt if job.external else error))
        if not group.jobs:  # the pipeline's configuration
            found.append(("", "", group.text))
    return sorted(found)
