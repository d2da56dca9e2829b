"""Reads `phrases.toml`: what people and models write, in the languages that are known. Pure."""

import pkgutil
import re
import tomllib
from functools import cache
from typing import Any

ENGLISH = "en"

_SCRIPTS = {"ja": re.compile(r"[\u3040-\u30ff]"), "zh": re.compile(r"[\u4e00-\u9fff]")}
_MOST_CHARACTERS = 2000
_LEAST = 2
"""The least number of known words (or letters of a script) by which a language is recognised."""


@cache
def read_phrases() -> dict[str, dict[str, Any]]:
    """Return the tables of the file, each by language; it is read once."""
    return tomllib.loads((pkgutil.get_data(__package__, "phrases.toml") or b"").decode())


def list_phrases(table: str) -> list[str]:
    """Return the phrases of a table, those of all languages."""
    return ["".join(phrase) for phrases in read_phrases()[table].values() for phrase in phrases]


def find_language(text: str) -> str:
    """Return the two-letter code of a text's language, "en" if no known language is certain."""
    text = text[:_MOST_CHARACTERS].casefold()
    for language, letters in _SCRIPTS.items():
        if len(letters.findall(text)) >= _LEAST:
            return language
    words = re.findall(r"[^\W\d_]+", text)
    counts = {
        language: sum(word in known.split() for word in words)
        for language, known in read_phrases()["stop_words"].items()
    }
    best = max(counts, key=lambda language: (counts[language], language == ENGLISH))
    return best if counts[best] >= max(_LEAST, counts[ENGLISH] + 1) else ENGLISH
