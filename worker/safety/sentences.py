"""Splits a text into sentences and clauses, and finds the word that somebody meant who wrote one
that does not exist. Pure."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

MAX_TEXT = 8_000
"""The most characters of a text that are read."""

ASKED, SHOWN = 200, 360
"""The most characters of a section's first sentence that a model is asked for, and that are shown
whole."""

ASKED_EACH, ADVISED_EACH = 130, 80
"""If several causes have a sentence each: the most characters that a model is asked for of such a
sentence, and of one on what to do about it."""

_ATOM = re.compile(
    r"`{1,3}[^`\n]{1,2000}?`{1,3}"  # a span of code
    r"|\[[^\]\n]{0,500}\]\([^)\s]{0,1000}\)|<?https?://[^\s>]{1,1000}>?"
    r"|\([^()\n]{0,400}\)|“[^”\n]{0,400}”"
    r"|（[^（）\n]{0,400}）|「[^「」\n]{0,400}」|『[^『』\n]{0,400}』"
)
"""What is never split: code, links, brackets, quotations."""

_WIDE_ENDS = "。！？"
_END = re.compile(
    r"[.!?…][\"'”’)\]]{0,2}(?=\s)"
    # No blank follows these. Emphasis that follows directly may end with the sentence.
    rf"|[{_WIDE_ENDS}]{{1,3}}[\"'”’）」』)\]]{{0,2}}(?![*_{_WIDE_ENDS}])"
)
_SHORT = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|no|nr|fig|resp|incl|ca|dr|mr|ms|st|(?<!\d\s)[A-Za-z])\.$",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\s+(?=[\"'“(`\[*_]{0,3}[A-Z0-9`/\[<\"'“*_À-ÖØ-Þ\u0400-\u04ff\u3040-\uffff]"
    # The name of a file or a function may begin a sentence with a small letter, or with a dot.
    r"|(?!e\.g|i\.e)[a-z][a-z0-9-]{0,40}(?:[./_]\w|\(\))|\.[a-z]\w)"
)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
_WIDE_MARKS = {",": "，、", ";": "；", ":": "："}
_FENCE = re.compile(r"(?m)^[ \t>]*(?:`{3,}|~{3,})")


_SEPARATED = (".", "!", "?", "…", ",", ":", ";")
_WIDE_SEPARATED = ("。", "！", "？", "，", "、", "：", "；")
"""Marks of Chinese and Japanese, which no blank follows."""


def before_code(text: str) -> str:
    """Return the text up to its first fenced block of code."""
    fence = _FENCE.search(text)
    return text[: fence.start()] if fence else text


def after_code(text: str) -> str:
    """Return the text below its last fenced block of code, "" if there is none."""
    *_, last = [None, *_FENCE.finditer(text)]
    return text[last.end() :].partition("\n")[2] if last else ""


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, each on one line, without blanks around it.

    An item of a list is one or more sentences. Code, links and brackets are never split.
    """
    found: list[str] = []
    for part in _split_paragraphs(text[:MAX_TEXT]):
        found += _split_line(part)
    return found


def after_sentences(text: str, sentences: list[str]) -> str:
    """Return the part of a text after `sentences`, which are its first ones (`split_sentences`)."""
    at = 0
    for character in "".join(sentences):
        if not character.isspace():
            at = text.index(character, at) + 1
    return text[at:].strip()


def join_sentences(sentences: list[str]) -> str:
    """Join sentences on one line; one without an end mark gets a semicolon."""
    text = sentences[0]
    for each in sentences[1:]:
        if text.endswith(_WIDE_SEPARATED):
            text += each
        else:
            text += ("" if text.endswith(_SEPARATED) else ";") + f" {each}"
    return text


