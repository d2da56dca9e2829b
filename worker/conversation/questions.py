"""Reads a reply: whether it only gives thanks, what it needs, and its parts. Pure.

A comment that only says thanks consists of known phrases (`phrases.toml`): a question
that is mistaken for thanks would get no answer, one that is not recognised gets the model's. For
work a sandbox starts at once, for a question at the first tool call; confusing the two costs a
short wait, or a container that nobody uses. The model is given a list of a question's parts, which
is read back when there is an answer, so that a worker that takes over finds the same parts.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from unicodedata import category, normalize

from worker.conversation.phrases import list_phrases
from worker.safety.sentences import split_clauses, split_sentences
from worker.safety.untrusted import one_line


class Route(StrEnum):
    """What a reply needs."""

    THANKS = "thanks"
    QUESTION = "question"
    WORK = "work"
    UNSURE = "unsure"


TASK = (
    "A developer has replied to an analysis of a failed CI pipeline. Answer with one word. THANKS: "
    "the reply thanks or confirms, and wants nothing. QUESTION: what was found and said before is "
    "enough to answer it. WORK: logs, files or commands have to be looked at first."
)
"""The instructions to a helper for a reply that the rules are unsure of."""

MOST_TOKENS = 16
"""The most tokens of the helper's answer."""

MOST_CHARACTERS = 2000
"""A reply with more characters counts as work."""

_SHORT = 200

_WORK = re.compile(
    r"\b(?:look(?:ing)? (?:at|into|for|closer|again)|have a look|check|investigate|reproduce"
    r"|re-?run|run|try|download|fetch|search|grep|compare|bisect|verify|dig|analy[sz]e|find out"
    r"|show me|suggest|patch|fix (?:it|this|that)|logs?|diff"
    r"|pr[üu]f\w*|schau\w*|untersuch\w*|vergleich\w*|such\w*|regarde\w*|v[ée]rifie\w*|cherche\w*"
    r"|revis[ae]\w*|mir[ae]|busca\w*|verifica\w*|controlla\w*|cerca|sprawd[źz]\w*|проверь\w*"
    r"|посмотри\w*|verifi(?:ca|que)\w*|procur[ae]\w*|executa\w*|kijk\w*|zoek\w*|controle\w*"
    r"|onderzoek\w*|vergelijk\w*|uruchom\w*|poszukaj|relance\w*|rilancia\w*|перезапусти\w*)\b"
    r"|看一下|看看|检查|查一下|重新?(?:运行|跑)|確認して|調べて|見て|再実行|実行して",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\b(?:why|what (?:do|does|did|is|was|are) (?:you|this|that|it|the)|mean(?:s|ing)?"
    r"|how do you know|which (?:line|test|job|commit|file|change)|are you sure|is (?:it|that|this)"
    r"|explain|clarify|warum|wieso|weshalb|was (?:bedeutet|hei[ßs]+t|meinst)|pourquoi|signifie"
    r"|por qu[ée]|significa|perch[ée]|dlaczego|co to znaczy|почему|зачем|что значит"
    r"|por que|o que significa|waarom|hoezo|wat betekent|cosa significa|que significa)\b"
    r"|为什么|为何|为啥|是什么意思|なぜ|どういう意味",
    re.IGNORECASE,
)


def route_reply(text: str) -> Route:
    """Return what a reply needs, as far as rules can tell."""
    if is_acknowledgement(text):
        return Route.THANKS
    if len(text) > MOST_CHARACTERS or _WORK.search(text):
        return Route.WORK
    return Route.QUESTION if _QUESTION.search(text) else Route.UNSURE


def read_route(answer: str, text: str) -> Route:
    """Return the route that a helper's `answer` about `text` names; WORK if that is unclear.

    THANKS is believed only of a short text that asks nothing, because thanks get no answer.
    """
    routes = {each for each in Route if re.search(rf"\b{each}\b", answer, re.IGNORECASE)}
    if routes == {Route.THANKS}:
        is_question = len(text) > _SHORT or "?" in text or "？" in text or _QUESTION.search(text)
        return Route.WORK if is_question else Route.THANKS
    return Route.QUESTION if routes == {Route.QUESTION} else Route.WORK


_MOST_WORDS, _LONGEST_THANKS = 18, 200

_MENTION = re.compile(r"@[\w.-]{1,100}[,:]?\s")
_SHORTCODE = re.compile(r":[a-z0-9_+-]{1,30}:")
_MODIFIER = re.compile("[\ufe0f\u200d\U0001f3fb-\U0001f3ff]")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\U0001f1e6-\U0001f1ff]|\\+1(?![0-9])")
_SMILE = re.compile(r"(?<!\w)(?:[:;=]-?[)dp](?!\w)|\^\^|<3(?![0-9])|xd(?!\w))")
_FROWN = re.compile(r"[:;=]['’]?-?[(\[/\\|]")
_APOSTROPHE = re.compile(r"['’ʼ´]")
_PUNCTUATION = re.compile(r"[\s.,!;:()\"“”„«»¡~*、。・–—-]+")


