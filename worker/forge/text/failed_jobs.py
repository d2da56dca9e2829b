"""Shortens the text about what failed: the jobs, and what failed in each. Pure."""

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile

from worker.core.text.sentences import (
    begin_words,
    join_sentences,
    remove_open_end,
    split_clauses,
    split_sentences,
)
from worker.core.text.untrusted import one_line, visible

_IDS = r"\(\[?(?:job )?#?\d{1,19}(?=[\]),])(?:[^()]|\([^()]{0,300}\)){0,300}\)"
_VARIANTS = r"\(\d{1,4} of \d{1,4} variants(?:[^()]|\([^()]{0,300}\)){0,300}\)"
_NAME = r"(?:(?!and\b)[\w.:/-]{1,80} ){0,3}?[\w.:/-]{1,80}"
_JOB = rf"(?:`[^`\n]{{1,200}}`|{_NAME}) (?:{_IDS}|{_VARIANTS})"
_JOBS = re.compile(rf"{_JOB}(?: and {_JOB}){{0,20}}")
"""Names of jobs with their ids, or with the number of a matrix's jobs and what those are."""

_VARIANT = re.compile(
    r"(?<![`\w./:-])([\w./-]{1,80}: \[[^\[\]`\n]{1,120}\])(?= \(\[?(?:job )?#?\d{1,19}[\]),])"
)
"""A job of a matrix, such as `test: [3.12, linux]`, without the marks of code."""

_LISTED_VARIANTS = re.compile(r"(\(\d{1,4} of \d{1,4} variants)[^()]{1,300}\)")

_ASIDE = re.compile(r"(\((?:job )?#?\d{1,19}), [^()\d][^()]{0,300}\)")
"""The id of a job, and words about it."""

_AND_MORE = re.compile(r"(?<=[`)]) and(?: (?=`)|, *$)")
_ALLOWED = re.compile(r"\ballow")


@dataclass(slots=True)
class _Failed:
    """Jobs by name, and what failed in them.

    `says` stands between them: ": ", or a blank if a verb follows. `ended`: the sentence is over.
    """

    names: list[str]
    detail: str = ""
    says: str = ": "
    ended: bool = False

    def name_jobs(self) -> list[str]:
        """Return the names; of a matrix, only how many of its jobs failed."""
        return [_LISTED_VARIANTS.sub(r"\1)", each) for each in self.names]

    def write(self, detail: str) -> str:
        """Return the names, and this text about them."""
        names = ", ".join(self.name_jobs())
        return _ASIDE.sub(r"\1)", names) + self.says + detail if detail else names


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


def shorten_jobs(text: str, detail: Detail, tests: int = 1) -> str:
    """Return what failed, on one line; with FIRST_TESTS the first `tests` of each job.

    Unless it is WHOLE, jobs that are allowed to fail are left out if there are others.
    """
    sentences = _split(text)
    if not sentences or detail is Detail.NOTHING:
        return ""
    if detail is Detail.WHOLE:
        return join_sentences(sentences)
    failed = _list_blocking_jobs(sentences)
    if detail <= Detail.ONE_LINE:
        line = _fill_line(failed)
        first = "; ".join(_write_first_failures(each, tests) for each in failed)
        return line if detail is Detail.ONE_LINE or len(line) > len(first) else first
    names = [name for each in failed for name in each.name_jobs()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3] if more else names) + more


def _split(text: str) -> list[str]:
    """Return the sentences, with the jobs of a matrix as code."""
    return split_sentences(_VARIANT.sub(r"`\1`", text))


def count_tests(text: str) -> int:
    """Return how many tests or steps are listed of the job with the most."""
    sentences = _split(text)
    jobs = _list_blocking_jobs(sentences) if text.strip() else []
    return max((1 + len(_split_list(each.detail)[1]) for each in jobs), default=0)


def _list_blocking_jobs(sentences: list[str]) -> list[_Failed]:
    every = _read_jobs(sentences)
    return [each for each in every if not _ALLOWED.search(each.detail)] or every


def _read_jobs(sentences: list[str]) -> list[_Failed]:
    found: list[_Failed] = []
    for sentence in sentences:
        for piece in split_clauses(sentence, ",;"):
            _add_clause(piece, found)
        found[-1].ended = True
    return found


def _add_clause(piece: str, found: list[_Failed]) -> None:
    """Add a clause: names of jobs, or what failed in them. The first clause always names jobs."""
    named = _JOBS.match(piece)
    held = found[-1] if found else None
    if held and not named and (held.detail or held.ended):
        held.detail += "" if held.ended else piece
        return
    if held and not named and ":" not in piece and _JOBS.fullmatch(held.names[-1]):
        # If one job is named with its id, so are all: this clause is about that job.
        held.says, held.detail = ", ", piece
        return
    if held is None or held.detail or held.ended:
        held = _Failed([])
        found.append(held)
    name = named[0] if named else split_clauses(piece, ":")[0]
    held.names.append(name.rstrip(" :,;."))
    rest = piece[len(name) :]
    held.says = " " if rest[:1] == " " else ": "
    held.detail += rest.lstrip(" :,;.")


def _write_first_failures(failed: _Failed, most: int) -> str:
    """Return the jobs and the first `most` things that failed in them, and how many more did; "…"
    if there is more to say and that number is not certain."""
    first, others, more = _split_list(failed.detail)
    if not first or more:
        return failed.write(f"{first} …" if first else "")
    every, left = [first, *others], len(others) + 1 - most
    kind = f" test{'s' if left > 1 else ''}" if _are_tests(first, others) else ""
    *shown, last = [*every[:most], f"{left} more{kind}"] if left > 0 else every
    return failed.write(f"{', '.join(shown)}{' and ' if shown else ''}{last}")


