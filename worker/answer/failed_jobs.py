"""Lists what failed, and writes it on one line of a note, as far as it fits. Pure.

The jobs are GitLab's, and in each stands what the model says failed there. Only where GitLab's list
is not known, the line is the model's text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile

from worker.safety.markdown import write_code_line
from worker.safety.neutralise import is_link_allowed
from worker.safety.sentences import begin_words, join_sentences, split_sentences
from worker.safety.untrusted import one_line, visible
from worker.verdict.finding import FailedJobs
from worker.verdict.jobs import FailingJob, Survey

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
    families: list[list[FailingJob]] = []
    for group in survey.groups if survey else ():
        by_name: dict[str, list[FailingJob]] = {}
        for job in group.jobs:
            by_name.setdefault(job.family or job.name, []).append(job)
        families += by_name.values()
    if not families:
        return ()
    named = _assign_names(visible(text), families)
    return tuple(map(_make_entry, families, named))


def _make_entry(jobs: Sequence[FailingJob], names: Sequence[str]) -> FailedJobs:
    first, several = jobs[0], len(jobs) > 1
    # An excerpt that shows several commands does not say which one failed.
    steps = _STEP.findall(first.excerpt)
    return FailedJobs(
        first.family or first.name if several else first.name,
        first.job_id,
        first.url,
        f"{len(jobs)} of {max(first.family_size, len(jobs))} variants" if several else "",
        _OPTION.sub("", steps[0]).strip() if len(steps) == 1 else "",
        tests=tuple(dict.fromkeys(names)),
    )


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
            return _join_labels([self._write_label(job) for job in self.jobs], _MOST_NAMES)
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
        number = job.count or (str(job.job_id) if job.job_id else "")
        linked = is_link_allowed(job.url, self.hosts)
        where = f"[{number or 'its page'}]({job.url})" if linked else number
        return f"{write_code_line(one_line(job.name, MAX_NAME))}{f' ({where})' if where else ''}"

    def _write_job(self, job: FailedJobs, most: int, step: bool = True) -> str:
        """Return a job, its step, its first `most` tests and the number of the others."""
        names, left = [*map(write_code_line, job.tests[:most])], len(job.tests) - most
        if left > 0 and names:
            kind = f" test{'s' * (left > 1)}" if all(map(_TEST.search, job.tests)) else ""
            names.append(f"{left} more{kind}")
        listed = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
        said = job.step and job.step not in job.tests and step
        label = self._write_label(job) + (f", {write_code_line(job.step)}" if said else "")
        return f"{label}: {listed}" if listed else label

    def _fill_line(self) -> str:
        """Return all jobs, and as much about each as fits on one line, the first ones first."""
        texts = [self._write_label(job) for job in self.jobs]
        if _measure("; ".join(texts)) > LINE:
            return _join_labels(texts, len(texts))
        for at, job in enumerate(self.jobs):
            room = LINE - _measure("; ".join(texts)) + _measure(texts[at])
            counts = range(len(job.tests), -1, -1)
            forms = (self._write_job(job, most, step) for most in counts for step in (True, False))
            texts[at] = next((form for form in forms if _measure(form) <= room), texts[at])
        return "; ".join(texts)


MAX_NAME = 80

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


def cut_names(text: str, limit: int) -> str:
    """Return a list of names on one line: of a longer one as many whole names as fit into `limit`
    characters, and the number of the others."""
    names = _BETWEEN_NAMES.split(" ".join(visible(text).split()))
    if len(", ".join(names)) <= limit:
        return ", ".join(names)
    cuts = (f"{', '.join(names[:at])} and {len(names) - at} more" for at in range(1, len(names)))
    fitting = list(takewhile(lambda cut: len(cut) <= limit, cuts))
    return fitting[-1] if fitting else one_line(text, limit)
