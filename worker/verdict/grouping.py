"""Groups the failing jobs of a pipeline by cause, and compares a failure with the one before. Pure.

Jobs with exactly the same errors form a group, whatever they are called; a failed build is in the
group of another that has all its errors and more. One job represents a group, and only its log has
to be examined.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from worker.logs.failing_command import FailingCommand, find_failing_command, find_unfinished_test
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
    said = command.select(lines) if command.in_script else ()
    words = (line.strip() for line in reversed(said) if _WORDS.search(line[:LONGEST]))
    wrote = (line.strip() for line in reversed(_select_writer(lines, command)))
    failed = (line for line in wrote if TROUBLE.search(line[:LONGEST]))
    ended = (line.strip() for line in reversed(lines) if JOB_FAILED.match(line))
    return one_line(next(words, "") or next(failed, "") or next(ended, ""), TEXT)


def _select_writer(lines: Sequence[str], command: FailingCommand) -> Sequence[str]:
    """Return the output of the command before the failing one, if both name the same file."""
    before = lines[: max(0, command.first - 2)]
    earlier = find_failing_command([*before, "ERROR: Job failed"])
    shared = {*_FILE.findall(earlier.text)} & {*_FILE.findall(command.text)}
    return earlier.select(before) if command.in_script and shared else ()


_WORDS = re.compile(r"[A-Za-z]{3,}.{0,80}?[A-Za-z]{3,}")
_FILE = re.compile(r"(?<![\w./:-])[\w./-]{1,100}\.[A-Za-z]\w{0,7}(?![\w./])")


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
        found = _make_signature(job)
        name = _name_group(job, found, ruled)
        groups.setdefault(name, _JobGroup(found, ruled)).jobs.append(job)
    groups = _merge_builds(groups)
    for job in unread:
        _find_family_group(groups, job).jobs.append(job)
    listed = [
        Group(
            _make_key(group),
            group.text,
            tuple(group.jobs),
            group.ruled,
            others=group.signature.others,
        )
        for group in groups.values()
    ]
    return tuple(
        sorted(listed, key=lambda each: (-len(each.jobs), each.external, each.jobs[0].job_id))
    )


def _make_key(group: _JobGroup) -> str:
    """Return the key by which the failure is remembered. The same error in another job, or of
    another command, may have another cause. What has an exit code of its own, such as a killed
    program, is another failure too."""
    if not group.signature.key:
        return ""
    ended = {
        f"{job.family or job.name}\n{job.command}\n{job.exit_code}"
        for job in group.jobs
        if job.read
    }
    return join_key(group.signature.key, *sorted(ended))


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


def _make_signature(job: FailingJob) -> Signature:
    """Return the signature of a job's errors. If the job met its time limit, the test that was
    still running comes first."""
    signature = make_signature((job.error_text or job.excerpt).split("\n"), job.command)
    timed_out = job.reason in TIME_LIMITS
    test = find_unfinished_test(line for _, line in job.end) if timed_out else ""
    return lead_with(f"{test} has not ended", signature) if test else signature


_BY_SHELL = 126
"""From here on an exit code is the shell's word for what became of a program: it could not be run,
or a signal ended it."""


def _name_group(job: FailingJob, found: Signature, ruled: RuleMatch | None) -> str:
    if ruled and ruled.certain:
        return f"rule {ruled.rule}"
    code = f" {job.exit_code}" if job.exit_code >= _BY_SHELL else ""
    return f"{found.key}{code}" if found.key else f"{job.reason} {job.family or job.name}"


def _find_family_group(groups: dict[str, _JobGroup], job: FailingJob) -> _JobGroup:
    alike = [
        group
        for group in groups.values()
        if any(each.family == job.family and each.reason == job.reason for each in group.jobs)
    ]
    if len(alike) == 1:
        return alike[0]
    return groups.setdefault(f"unread {job.reason}", _JobGroup(Signature(), None))


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
    ours, theirs = (sorted(_list_errors(survey)) for survey in (before, now))
    known = all(error for *_, error in ours)
    return Difference.SAME_WAY if known and ours == theirs else Difference.OTHER


def _list_runs(survey: Survey) -> set[tuple[int, str]]:
    return {(job.job_id, "" if job.job_id else job.name) for job in survey.jobs}


def _list_errors(survey: Survey) -> Iterator[tuple[str, str, str]]:
    """Yield each failing job with GitLab's reason and its decisive error, "" if none is known."""
    for group in survey.groups:
        for job in group.jobs:
            yield job.name, job.reason, _name_error(group, job)
        if not group.jobs:  # the pipeline's configuration
            yield "", "", group.text


def _name_error(group: Group, job: FailingJob) -> str:
    """Return what tells the error of a job from others; "" if only its end is known.

    That a job failed outside its script is an error by itself where GitLab says how, and so are a
    rule's name and the words of another system.
    """
    if job.external:
        return job.excerpt
    if group.key:
        return group.key
    rule = group.rule_match.rule if group.rule_match else ""
    return rule or (job.reason if job.reason not in BY_ITSELF else "")
