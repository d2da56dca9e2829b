"""Tells whether a comment only says thanks, so that it needs no answer. Pure.

Such a comment consists of known words only: a question that is mistaken for thanks would get no
answer.
"""

import re

_MOST_WORDS, _MOST_CHARACTERS = 12, 200

_MENTION = re.compile(r"@[\w.-]{1,100}[,:]?\s")
_SHORTCODE = re.compile(r":[a-z0-9_+-]{1,30}:")
_EMOJI = re.compile(
    "[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\ufe0f\u200d\U0001f1e6-\U0001f1ff]|\\+1"
)
_REST = re.compile(r"[\s.,!…;:()'’-]*")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def _read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLEASED = _read_words(
    """
    +1 :+1: :thumbsup: :pray: :heart: :tada: :ok_hand: :bow: :clap: :rocket: :100: :smile:
    👍 🙏 ❤ 🎉 👌 🙇 👏 🚀 💯 😄 😊 🙌 ✅
    """
)
_THANKS = _read_words(
    """
    thanks thank thx ty tysm cheers merci danke dankeschön dankesehr gracias obrigado obrigada
    grazie lgtm nice great perfect awesome excellent cool neat wow brilliant super wonderful ok
    okay understood noted acknowledged agreed fixed helpful helped
    """
)
_OTHERS = _read_words(
    """
    you u very much so many a lot lots for the this that it its it's that's all really right
    good job work works worked catch point find analysis explanation help info information hint
    tip bot sandpiper again makes sense me my us we indeed yes yep yeah and just got now of here
    best vielen vielmals dank beaucoup muchas mille
    """
)


def is_acknowledgement(text: str) -> bool:
    """Whether the text only gives thanks, or only confirms that something was read."""
    comment = _MENTION.sub("", f"{text.strip()} ", count=1).strip()
    if len(comment) > _MOST_CHARACTERS:
        return False
    signs = [*_SHORTCODE.findall(comment), *_EMOJI.findall(_SHORTCODE.sub(" ", comment))]
    rest = _EMOJI.sub(" ", _SHORTCODE.sub(" ", comment))
    words = [word.casefold() for word in _WORD.findall(rest)]
    if not _REST.fullmatch(_WORD.sub("", rest)) or len(words) > _MOST_WORDS:
        return False
    if any(word not in _THANKS and word not in _OTHERS for word in words):
        return False
    return any(word in _THANKS for word in words) or any(sign in _PLEASED for sign in signs)