_SIGNS = """
+1 :+1: :thumbsup: :pray: :heart: :tada: :ok_hand: :bow: :clap: :rocket: :100: :smile: :smiley:
:grinning: :blush: :wink: :slight_smile: :raised_hands: :muscle: :sparkles: :star: :fire:
:white_check_mark: :heavy_check_mark: :handshake: :hugs: :robot:
👍 🙏 ❤ 🎉 👌 🙇 👏 🚀 💯 😄 😊 🙌 ✅ 🙂 😀 😃 😁 😉 ☺ 🤗 🥳 🤩 😍 😎 💪 ✨ ⭐ 🌟 🔥 ✔ ☑ 🤝 🫡
🫶 🤖 🎊 💙 💚 💛 🧡 💜 🖤 🤍 ♥
"""
_PLEASED = frozenset(_SIGNS.split())
_SPELT_OUT = str.maketrans({"ł": "l", "ø": "o", "œ": "oe", "æ": "ae"})


def _fold_letters(text: str) -> str:
    """Return the text in lower case and without accents."""
    apart = normalize("NFKD", text.casefold().translate(_SPELT_OUT))
    return "".join(each for each in apart if category(each) != "Mn")


@cache
def _compile_phrases(table: str) -> tuple[re.Pattern[str], ...]:
    """Compile each phrase by itself, so that a shorter one hides no longer one. None ends within a
    word, but Chinese and Japanese have no spaces between phrases."""
    return tuple(
        re.compile(rf"(?:{_fold_letters(phrase)})(?![a-zа-я0-9])") for phrase in list_phrases(table)
    )


def is_acknowledgement(text: str) -> bool:
    """Whether the text only gives thanks, or only confirms that something was read."""
    comment = _MENTION.sub("", f"{text.strip()} ", count=1).strip()
    if len(comment) > _LONGEST_THANKS:
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
            for table, is_enough in (("thanks", True), ("beside", False)):
                found = filter(None, (each.match(words, begin) for each in _compile_phrases(table)))
                reached |= {(each.end(), enough or is_enough) for each in found}
    return (len(words), True) in reached


MOST_PARTS = 6
_LONGEST_QUESTION = 4000
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
    if len(text) > _LONGEST_QUESTION:
        return ()
    items = [match[1] for line in text.split("\n") if (match := _ITEM.match(line))]
    parts = items
    if len(items) < 2 or not any(map(_ASKS.search, items)):
        parts = []
        for each in filter(_ASKS.search, split_sentences(text)):
            # "Why does it fail, and how do I fix it?" asks twice.
            clauses = _BOTH.split(each)
            whole = len(clauses) == 2 and all(len(one.strip()) >= _LEAST_PART for one in clauses)
            parts += clauses if whole else [each]
    lines = [one_line(part, _PART) for part in parts[:MOST_PARTS]]
    return tuple(lines) if len(lines) > 1 else ()


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
        if stems
        and not stems & answer_stems
        and not (_CLOSED.match(part) and _YES_OR_NO.search(answer))
    )
    if _count_statements(answer) < len(parts):
        return missed
    is_foreign = not any(stems & answer_stems for stems in part_stems)
    items = sum(1 for line in answer.split("\n") if _ITEM.match(line))
    paragraphs = sum(1 for part in re.split(r"\n\s*\n", answer) if part.strip())
    return () if is_foreign or max(items, paragraphs) >= len(parts) else missed


def _count_statements(answer: str) -> int:
    """Count the sentences, and the long clauses of those that have several."""
    clauses = (split_clauses(each, ";:,") for each in split_sentences(answer))
    long = ([each for each in parts if len(each.strip()) >= _LEAST_PART] for parts in clauses)
    return sum(max(1, len(each)) for each in long)


def _read_stems(text: str) -> frozenset[str]:
    return frozenset(word.casefold()[:_STEM] for word in _WORD.findall(text))
