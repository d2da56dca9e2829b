"""What failed, as a short key: the same for the same error in other runs, jobs and pipelines.

It is made from the most telling lines of a failed job's excerpt, without what differs between runs
(times, ids, numbers, the runner's folders). Pure.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.logs.decisive_lines import DecisiveLine, find_telling, keep_decisive
from worker.logs.failed_test_message import find_messages
from worker.logs.headings import join_headings
from worker.logs.headline import NAME, choose_headline, list_others
from worker.logs.line_kinds import PLACED, TEST, TROUBLE, strip_line
from worker.logs.normal_form import normalise_line, normalise_places
from worker.safety.untrusted import one_line

TEXT = 320
"""The most characters of `Signature.text`."""

KEY = 16
"""Hexadecimal digits of a key."""


@dataclass(frozen=True, slots=True)
class Signature:
    """`key` is "" if no line is telling; `text` is the most telling line, unchanged.

    `others` are the errors of tools that fetch something, and the names of the other failed tests.
    `build_errors` are the normal forms of all errors if they have places and no test failed, as
    when a compiler or a linter found them.
    """

    key: str = ""
    text: str = ""
    others: tuple[str, ...] = ()
    build_errors: frozenset[str] = frozenset()


def make_signature(lines: Sequence[str], command: str = "") -> Signature:
    """Make the signature of an excerpt's lines, with or without their numbers (`1843: text`).

    `command` is the name of the command that wrote them, if that is known. The key covers every
    failed test and every error in the lines: a failure with one error more than another has a
    different key.
    """
    lines = [*join_headings(lines)]
    telling = find_telling(lines, command)
    kept = keep_decisive(telling, lines, command)
    if not kept:
        return Signature()
    found = frozenset(each.normal for each in kept)
    messages = find_messages((each.text for each in kept if each.is_test), lines)
    text = choose_headline(telling, kept, lines)
    joined = "\n".join(sorted(found.union(map(normalise_line, messages.values()))))
    return Signature(
        join_key(joined),
        one_line(text, TEXT),
        list_others(kept, text),
        found if _is_build(kept) else frozenset(),
    )


def join_key(*parts: str) -> str:
    """Return the key of what the parts say together."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:KEY]


def _is_build(kept: Sequence[DecisiveLine]) -> bool:
    placed = any(PLACED.match(each.text) for each in kept)
    return placed and not any(each.is_test for each in kept)


def lead_with(error: str, base: Signature) -> Signature:
    """Return the signature of the failure `base` with one more `error`, which becomes its text."""
    return Signature(
        join_key(normalise_line(error), base.key),
        one_line(error, TEXT),
        (one_line(base.text, NAME), *base.others) if TEST.match(base.text) else base.others,
    )


def find_errors(lines: Sequence[str], command: str = "") -> frozenset[str]:
    """Return the normal forms of every failed test and every error in the lines, which the command
    of that name has written; if no line is telling, the normal form of the last line that says what
    could not be done, or of a list of files."""
    lines = [*join_headings(lines)]
    telling = find_telling(lines, command)
    return frozenset(each.normal for each in keep_decisive(telling, lines, command))


def find_exact_errors(lines: Sequence[str], command: str = "") -> Mapping[str, str]:
    """Return the errors without what differs between two runs of the same failure, each with its
    line, unchanged.

    Stricter than `find_errors`: the values of an assertion and the parameters of a test are kept.
    """
    texts = [strip_line(line) for line in join_headings(lines)]
    kept = find_errors(lines, command)
    return {
        normalise_places(text): text for text in reversed(texts) if normalise_line(text) in kept
    }


def list_telling_lines(lines: Sequence[str]) -> list[str]:
    """Return all lines that may be part of a key, without numbers: every error, even if others tell
    more, and every line that says what could not be done."""
    texts = map(strip_line, lines)
    telling = {each.text for each in find_telling(lines)}  # whichever command has written them
    return [text for text in texts if text in telling or TROUBLE.search(text)]
