"""Shortens the text about what failed: the jobs, and what failed in each. Pure."""

import re
from dataclasses import dataclass

from worker.core.text.sentences import join_sentences, split_clauses, split_sentences

_IDS = r"\(\[?(?:job )?#?\d{1,19}(?=[\]),])(?:[^()]|\([^()]{0,300}\)){0,300}\)"
_JOB = rf"(?:`[^`\n]{{1,200}}`|[\w.:/-]{{1,80}}) {_IDS}"
_JOBS = re.compile(rf"{_JOB}(?: and {_JOB}){{0,20}}")
"""Names of jobs with their ids."""

_ASIDE = re.compile(r"(\((?:job )?#?\d{1,19}), [^()\d][^()]{0,300}\)")
"""The id of a job, and words about it."""

_AND_MORE = re.compile(r"(?<=[`)]) and(?: (?=`)|, *$)")
_LISTED = re.compile(
    r"(?:and|or)\b(?! (?:the|its?|then|so|they|this|that|is|was|were)\b)|[`\"“A-Z0-9]"
)
_COUNT = re.compile(r"\d{1,7}(?: of (?:[a-z]+ )?\d{1,7})?(?: [a-z-]+){1,4}")
"""A clause that says how many failed, such as "1 of 12 tests" or "8 errors at setup"."""

_TOTAL = re.compile(r"(?:\d{1,7}|two|three|four|five|six|seven|eight|nine|ten)\b")
"""The beginning of a text that counts all that failed: what is listed after it is no more."""

"""The beginning of a further test or step in a list, not of a reason or of what came after."""

_ALLOWED = re.compile(r"\ballow")


@dataclass(slots=True)
class _Failed:
    """Jobs by name, and what failed in them; `ended` says that the sentence about them is over."""

    names: list[str]
    detail: str = ""
    ended: bool = False


def shorten_jobs(text: str, level: int) -> str:
    """Returns what failed, on one line. Level 0 is all of it, 1 each job with its first test or
    step, 2 the jobs with the number of failures in each if there are several, 3 the first three
    jobs, 4 nothing.

    From level 1 on, jobs that are allowed to fail are left out if there are others.
    """
    sentences = split_sentences(text)
    if not sentences or level >= 4:
        return ""
    if level == 0:
        return join_sentences(sentences)
    every = _read_jobs(sentences)
    failed = [each for each in every if not _ALLOWED.search(each.detail)] or every
    if level == 1:
        return "; ".join(map(_write_first_failure, failed))
    if level == 2:
        return ", ".join(map(_write_count, failed))
    names = [name for each in failed for name in each.names]
    more = f" and {len(names) - 3} more" if level == 3 and len(names) > 3 else ""
    return ", ".join(names[:3] if more else names) + more


def _read_jobs(sentences: list[str]) -> list[_Failed]:
    found: list[_Failed] = []
    for sentence in sentences:
        for piece in split_clauses(sentence, ",;"):
            _add_clause(piece, found)
        found[-1].ended = True
    return found


def _add_clause(piece: str, found: list[_Failed]) -> None:
    """Adds a clause: names of jobs, or what failed in them. The first clause always names jobs."""
    named = _JOBS.match(piece)
    held = found[-1] if found else None
    if held and not named and (held.detail or held.ended):
        held.detail += "" if held.ended else piece
        return
    if held is None or held.detail or held.ended:
        held = _Failed([])
        found.append(held)
    name = named[0] if named else split_clauses(piece, ":")[0]
    held.names.append(name.rstrip(" :,;."))
    held.detail += piece[len(name) :].lstrip(" :,;.")


def _write_first_failure(failed: _Failed) -> str:
    """Returns the jobs and the first thing that failed in them, and how many more did; "…" if there
    is more to say and that number is not certain."""
    names = _ASIDE.sub(r"\1)", ", ".join(failed.names))
    first, rest = _split_first(failed.detail)
    count, more = _count_listed(first, rest) if rest else (0, "")
    end = f" and {more}" if count else " …" if rest else ""
    return f"{names}: {first.rstrip(' ,;:.')}{end}" if first else names


def _write_count(failed: _Failed) -> str:
    """Returns the jobs, and how many things failed in them if that is known to be several."""
    names, stated = ", ".join(failed.names), split_clauses(failed.detail, ",;:")[0].rstrip(" ,;:.")
    if _COUNT.fullmatch(stated):
        return f"{names}: {stated}"
    first, rest = _split_first(failed.detail)
    count, more = _count_listed(first, rest) if rest else (0, "")
    kind = "tests" if " test" in more else "failures"
    return f"{names}{f': {count + 1} {kind}' if count else ''}"


def _split_first(detail: str) -> tuple[str, str]:
    """Returns the first thing that failed, and the list of the others if there is one. A clause
    that only counts, or only names a tool, comes with the next one."""
    pieces = split_clauses(detail, ",;")
    alone = pieces[0].rstrip(" ,;")
    bare = _COUNT.fullmatch(alone) or alone.isalpha()
    clause = _AND_MORE.split("".join(pieces[: 2 if bare else 1]))[0]
    first = split_clauses(clause, ":")[0]
    rest = detail[len(clause) :].lstrip(" ,;")
    return first, rest if first == clause and _LISTED.match(rest) else ""


_NAMED = re.compile(
    r"(?:and )?(?:(?!(?:and|or|in|of)\b)[\w-]{1,40} ){0,3}(`[^`]{1,500}`)"
    r"(?: \([^()]{0,300}\))?[ ,;.]*(?:in `[^`]{1,500}`\.?)?"
)
_TEST = re.compile(r"::|\btest|\bspec\b|Test|\.t$", re.IGNORECASE)


def _count_listed(first: str, rest: str) -> tuple[int, str]:
    """Returns how many things `rest` lists besides the `first`, as a number and in words ("1 more
    test"); 0 and "" if that is not certain."""
    if _TOTAL.match(first):
        return 0, ""
    pieces = [
        name for piece in split_clauses(rest, ",;") for name in _AND_MORE.split(piece) if name
    ]
    named = [_NAMED.fullmatch(piece) for piece in pieces]
    if not all(named):
        return 0, ""
    every = [*re.findall(r"`[^`]{1,500}`", first)[:1], *(each[1] for each in named if each)]
    tests = len(every) > len(named) and all(map(_TEST.search, every))
    kind = f" test{'s' if len(named) > 1 else ''}" if tests else ""
    return len(named), f"{len(named)} more{kind}"
