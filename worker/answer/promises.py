"""Detects texts that only say what the model is going to do, and are no answer. Pure.

A sentence is a promise if it begins as one ("I will", "let me", "ich werde"), and names no
condition: "If you want, I'll look at the other job" is an offer to somebody who has an answer.
Nor is it one to say what evidence is missing: "I need to see the report, which has expired".
"""

import re
from collections.abc import Sequence
from functools import cache

from worker.conversation.answer_text import Block, BlockKind
from worker.conversation.phrases import list_phrases
from worker.safety.sentences import split_sentences

_MOST_CHARACTERS = 600
"""A longer text says more than what the model will do."""

_MOST_BEFORE = 2
"""The most sentences before the promise that ends a text; more of them are an answer."""

_LOOKS = (
    r"(?:[^,;:]{0,200}\b(?:and|then|by|with|to)\b|,? so (?:i'll|i will|let me)\b)[^,;:]{0,40}"
    r"\b(?:check|read|look|fetch|open|inspect|get|search)(?:ing|ting)?\b"
)
_SPEECH = (
    r"(?:(?:admit|stress|point out|add) that\b"
    r"|(?:admit|stress|point out|correct that|be (?:clear|honest|careful|frank))\b"
    rf"(?!{_LOOKS}))"
)
"""What follows "I will" if the model says something instead of going to look."""

_SEEN = (
    r"(?!.*\b(?:what|whether|if|how|where|which)\b)(?:"
    r"[^,]{1,60} (?:shows?|showed|reveals?|confirms?|suggests?)\b"
    r"|[^,]{1,60}, (?:the|this|it|there)\b.{0,60}\b(?:fails?|failed|is|was|are|were|has|shows?)\b)"
)
"""What follows "looking at" if the sentence says what was found there."""

_LEAD = r"(?:[^\W\d_]+(?:[ '][^,.:;]{1,24})?,\s+)?"
"""A polite word or two, as in "Good question, let me check"."""

_WHETHER = re.compile(
    r"\b(?:check|verify|see|look|vérifie\w*|regarde\w*|comprobar|verificar|ver|verifico|prüfe\w*"
    r"|schaue\w*)\b.{0,25}?\b(?:if|si|se|ob|of|als|wenn)\b(?! (?:you|vous|tu|du|sie)\b)",
    re.IGNORECASE,
)
"""Where the word for "if" means "whether"."""

_NEED = re.compile(r"\bi need to (?:see|know|have|read)\b(?!.*\b(?:first|next|now)\b)", re.I)
_OUT_OF_REACH = re.compile(
    r"\b(?:expired|erased|deleted|gone|lost|cannot|can't"
    r"|(?:not|n't|never|no (?:job|log|step)) (?:\w+ )?"
    r"(?:keeps?|kept|store[ds]?|upload\w*|saved?|name[ds]?))\b",
    re.IGNORECASE,
)
_YET = re.compile(r"\b(?:until|unless|before (?:i|we|it is))\b", re.IGNORECASE)
_PURPOSE = re.compile(r"\bto (?:tell|say|know|be sure)\b.{0,20}$", re.IGNORECASE)
_DENIES = re.compile(r"\b(?:not|nothing|neither|cannot)\b|n't\b", re.IGNORECASE)

_TELLS = re.compile(r":\s.{20}")

_CONDITION = re.compile(
    r"\b(?:if|once|when(?:ever)?|unless|should you|wenn|falls|sobald|als|si|lorsque|quand|cuando"
    r"|se|quando)\b|如果|若|要是|たら|れば",
    re.IGNORECASE,
)


@cache
def _compile_promises() -> re.Pattern[str]:
    openers = "|".join(sorted(map(re.escape, list_phrases("openers")), key=len, reverse=True))
    promises = "|".join(list_phrases("promises"))
    promises = promises.replace("<says>", _SPEECH).replace("<seen>", _SEEN)
    return re.compile(
        rf"{_LEAD}(?:\W{{0,9}}(?:{openers})(?:\W{{1,9}}|(?<=[^\x00-\u2fff]))){{0,3}}"
        rf"\W{{0,9}}(?:{promises})",
        re.IGNORECASE,
    )


def is_promise(text: str) -> bool:
    """Return whether a text without sections only says what the model will do."""
    if len(text) > _MOST_CHARACTERS:
        return False
    sentences = _split_sentences(text)
    if len(sentences) > _MOST_BEFORE + 1:
        return all(map(_is_promise, sentences))
    return bool(sentences) and _is_promise(sentences[-1]) and not _names_gap(sentences)


def _names_gap(sentences: Sequence[str]) -> bool:
    """Whether the last sentence names evidence that cannot be had, or that would be needed to say
    more than the sentences before it, which deny something."""
    *before, last = sentences
    if not _NEED.search(last) or _YET.search(last):
        return False
    unknown = _PURPOSE.search(last) and any(map(_DENIES.search, before))
    return bool(_OUT_OF_REACH.search(last) or unknown)


def _split_sentences(text: str) -> list[str]:
    sentences = (each.strip(" \t\n*_>#`") for each in split_sentences(text.replace("’", "'")))
    return [each for each in sentences if each]


def is_plan(blocks: Sequence[Block]) -> bool:
    """Return whether a text has a list of steps, and only promises outside it."""
    if not any(block.kind is BlockKind.ITEM for block in blocks):
        return False
    prose = [block.text for block in blocks if block.kind is BlockKind.PROSE]
    sentences = [each for text in prose for each in _split_sentences(text)]
    return 0 < len(sentences) <= _MOST_BEFORE and all(map(_is_promise, sentences))


def _is_promise(sentence: str) -> bool:
    if not _compile_promises().match(sentence) or _TELLS.search(sentence):
        return False
    return not _CONDITION.search(_WHETHER.sub("", sentence))