LINE = 92
"""Columns of what failed that one line of a note holds."""


def _fill_line(every: list[_Failed]) -> str:
    """Return all jobs, and as much about each as fits on one line, the first ones first."""
    texts = [_write_count(each) or each.write("") for each in every]
    for at, each in enumerate(every):
        room = LINE - _measure("; ".join(texts)) + _measure(texts[at])
        texts[at] = _write_within(each, room) or texts[at]
    bare = all(text == each.write("") for text, each in zip(texts, every, strict=True))
    return (", " if bare else "; ").join(texts)


def _write_within(failed: _Failed, room: int) -> str:
    """Return the jobs and what failed in them in at most `room` columns: all of it, or of a list
    as many failures as fit, or as many words; "" if nothing fits."""
    detail = failed.detail.rstrip(" ,;:.")
    counts = range(1 + len(_split_list(detail)[1]), 0, -1)
    firsts = [_write_first_failures(failed, most) for most in counts]
    words = _begin_detail(detail, room - _measure(failed.write(" …")))
    begun = failed.write(words) if words and len(counts) == 1 else ""
    forms = failed.write(detail), *sorted([*firsts, begun], key=_measure, reverse=True)
    return next((form for form in forms if form and _measure(form) <= room), "")


_NAMES_CODE = re.compile(r"[`\"“/\d]|\w[._:]\w")


def _begin_detail(detail: str, longest: int) -> str:
    """Return the first words up to a semicolon, "…" if some are left out; "" for fewer than two.
    A clause that is not whole is left out if it names nothing."""
    said = split_clauses(detail, ";")[0].rstrip(" ;")
    words = begin_words(said, longest)
    if words == said:
        return words if said == detail else f"{words} …"
    *clauses, last = split_clauses(words, ",")
    if clauses and not _NAMES_CODE.search(last):
        words = remove_open_end("".join(clauses))
    return f"{words} …" if " " in words else ""


def _measure(text: str) -> int:
    return len(text.replace("`", ""))


def _write_count(failed: _Failed) -> str:
    """Return the jobs, and how many things failed in them; "" if that is not known, or said in the
    first words."""
    first, others, _ = _split_list(failed.detail)
    stated = split_clauses(failed.detail, ",;:")[0].rstrip(" ,;:.")
    if _COUNT.fullmatch(stated) or not others:
        return ""
    kind = "tests" if _are_tests(first, others) else "failures"
    return failed.write(f"{len(others) + 1} {kind}")


_BARE = r"[\w./:\[\]-]{0,100}(?:_|::)[\w./:\[\]-]{1,100}"
"""A test's name without the marks of code."""

_NAMED = re.compile(
    r"(?:and )?(?:(?!(?:and|or|in|of)\b)[\w-]{1,40} ){0,3}(`[^`]{1,500}`|"
    + _BARE
    + r")(?: \([^()]{0,300}\))?[ ,;.]*(?:in `[^`]{1,500}`\.?)?"
)
_LISTED = re.compile(
    r"(?:and|or)\b(?! (?:the|its?|then|so|they|this|that|is|was|were)\b)|[`\"“A-Z0-9]|"
    + _BARE
    + r"(?:[,;.]|$| and\b)"
)
"""The beginning of a further test or step in a list, not of a reason or of what came after."""

_COUNT = re.compile(r"\d{1,7}(?: of (?:[a-z]+ )?\d{1,7})?(?: [a-z-]+){1,4}")
"""A clause that says how many failed, such as "1 of 12 tests" or "8 errors at setup"."""

_TOTAL = re.compile(r"(?:\d{1,7}|two|three|four|five|six|seven|eight|nine|ten)\b")
"""The beginning of a text that counts all that failed: what is listed after it is no more."""

_TEST = re.compile(r"::|\btest|\bspec\b|Test|\.t$", re.IGNORECASE)


def _split_list(detail: str) -> tuple[str, list[str], bool]:
    """Return the first thing that failed, the others that are listed, and whether there are more
    that cannot be told apart. A clause that only counts, or only names a tool, comes with the next
    one."""
    clauses = split_clauses(detail, ",;")
    alone = clauses[0].rstrip(" ,;")
    bare = _COUNT.fullmatch(alone) or alone.isalpha()
    clause = "".join(clauses[: 2 if bare else 1])
    begun = _AND_MORE.split(clause)[0]
    first, rest = split_clauses(begun, ":")[0], detail[len(begun) :].lstrip(" ,;")
    listed = first == begun and _LISTED.match(rest) is not None
    names = [
        name
        for piece in split_clauses(split_clauses(rest, ";")[0], ",")
        for name in _AND_MORE.split(piece)
        if name
    ]
    if listed and not _TOTAL.match(first) and all(map(_NAMED.fullmatch, names)):
        return (
            first.rstrip(" ,;:."),
            [each.strip(" ,;.").removeprefix("and ") for each in names],
            False,
        )
    if first == begun:
        first, listed = clause, _LISTED.match(detail[len(clause) :].lstrip(" ,;")) is not None
    first = first.rstrip(" ,;:.")
    whole = remove_open_end(first)
    return whole, [], listed or whole != first


def _are_tests(first: str, others: list[str]) -> bool:
    """Whether all that failed are tests, by their names."""
    named = re.search(rf"`[^`]{{1,500}}`|{_BARE}", first)
    names = [found[1] for each in others if (found := _NAMED.fullmatch(each))]
    return named is not None and all(map(_TEST.search, [named[0], *names]))


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