def split_clauses(text: str, marks: str) -> list[str]:
    """Split the text after each of `marks` that a blank follows; blanks stay at the parts' ends.

    The marks of Chinese and Japanese that mean the same need no blank.
    """
    atoms = _find_atoms(text)
    found, start = [], 0
    wide = "".join(_WIDE_MARKS.get(mark, "") for mark in marks)
    for end in re.finditer(rf"[{re.escape(marks)}]\s+" + (rf"|[{wide}]\s*" if wide else ""), text):
        if not _is_inside(end.start(), atoms):
            found.append(text[start : end.end()])
            start = end.end()
    return [*found, text[start:]]


_LEADS_ON = re.compile(
    r"(?:[\s,;:]+(?:and|but|or|in|of|at|on|by|to|for|from|until|with|the"
    r"|an?|its?|as|that|which|because))*"
    r"[\s,;:]*$"
)


def begin_words(text: str, longest: int) -> str:
    """Return as many whole words as fit into `longest` characters; "" if the first does not fit.

    Code, links, brackets and quotations are one word each. A cut text does not end with a word that
    only leads to the next one, such as "and" or "in the".
    """
    if len(text) <= longest:
        return text
    atoms = _find_atoms(text)
    ends = (blank.start() for blank in re.finditer(r"\s+", text[: longest + 1]))
    words = text[: max((end for end in ends if not _is_inside(end, atoms)), default=0)]
    return _LEADS_ON.sub("", words, count=1)


def _split_paragraphs(text: str) -> Iterator[str]:
    """Yield the list items and the paragraphs, each as one line."""
    held: list[str] = []
    for line in text.split("\n"):
        if (item := _ITEM.match(line)) or not line.strip():
            if held:
                yield " ".join(held)
            held = [line[item.end() :].strip()] if item else []
        else:
            held.append(line.strip())
    if held:
        yield " ".join(held)


def _split_line(line: str) -> list[str]:
    atoms = _find_atoms(line)
    found, start = [], 0
    for end in _END.finditer(line):
        if _is_inside(end.start(), atoms):
            continue
        if end[0][0] not in _WIDE_ENDS:
            before = line[max(start, end.start() - 12) : end.start() + 1]
            if _SHORT.search(before) or not _NEXT.match(line, end.end()):
                continue  # an abbreviation, or no sentence follows
        found.append(line[start : end.end()].strip())
        start = end.end()
    return [each for each in (*found, line[start:].strip()) if each]


def _find_atoms(line: str) -> list[tuple[int, int]]:
    return [found.span() for found in _ATOM.finditer(line)]


def _is_inside(at: int, atoms: list[tuple[int, int]]) -> bool:
    """Whether a position is inside one of the spans, but not at its last character."""
    number = bisect_right(atoms, (at, len(atoms) + MAX_TEXT)) - 1
    return number >= 0 and at < atoms[number][1] - 1


# ------------------------------------------------------------------------------- misspelt words

_CUTOFF = 0.7
"""How alike two words are, of 1, if one may be the other misspelt."""


def find_nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most like `word`, whatever their case and dashes; else ""."""
    by_letters = {_simplify(each): each for each in known}
    near = get_close_matches(_simplify(word[:200]), by_letters, n=1, cutoff=_CUTOFF)
    return by_letters[near[0]] if near else ""


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """Return ": did you mean …?" to follow a sentence, or "" if nothing known is like `word`."""
    near = find_nearest(word, known)
    return f": did you mean {near}?" if near else ""


def _simplify(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum() or letter == "*")


_FARTHEST = 2


def correct_spelling(name: str, known: Iterable[str]) -> str | None:
    """Return the only known tool within edit distance 2 of `name`, None if none or several are.

    Such a tool is run, so a likeness by ratio, as `difflib` has it, is not enough: of a
    list of tools it would take `gitlab_get_job_runs` for `gitlab_get_job_log`.
    """
    near = [other for other in known if _is_near(name, other)]
    return near[0] if len(near) == 1 else None


def _is_near(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > _FARTHEST:
        return False
    row = list(range(len(other) + 1))
    for left in one:
        above, row = row, [row[0] + 1]
        for at, right in enumerate(other):
            row.append(min(above[at] + (left != right), above[at + 1] + 1, row[at] + 1))
    return row[-1] <= _FARTHEST
