"""Detects which of a few languages a short text is written in. Pure."""

import re

ENGLISH = "en"

_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
_WORDS = {
    "en": "the is are what why how does did this that which was and of it to in you can",
    "de": "der die das ist sind was warum wieso wie nicht und ein eine ich du kannst bitte auch",
    "fr": "le la les est sont pourquoi comment que quoi une des pas et je vous tu peux cette dans",
    "es": "el los las es son por qué cómo una del no y puedes esta esto está falla porque para",
    "pt": "o os as é são por que como uma do da não e você pode esta isso está falha para",
    "it": "il lo gli è sono perché come una del della non e puoi questo questa che cosa fallisce",
    "nl": "de het een is zijn waarom hoe niet en dit dat kun je wat welke faalt voor met",
    "pl": "jest są dlaczego jak nie i to czy co który która możesz się na w z tego ten",
}
_STOP_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_MOST = 2000
_LEAST = 2
"""The least number of known words (or letters of a script) by which a language is recognised."""


def find_language(text: str) -> str:
    """Return the two-letter code of a text's language, "en" if no known language is certain."""
    text = text[:_MOST].casefold()
    for language, letters in _SCRIPTS:
        if len(letters.findall(text)) >= _LEAST:
            return language
    words = re.findall(r"[^\W\d_]+", text)
    counts = {
        language: sum(word in known for word in words) for language, known in _STOP_WORDS.items()
    }
    best = max(counts, key=lambda language: (counts[language], language == ENGLISH))
    return best if counts[best] >= max(_LEAST, counts[ENGLISH] + 1) else ENGLISH
