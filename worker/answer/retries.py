"""What advice says about a retry. Pure."""

import re

from worker.safety.sentences import before_code, split_sentences

_NO_RETRY = re.compile(
    r"\b(?:retr(?:y|ies|ying)|re-?runs?|re-?running|another run)\b[^.;]{0,40}"
    r"(?:\b(?:not|never|cannot|no use|useless|pointless)\b|n't\b)"
    r"|(?:\b(?:do not|no use to|never)|\bdon't) (?:retry|re-?run)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|unless|when|until|where|should)\b", re.IGNORECASE)


def advises_against_retry(advice: str) -> bool:
    """Whether a sentence of the advice says, without a condition, that a retry does not help."""
    return any(
        found is not None and not _CONDITION.search(sentence[: found.end()])
        for sentence in split_sentences(before_code(advice))
        for found in [_NO_RETRY.search(sentence[:600])]
    )


_RETRY = re.compile(
    r"\W{0,4}(?:(?:please|just|simply|first) ){0,2}(?:retry|re-?run|restart|re-?trigger)\b",
    re.IGNORECASE,
)
_LATER = re.compile(r"\b(?:after|once|when|as soon as|until|with)\b", re.IGNORECASE)


def advises_retry(advice: str) -> bool:
    """Whether the advice begins with a retry of the job as it is."""
    first = "".join(split_sentences(before_code(advice))[:1])[:600]
    clause = re.split(r"[,;:]", first, maxsplit=1)[0]
    return bool(_RETRY.match(clause)) and not (_LATER.search(clause) or _NO_RETRY.search(first))
