"""The lines that a log's errors are read from: those of an excerpt, and every failed test and error
with its place, as an excerpt has no room for all of them. Pure."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from worker.logs import trace
from worker.logs.error_lines import find_ignored, find_passed_output
from worker.logs.excerpt import make_excerpt
from worker.logs.excerpt.choose import clip_text
from worker.logs.failing_command import (
    FailingCommand,
    find_failing_command,
    find_runner_reason,
    read_exit_code,
)
from worker.logs.line_kinds import GAP, is_in_a_list, strip_line
from worker.logs.normal_form import normalise_line, normalise_places
from worker.logs.signature import find_exact_errors, list_telling_lines

MOST = 5000
"""The most lines of a log that are examined for failed tests and errors with their places, and the
most lines of a passed run that are compared with them."""

MOST_TOLD = 1000
"""The most of them that `FailureLines.write_text` adds to the excerpt."""

_LISTED = re.compile(
    r"FAIL|not ok |<<< |stdout ----|rspec \./|[✕✗✖✘●]|\] › |\[E\]$|\) [\w\\]{1,200}::"
    r"|\) (?:test|property|doctest) |\berror\b|^[A-Z]{1,5}\d{2,5} ",
    re.IGNORECASE,
)
_LONGEST = 400
_NUMBER = re.compile(r"(\d{1,9}): ")
_LETTERS = re.compile(r"[^\W\d_]+")
_ZERO = re.compile(r"(?<![\w.,:-])0(?![\w.,:-]*\w)")


@dataclass(frozen=True, slots=True)
class FailureLines:
    """`excerpt` has an excerpt's lines, with their numbers; `failures` those of the whole log that
    name a failed test or an error with its place. Neither has lines about an ignored failure
    (see `error_lines`), or of tests that passed. `is_whole`: every line of the log that looks
    like one was examined. `command` is the one that ended the job, if only its output was read, and
    `exit_code` the code that the runner gives for it, 0 if it gives none.
    """

    excerpt: tuple[str, ...]
    failures: tuple[str, ...]
    is_whole: bool = True
    command: FailingCommand | None = None
    exit_code: int = 0

    def find_usual(self, passed: Iterable[str]) -> frozenset[str]:
        """Return the shapes of those errors that the lines of a passed run have too.

        Passing tests print such lines, with other numbers in each run: they explain no failure. If
        the run has very many lines like them, the first are compared.
        """
        telling = list_telling_lines((*self.excerpt, *self.failures))
        shapes = frozenset(map(_make_shape, telling))
        words = {max(_LETTERS.findall(shape), key=len, default="") for shape in shapes}
        alike = (line for line in passed if not words.isdisjoint(_LETTERS.findall(line)))
        # A long line is cut in an excerpt.
        return shapes & {
            _make_shape(each) for line in islice(alike, MOST) for each in {line, clip_text(line)}
        }

    def drop_usual(self, usual: frozenset[str]) -> "FailureLines":
        """Return the lines without those of a `usual` shape."""
        if not usual:
            return self
        excerpt, failures = (
            tuple(line for line in lines if _make_shape(line) not in usual)
            for lines in (self.excerpt, self.failures)
        )
        return replace(self, excerpt=excerpt, failures=failures)

    def is_list(self) -> bool:
        """Whether the errors of the excerpt are part of a longer list, or it has no errors."""
        errors = find_exact_errors(self.excerpt)
        return not errors or any(map(is_in_a_list, errors.values()))

    def write_text(self) -> str:
        """Return the excerpt and, if its errors are part of a list, the others below a gap."""
        if not self.is_list():
            return "\n".join(self.excerpt)
        known = {_NUMBER.sub("", line, 1).strip()[:_LONGEST] for line in self.excerpt}
        others = [line for line in self.failures[:MOST_TOLD] if line not in known]
        return "\n".join((*self.excerpt, GAP, *others))


def read_failure_lines(
    cleaned: bytes, excerpt: str, most: int = MOST, command: FailingCommand | None = None
) -> FailureLines:
    """Return the lines of an excerpt of a cleaned log, and the log's lines that name a failure, of
    the first `most` that look like it: of the output of `command`, if it is given.

    If a log has ignored failures and no others, they are not left out.
    """
    ignored, passed = find_ignored(cleaned), find_passed_output(cleaned)
    lines = _read_lines(cleaned, excerpt, ignored | passed, most, command)
    if ignored and not lines.failures and not find_exact_errors(lines.excerpt):
        return _read_lines(cleaned, excerpt, passed, most, command)
    return lines


def read_command_lines(
    cleaned: bytes, size: int, most: int = MOST, passed: Iterable[bytes] | None = None
) -> FailureLines:
    """Return what `read_failure_lines` returns of the output of the command that ended the job:
    an excerpt of `size` bytes, and what the runner says of the failure.

    `passed` is the cleaned log of the job's last passed run, in pieces, with which the excerpt is
    chosen.
    """
    lines = trace.split_lines(cleaned)
    command, reason = find_failing_command(lines), find_runner_reason(lines)
    output = "".join(f"{line}\n" for line in command.select(lines)).encode()
    excerpt = make_excerpt([output], passed, size).write_text()
    numbers = ((_NUMBER.match(line), line) for line in excerpt.split("\n"))
    numbered = [
        f"{int(number[1]) + command.first - 1}: {line[number.end() :]}" if number else line
        for number, line in numbers
    ]
    if reason and not command.first <= reason <= command.last:
        numbered.append(f"{reason}: {lines[reason - 1]}")
    found = read_failure_lines(cleaned, "\n".join(numbered), most, command)
    return replace(found, command=command, exit_code=read_exit_code(lines))


def read_excerpt_lines(excerpt: str) -> FailureLines:
    """Return what an excerpt of a whole log shows of the command that ended the job."""
    lines = excerpt.split("\n")
    bare = [_NUMBER.sub("", line, 1) for line in lines]
    command = find_failing_command(bare)
    kept, reason = [*command.select(lines)], find_runner_reason(bare)
    if reason and not command.first <= reason <= command.last:
        kept.append(lines[reason - 1])
    return FailureLines(tuple(kept), (), command=command, exit_code=read_exit_code(bare))


def _read_lines(
    cleaned: bytes,
    excerpt: str,
    ignored: Collection[int],
    most: int,
    command: FailingCommand | None,
) -> FailureLines:
    lines = cleaned.decode("utf-8", "replace").split("\n")
    first, last = (command.first, command.last) if command else (1, len(lines))
    found = (
        text
        for number, line in enumerate(lines[first - 1 : last], first)
        if _LISTED.search(text := line[:_LONGEST].strip()) and number not in ignored
    )
    candidates = [*islice(found, most + 1)] if most else []
    numbers = ((_NUMBER.match(line), line) for line in excerpt.split("\n"))
    return FailureLines(
        tuple(line for number, line in numbers if not number or int(number[1]) not in ignored),
        tuple(line for line in candidates[:most] if is_in_a_list(strip_line(line))),
        len(candidates) <= most,
    )


def _make_shape(line: str) -> str:
    """Return a line without its numbers, but for a 0: `Errors: 0` is no error, `Errors: 2` is.

    Only places are left out of failed tests and of errors with a place: their parameters matter.
    """
    text = strip_line(line)
    return normalise_places(text) if is_in_a_list(text) else normalise_line(_ZERO.sub("none", text))
