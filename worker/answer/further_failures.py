"""Finds the sentences of a cause that name another failure. Pure."""

import re

from worker.safety.sentences import before_code, split_sentences

_FURTHER = r"(?:second|another|separate|further|unrelated|independent|additional|other)"
_FAILURE = r"(?:failures?|failing \w+|causes?|errors?|problems?|bugs?|breakages?|flakes?)"
_NAMES_FAILURE = re.compile(
    rf"\b{_FURTHER}\b,?(?: [\w-]+,?){{0,2}} {_FAILURE}\b"
    r"|^(?:Separately|Independently|Secondly|Second|Besides|Additionally|In addition|Also)\b"
    r".{0,200}\b(?:fail|broke|break|caus|error|flaky|red\b)"
    r"|\bfail(?:s|ed|ing)? .{0,40}\b(?:another|a different|an unrelated|a separate|(?:its|their) "
    r"own) (?:reason|cause)\b",
    re.IGNORECASE,
)
_DENIES_FAILURE = re.compile(
    r"\b(?:no|not|nor|without|never|neither|rather than|consequences?|follows?|only because)\b"
    r"|n't\b",
    re.IGNORECASE,
)

_IT = r"(?:it|this|that|them|these|those|the (?:first|same))"
_FOLLOWS_FROM_IT = re.compile(
    rf"\b(?:(?:follow|stem|come|result|arise)s? from {_IT}"
    rf"|(?:disappear|vanish|go)\w* .{{0,10}}with {_IT}"
    rf"|(?:caused by|due to|because of) {_IT}|(?:(?:its|the|are|only|merely|just|a) )+consequences?"
    r"|(?:has|have) the same (?:cause|reason))\b",
    re.IGNORECASE,
)


def count_named_failures(cause: str) -> int:
    """Return the number of sentences up to the last one that names another failure; 0 if no
    sentence after the first one does."""
    sentences = split_sentences(before_code(cause))
    named = [at for at, each in enumerate(sentences, 1) if at > 1 and _names_failure(each)]
    return named[-1] if named else 0


def list_named_failures(cause: str) -> list[str]:
    """Return the sentences after the first one that name another failure."""
    return [each for each in split_sentences(before_code(cause))[1:] if _names_failure(each)]


def _names_failure(sentence: str) -> bool:
    """Whether a sentence names another failure than the sentences before it."""
    found = _NAMES_FAILURE.search(sentence[:600])
    if found is None or _DENIES_FAILURE.search(sentence[: found.end()]):
        return False
    return not _FOLLOWS_FROM_IT.search(sentence[found.end() : 600])
