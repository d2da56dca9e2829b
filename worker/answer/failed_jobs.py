"""Lists what failed, writes how every note names failing jobs (`write_label`), and writes what
failed on one line of a note, as far as it fits. Pure.

The jobs are GitLab's, and in each stands what the model says failed there. Only where GitLab's list
is not known, the line is the model's text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from itertools import takewhile

from worker.safety.markdown import write_code_line
from worker.safety.neutralise import is_link_allowed
from worker.safety.sentences import begin_words, join_sentences, split_sentences
from worker.safety.untrusted import one_line, visible
from worker.verdict.finding import FailedJobs
from worker.verdict.jobs import (
    FailingJob,
    Survey,
    describe_family,
    name_jobs,
    split_families,
)

MOST_TESTS = 60
"""The most tests or steps that are read of an answer."""

_ID = r"[(\[]{1,2}(?:job )?#?(\d{1,19})(?=[,)\]])"
_TOKEN = (
    rf"`([^`\n]{{1,300}})`(?: {_ID})?|{_ID}|\b[Jj]obs? #?(\d{{1,19}})\b"
    r"|[\"“]([^\"“”\n]{3,200})[\"”]"
    r"|(?<![\w./:-])([\w./\[\]-]{0,100}(?:_|::)[\w./:\[\]-]{1,100}|Test[A-Z]\w{1,80}|\w{1,80}Test)"
)
"""What a text names: code with an id or without, ids, quotations, and bare names of tests."""

_STEP = re.compile(r"^\d{1,9}: \$ (\S.{0,300})$", re.MULTILINE)
"""A command of the job in an excerpt of its log."""

_OPTION = re.compile(r"\s(?:-|[<>|&;]).*")


def list_failed(survey: Survey | None, text: str) -> tuple[FailedJobs, ...]:
    """Return the jobs of the survey that failed, in its order, each with the tests and steps that
    the section `text` of an answer names after it; () without a survey."""
    groups = survey.groups if survey else ()
    families = [family for group in groups for family in split_families(group.jobs)]
    if not families:
        return ()
    named = _assign_names(visible(text), families)
    return tuple(
        FailedJobs(tuple(family), tuple(dict.fromkeys(names)))
        for family, names in zip(families, named, strict=True)
    )


def list_with_reasons(survey: Survey | None) -> tuple[FailedJobs, ...]:
    """Return the jobs of each of the first five groups, for a note without a finding."""
    failed = []
    for group in survey.groups[:5] if survey else ():
        if not group.jobs:
            continue
        reason = group.jobs[0].reason
        if group.rule_match:
            reason = group.rule_match.cause
        elif group.hard_verdict and group.ruling:
            reason = group.ruling.describe()[0]
        elif group.hit:
            reason = f"seen before, {group.hit.verdict}: {group.hit.cause}"
        failed.append(FailedJobs(group.jobs, reason=reason))
    return tuple(failed)


def list_by_cause(survey: Survey | None) -> str:
    """Return the failing jobs by cause as Markdown; "" if no cause has several."""
    if survey is None or not any(len(group.jobs) > 1 for group in survey.groups):
        return ""
    lines = ["**Failing jobs by cause**", ""]
    for group in survey.groups:
        jobs = ", ".join(write_label([job], Form.DETAILS) for job in group.jobs)
        lines.append(f"- {group.job_names}: {jobs}" if jobs else f"- {group.job_names}")
    return "\n".join(lines)


def _find_step(job: FailingJob) -> str:
    """Return the command that failed, "" if it is not known."""
    # An excerpt that shows several commands does not say which one failed.
    steps = _STEP.findall(job.excerpt)
    return _OPTION.sub("", steps[0]).strip() if len(steps) == 1 else ""


def _assign_names(text: str, families: Sequence[Sequence[FailingJob]]) -> list[list[str]]:
    """Return the names of tests and steps in a text, for each of the jobs after whose name or id
    they stand. What stands after another job, which is allowed to fail, belongs to none."""
    by_id = {job.job_id: at for at, jobs in enumerate(families) for job in jobs if job.job_id}
    by_name = {
        name: at
        for at, jobs in reversed([*enumerate(families)])
        for job in jobs
        for name in (job.name, job.family or job.name)
    }
    found: list[list[str]] = [[] for _ in families]
    current: int | None = 0
    names = "|".join(map(re.escape, sorted(by_name, key=len, reverse=True)))
    pattern = rf"(?<![\w./:-])({names})(?=[:,;]| \()|{_TOKEN}"
    for token in re.finditer(pattern, text):
        job, code, code_id, listed_id, job_id, quoted, bare = token.groups()
        name = job or code or quoted or bare or ""
        if number := int(code_id or listed_id or job_id or 0):
            current = by_id.get(number)
        elif name in by_name:
            current = by_name[name]
        elif current is not None and len(found[current]) < MOST_TESTS:
            found[current].append(name)
    return found


# -------------------------------------------------------------------------------- how it is named

MAX_NAME = 80


class Form(Enum):
    """Where a note names failing jobs: their name and the link to them look otherwise there."""

    LINE = auto()
    """The line of a finding that says what failed. The jobs are of one matrix."""
    REPORT = auto()
    """The list of a note without a finding."""
    KNOWN = auto()
    """The note on a known failure, where other jobs are linked."""
    DETAILS = auto()
    """The list by cause, whose entries begin with the names of the matrices."""


def write_label(
    jobs: Sequence[FailingJob],
    form: Form,
    hosts: frozenset[str] = frozenset(),
    most: int = MAX_NAME,
) -> str:
    """Return how a note names failing jobs: by a name of at most `most` characters, and in brackets
    what else it tells of them. All notes name them so, and tell what is in `beside`."""
    beside = [_write_place(jobs, form, hosts)]
    told = ", ".join(filter(None, beside))
    return f"{_write_name(jobs, form, most)}{f' ({told})' if told else ''}"


def _write_name(jobs: Sequence[FailingJob], form: Form, most: int) -> str:
    match form:
        case Form.LINE:
            return write_code_line(one_line(describe_family(jobs)[0], most))
        case Form.REPORT:
            return write_code_line(_cut_names(name_jobs(jobs), most))
        case Form.KNOWN:
            return _cut_names(name_jobs(jobs), most)
        case Form.DETAILS:
            (job,) = jobs
            own = job.name.removeprefix(f"{job.family}: ").strip("[]")
            name = f"{job.job_id or job.name} {own if job.name != job.family else ''}"
            name = name.replace("[", "(").replace("]", ")").strip()
            return f"[{name}]({job.url})" if job.url else name


def _write_place(jobs: Sequence[FailingJob], form: Form, hosts: frozenset[str]) -> str:
    """Return the number of the first job with a link to it, "" where the name has it or none is."""
    if form in (Form.KNOWN, Form.DETAILS):
        return ""
    first = jobs[0]
    number = str(first.job_id or "")
    if form is Form.LINE:
        number = describe_family(jobs)[1] or number
    elif number:
        number = f"job {number}"
    linked = is_link_allowed(first.url, hosts)
    return f"[{number or 'its page'}]({first.url})" if linked else number


# ------------------------------------------------------------------------------ the line of a note

LINE = 92
"""Columns of what failed that one line of a note holds."""

_MOST_NAMES = 3
_TARGET = re.compile(r"\]\([^()\s]{1,2000}\)")
_TEST = re.compile(r"::|\btest|\bspec\b|Test|\.t$|[\w]_\w", re.IGNORECASE)


class Detail(IntEnum):
    """How much is said of what failed, the most first."""

    WHOLE = 0
    FIRST_TESTS = 1
    """Each job with its first tests or steps, none of them cut, and the number of the others."""
    ONE_LINE = 2
    """The jobs, and as much about each as fits on one line of the note."""
    NAMES = 3
    """The first three jobs."""
    NOTHING = 4


@dataclass(frozen=True)
class FailedLine:
    """What failed: the `jobs`, or without any the model's `text`. Links lead to `hosts` only."""

    jobs: Sequence[FailedJobs]
    text: str
    hosts: frozenset[str] = frozenset()

    def write(self, detail: Detail, tests: int = 1) -> str:
        """Return what failed on one line; with FIRST_TESTS the first `tests` of each job."""
        if detail is Detail.NOTHING:
            return ""
        if not self.jobs:
            line = join_sentences(split_sentences(visible(self.text).strip()) or [""])
            if detail is Detail.WHOLE or _measure(line) <= LINE:
                return line
            words = begin_words(line, LINE - 2)
            return f"{words} …" if words else one_line(line, LINE)
        if detail is Detail.NAMES:
            return _join_labels([*map(self._write_label, self.jobs)], _MOST_NAMES)
        if detail is Detail.ONE_LINE:
            return self._fill_line()
        most = self.count_tests() if detail is Detail.WHOLE else tests
        return "; ".join(self._write_job(job, most) for job in self.jobs)

    def count_tests(self) -> int:
        """Return how many tests or steps are listed of the job with the most."""
        return max((len(job.tests) for job in self.jobs), default=0)

    def is_told(self, line: str) -> bool:
        """Return whether a line has every word of the model's text, but for usual ones and those of
        the file in brackets beside what it names."""
        said = _FILE.sub(" ", self.text).lower()
        return set(_WORD.findall(said)) <= {*_WORD.findall(line.lower()), *_USUAL}

    def _write_label(self, job: FailedJobs) -> str:
        return write_label(job.jobs, Form.LINE, self.hosts)

    def _write_job(self, job: FailedJobs, most: int, step: bool = True) -> str:
        """Return a job, its step, its first `most` tests and the number of the others."""
        names, left = [*map(write_code_line, job.tests[:most])], len(job.tests) - most
        if left > 0 and names:
            kind = f" test{'s' * (left > 1)}" if all(map(_TEST.search, job.tests)) else ""
            names.append(f"{left} more{kind}")
        listed = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
        command = _find_step(job.jobs[0]) if step else ""
        said = command and command not in job.tests
        label = self._write_label(job) + (f", {write_code_line(command)}" if said else "")
        return f"{label}: {listed}" if listed else label

    def _fill_line(self) -> str:
        """Return all jobs, and as much about each as fits on one line, the first ones first."""
        texts = [*map(self._write_label, self.jobs)]
        if _measure("; ".join(texts)) > LINE:
            return _join_labels(texts, len(texts))
        for at, job in enumerate(self.jobs):
            room = LINE - _measure("; ".join(texts)) + _measure(texts[at])
            counts = range(len(job.tests), -1, -1)
            forms = (self._write_job(job, most, step) for most in counts for step in (True, False))
            texts[at] = next((form for form in forms if _measure(form) <= room), texts[at])
        return "; ".join(texts)


