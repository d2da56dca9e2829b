"""Tells whether a comment only says thanks, so that it needs no answer. Pure.

Such a comment consists of known phrases only (`acknowledgement_phrases`): a question that is
mistaken for thanks would get no answer, one that is not recognised gets the model's.
"""

import re
from collections.abc import Iterable, Iterator
from unicodedata import category, normalize

from worker.conversation.acknowledgement_phrases import BESIDE, THANKS

_MOST_WORDS, _MOST_CHARACTERS = 18, 200

_MENTION = re.compile(r"@[\w.-]{1,100}[,:]?\s")
_SHORTCODE = re.compile(r":[a-z0-9_+-]{1,30}:")
_MODIFIER = re.compile("[\ufe0f\u200d\U0001f3fb-\U0001f3ff]")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\U0001f1e6-\U0001f1ff]|\\+1(?![0-9])")
_SMILE = re.compile(r"(?<!\w)(?:[:;=]-?[)dp](?!\w)|\^\^|<3(?![0-9])|xd(?!\w))")
_FROWN = re.compile(r"[:;=]['’]?-?[(\[/\\|]")
_APOSTROPHE = re.compile(r"['’ʼ´]")
_PUNCTUATION = re.compile(r"[\s.,!;:()\"“”„«»¡~*、。・–—-]+")


def _read_signs(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLEASED = _read_signs(
    """
    +1 :+1: :thumbsup: :pray: :heart: :tada: :ok_hand: :bow: :clap: :rocket: :100: :smile: :smiley:
    :grinning: :blush: :wink: :slight_smile: :raised_hands: :muscle: :sparkles: :star: :fire:
    :white_check_mark: :heavy_check_mark: :handshake: :hugs: :robot:
    👍 🙏 ❤ 🎉 👌 🙇 👏 🚀 💯 😄 😊 🙌 ✅ 🙂 😀 😃 😁 😉 ☺ 🤗 🥳 🤩 😍 😎 💪 ✨ ⭐ 🌟 🔥 ✔ ☑ 🤝 🫡
    🫶 🤖 🎊 💙 💚 💛 🧡 💜 🖤 🤍 ♥
    """
)
_SPELT_OUT = str.maketrans({"ł": "l", "ø": "o", "œ": "oe", "æ": "ae"})


def _fold_letters(text: str) -> str:
    """Return the text in lower case and without accents."""
    apart = normalize("NFKD", text.casefold().translate(_SPELT_OUT))
    return "".join(each for each in apart if category(each) != "Mn")


def _compile_phrases(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Compile each phrase by itself, so that a shorter one hides no longer one. None ends within a
    word, but Chinese and Japanese have no spaces between phrases."""
    return tuple(
        re.compile(rf"(?:{_fold_letters(phrase)})(?![a-zа-я0-9])")
        for pattern in patterns
        for phrase in _split_alternatives(pattern)
    )


def _split_alternatives(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern that stand outside of its groups."""
    start = depth = 0
    for at, sign in enumerate(pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            yield pattern[start:at]
            start = at + 1
    yield pattern[start:]


_ENOUGH = _compile_phrases(each for patterns in THANKS.values() for each in patterns)
_BESIDE = _compile_phrases(BESIDE)


def is_acknowledgement(text: str) -> bool:
    """Whether the text only gives thanks, or only confirms that something was read."""
    comment = _MENTION.sub("", f"{text.strip()} ", count=1).strip()
    if len(comment) > _MOST_CHARACTERS:
        return False
    comment = _MODIFIER.sub("", comment)
    signs = [*_SHORTCODE.findall(comment), *_EMOJI.findall(_SHORTCODE.sub(" ", comment))]
    if any(sign not in _PLEASED for sign in signs):
        return False
    rest = _SMILE.sub(" ", _EMOJI.sub(" ", _SHORTCODE.sub(" ", comment)).casefold())
    if _FROWN.search(rest):
        return False
    words = _PUNCTUATION.sub(" ", _fold_letters(_APOSTROPHE.sub("", rest))).strip()
    if not words:
        return bool(signs)
    return len(words.split()) <= _MOST_WORDS and _consists_of_phrases(words, thanked=bool(signs))


def _consists_of_phrases(words: str, *, thanked: bool) -> bool:
    """Whether the words are known phrases only, with one among them that is enough by itself unless
    a sign has `thanked` already."""
    reached = {(0, thanked)}
    for start in range(len(words)):
        for enough in (False, True):
            if (start, enough) not in reached:
                continue
            begin = start + (words[start] == " ")
            for phrases, is_enough in ((_ENOUGH, True), (_BESIDE, False)):
                found = filter(None, (each.match(words, begin) for each in phrases))
                reached |= {(each.end(), enough or is_enough) for each in found}
    return (len(words), True) in reached
