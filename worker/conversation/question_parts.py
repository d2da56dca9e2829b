"""Splits questions into their parts, and finds parts that an answer leaves out. Pure.

The model is given a list of the parts below the question. It is read back when there is an answer,
so that a worker that takes over the turn finds the same parts.
"""

import re
from collections.abc import Sequence

from worker.safety.sentences import split_clauses, split_sentences
from worker.safety.untrusted import one_line

MOST_PARTS = 6
_MOST_CHARACTERS = 4000
_PART, _LEAST_PART = 300, 9

_ITEM = re.compile(r"[ \t]*(?:\d{1,2}[.)]|[-*+]|[a-z]\))[ \t]+(\S.*)")
_ASKS = re.compile(r"[?？][\"'”’)\]*_]*$")
_QUESTION_WORDS = (
    r"what|why|how|when|where|which|who|is|are|was|were|does|do|did|can|could|should|will|would"
    r"|was|warum|wieso|wie|wann|wo|welche[rsn]?|wer|ist|sind|kann|soll|muss"
    r"|pourquoi|comment|quand|où|quel(?:le)?s?|qui|est-ce|faut-il"
    r"|qué|por qué|cómo|cuándo|dónde|cuál(?:es)?|quién|hay|debo"
    r"|che cosa|cosa|perché|come|quando|dove|quale|chi|como|onde|qual|quem|por que"
    r"|waarom|hoe|wanneer|waar|welke|dlaczego|jak|kiedy|gdzie|почему|как|когда|где|кто"
)
_BOTH = re.compile(
    rf"(?:,|(?<![\s,]))\s++(?:and|und|et|y|e|en|i|и)(?:\s+(?:also|auch|aussi|también))?\s+(?=(?:{_QUESTION_WORDS})\b)",
    re.IGNORECASE,
)

_TITLE = "The message has {count} parts. Answer each of them:"
_LISTED = re.compile(r"^The message has \d+ parts\. Answer each of them:\n((?:\d+\. .*\n?)+)", re.M)

_CLOSED = re.compile(
    r"\W*(?:is|are|was|were|does|do|did|can|could|should|will|would|ist|sind|kann|soll|muss|est-ce"
    r"|faut-il|hay|debo|è|é|są|czy)\b",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"\b(?:yes|no|not|never|neither|nor|none|ja|nein|nicht|kein\w*|nie|oui|non|pas|ni|sí|si|não|sim"
    r"|tak|nee|niet|да|нет|не)\b|n't\b|n’t\b|是|不|没|はい|いいえ|ない|ません|네|아니",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?![\u3040-\u30ff\u3400-\u9fff])[^\W_][\w.-]{3,}")
"""A word that an answer would repeat. No blanks separate those of Chinese and Japanese."""

_STEM = 5


def split_question(text: str) -> tuple[str, ...]:
    """Return the parts of a question, () if it has only one."""
    if len(text) > _MOST_CHARACTERS:
        return ()
    items = [match[1] for line in text.split("\n") if (match := _ITEM.match(line))]
    parts = items if len(items) > 1 and any(map(_ASKS.search, items)) else _split_sentences(text)
    lines = [one_line(part, _PART) for part in parts[:MOST_PARTS]]
    return tuple(lines) if len(lines) > 1 else ()


def _split_sentences(text: str) -> list[str]:
    questions = [each for each in split_sentences(text) if _ASKS.search(each)]
    return [part for each in questions for part in _split_clauses(each)]


def _split_clauses(question: str) -> list[str]:
    """The parts of a sentence that asks twice: "Why does it fail, and how do I fix it?" """
    clauses = _BOTH.split(question)
    whole = all(len(each.strip()) >= _LEAST_PART for each in clauses)
    return clauses if len(clauses) == 2 and whole else [question]


def list_parts(parts: Sequence[str]) -> str:
    """Return the lines that tell a model of the parts, "" if there are none."""
    if not parts:
        return ""
    numbered = (f"{number}. {part}" for number, part in enumerate(parts, 1))
    return "\n".join([_TITLE.format(count=len(parts)), *numbered])


def read_parts(message: str) -> tuple[str, ...]:
    """Return the parts that a message lists by `list_parts`, () if it lists none."""
    lists = _LISTED.findall(message)
    lines = lists[-1].rstrip("\n").split("\n") if lists else []
    return tuple(line.partition(". ")[2] for line in lines)


def find_left_out(parts: Sequence[str], answer: str) -> tuple[str, ...]:
    """Return the parts that an answer certainly does not address.

    Nothing is certain if the answer has as many items or paragraphs as there are parts, or shares
    no word with any of them: it may be in another language. Neither exception applies to an answer
    that says fewer things than there are parts. A yes-or-no question is answered by such a word.
    """
    answer_stems = _read_stems(answer)
    part_stems = [_read_stems(part) for part in parts]
    own_stems = [
        stems - frozenset().union(*part_stems[:at], *part_stems[at + 1 :])
        for at, stems in enumerate(part_stems)
    ]
    missed = tuple(
        part
        for part, stems in zip(parts, own_stems, strict=True)
        if stems and not stems & answer_stems and not _is_decided(part, answer)
    )
    if _count_statements(answer) < len(parts):
        return missed
    is_foreign = not any(stems & answer_stems for stems in part_stems)
    return () if is_foreign or _has_pieces(answer, len(parts)) else missed


def _count_statements(answer: str) -> int:
    """Count the sentences, and the long clauses of those that have several."""
    clauses = (split_clauses(each, ";:,") for each in split_sentences(answer))
    long = ([each for each in parts if len(each.strip()) >= _LEAST_PART] for parts in clauses)
    return sum(max(1, len(each)) for each in long)


def _is_decided(part: str, answer: str) -> bool:
    return bool(_CLOSED.match(part) and _YES_OR_NO.search(answer))


def _read_stems(text: str) -> frozenset[str]:
    return frozenset(word.casefold()[:_STEM] for word in _WORD.findall(text))


def _has_pieces(answer: str, count: int) -> bool:
    items = sum(1 for line in answer.split("\n") if _ITEM.match(line))
    paragraphs = sum(1 for part in re.split(r"\n\s*\n", answer) if part.strip())
    return max(items, paragraphs) >= count