_WORD = re.compile(r"[^\W\d_]{3,}")
_FILE = re.compile(
    r"(?<=[`\w\])] )[(\[]`?[^\s()\[\]`]{1,300}\.[a-zA-Z]\w{0,7}(?::\d{1,7}){0,2}`?[)\]]"
)
"""A file in brackets after a test or step."""

_USUAL = frozenset(("all", "and", "are", "fail", "failed", "fails", "job", "jobs", "step", "target",
                    "test", "tests", "the", "with"))  # fmt: skip


def _join_labels(labels: Sequence[str], most: int) -> str:
    """Return the first `most` jobs, fewer if they are longer than a line, and the number of the
    others; at least one."""
    for count in range(min(most, len(labels)), 0, -1):
        left = len(labels) - count
        text = ", ".join(labels[:count]) + (f" and {left} more" if left else "")
        if count == 1 or _measure(text) <= LINE:
            return text
    return ""


def _measure(text: str) -> int:
    """Return how many columns a text takes, without the marks of code and where links lead."""
    return len(_TARGET.sub("]", text).replace("`", "").replace("[", "").replace("]", ""))


_BETWEEN_NAMES = re.compile(r", (?![^\[\]()]{0,60}[\])])")
"""Not inside brackets, as of `test: [3.12, linux]`."""


def _cut_names(text: str, limit: int) -> str:
    """Return a list of names on one line: of a longer one as many whole names as fit into `limit`
    characters, and the number of the others."""
    names = _BETWEEN_NAMES.split(" ".join(visible(text).split()))
    if len(", ".join(names)) <= limit:
        return ", ".join(names)
    cuts = (f"{', '.join(names[:at])} and {len(names) - at} more" for at in range(1, len(names)))
    fitting = list(takewhile(lambda cut: len(cut) <= limit, cuts))
    return fitting[-1] if fitting else one_line(text, limit)
