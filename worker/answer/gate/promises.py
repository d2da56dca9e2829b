"""Detects texts that only say what the model is going to do, and are no answer. Pure.

A sentence is a promise if it begins as one ("I will", "let me", "ich werde"), and names no
condition: "If you want, I'll look at the other job" is an offer to somebody who has an answer.
Nor is it one to say what evidence is missing: "I need to see the report, which has expired".
"""

import re
from collections.abc import Sequence

from worker.conversation.answer_text import Block, BlockKind
from worker.safety.sentences import split_sentences

_MOST_CHARACTERS = 600
"""A longer text says more than what the model will do."""

_MOST_BEFORE = 2
"""The most sentences before the promise that ends a text; more of them are an answer."""

_OPENERS = """
    ok okay sure alright right great good certainly understood now first next then so thanks and
    of|course klar gut zuerst jetzt nun als|nächstes zunächst danach d'accord bien d'abord ensuite
    maintenant vale claro primero ahora bueno certo adesso ora prima agora primeiro dobrze teraz
    już najpierw хорошо сейчас теперь сначала tamam şimdi önce goed eerst nu 好的 好 那么 现在 首先
    接下来 では まず 次に はい 네 먼저 이제
"""
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

_PROMISES = {
    "en": r"i(?:'ll| will|'m (?:now )?(?:going|about) to|(?: am)? (?:now )?going to| need to"
    r"| have to|'d like to| want to| plan to| shall) "
    r"(?!.{0,20}\bnot\b|say|repeat|leave|stay|stick|keep|never|list|name|quote|explain|answer"
    rf"|guess|disagree|assume (?:that|you)|correct what|{_SPEECH})"
    r"|let me (?!know|list|name|quote|explain|answer|say|show|summari|put it"
    rf"|{_SPEECH})"
    r"|let's |let us |allow me to |time to |(?:going|about) to |my next step"
    r"|the next step is to|we(?:'ll| will) (?:now |first )?"
    r"(?:fetch|look|check|call|inspect|examine|read|get) "
    r"|(?:checking|looking|fetching|investigating|analy[sz]ing|searching|reading|examining) "
    rf"(?!{_SEEN})[^:]*$"
    r"|(?:please )?(?:give me a (?:moment|second)|one moment|hold on|stand by|wait while)",
    "de": r"ich (?:werde|schaue|sehe|prüfe|untersuche|hole|lese|lade|suche|muss|möchte|analysiere"
    r"|beginne)\b(?!.*\bnicht\b)"
    r"|(?:(?:das|dies|es) )?(?:schaue|sehe|prüfe|hole|lese|lade|werde|muss) ich\b(?!.*\bnicht\b)"
    r"|lass(?:en sie|t)? (?:mich|uns)\b",
    "fr": r"je (?:vais|regarde|vérifie|dois|commence|consulte)\b|laisse[zr]?[- ]moi|permettez",
    "es": r"voy a |vamos a |d[ée]j[ae]me |perm[ií]t[ae]me |tengo que |necesito ",
    "pt": r"vou |vamos |deixe[- ]me |deixa[- ]me |preciso ",
    "it": r"do (?:subito )?un'occhiata"
    r"|(?:controllo|verifico|guardo|esamino|analizzo|vado a|devo|fammi|lasciami)\b",
    "nl": r"ik (?:ga|zal|kijk|bekijk|moet|controleer)\b|laat me |laten we ",
    "pl": r"(?:sprawdz[ęi]|zobacz[ęy]|przejrz[ęy]|przeanalizuj[ęe]|pobior[ęe]|muszę|zaraz)\b"
    r"|(?:sprawdzam|patrzę|zaglądam|analizuję)\b",
    "ru": r"(?:я )?(?:посмотрю|проверю|изучу|проанализирую|загляну|загружу|получу|мне нужно|буду"
    r"|начну)\b|давай(?:те)? |позвольте ",
    "uk": r"(?:я )?(?:подивлюся|перевірю|проаналізую|перегляну)\b",
    "sv": r"jag (?:ska|kollar|tittar|kommer att)\b|låt mig ",
    "tr": r".{0,80}(?:bakacağım|kontrol edeceğim|inceleyeceğim|edeyim|bakayım|inceleyeyim)\b",
    "zh": r"让我|我来|我会(?!议)|我将|我先|我需要|我要|请稍|稍等"
    r"|正在(?:查看|检查|分析|获取|读取|调查|确认|查找)",
    # A sentence with another subject tells what something does.
    "ja": r"(?:まずは|それでは|(?:私|僕)[はが])?"
    r"(?:(?![はが]).){0,80}(?:確認|調査|調べ|見て|取得|分析|チェック)(?:し|み|てみ|してみ|いたし)?ます"
    r"|少々お待ち",
    "ko": r".{0,80}(?:하겠습니다|보겠습니다|살펴볼게요|확인할게요|드리겠습니다)",
}
"""By language: how a promise begins."""

_CONDITIONS = (
    r"\b(?:if|once|when(?:ever)?|unless|should you|wenn|falls|sobald|si|cuando|lorsque|quand|se"
    r"|quando|als|wanneer|jeśli|gdy|если|когда|якщо|om|när|eğer)\b|如果|若|要是|たら|れば|면\b"
)


def _join_openers() -> str:
    words = (re.escape(word).replace(r"\|", " ") for word in _OPENERS.split())
    return "|".join(sorted(words, key=len, reverse=True))


_LEAD = r"(?:[^\W\d_]+(?:[ '][^,.:;]{1,24})?,\s+)?"
"""A polite word or two, as in "Good question, let me check"."""

_WHETHER = re.compile(
    r"\b(?:check|verify|see|look|vérifie\w*|regarde\w*|comprobar|verificar|ver|verifico|controllo"
    r"|controle\w*|sprawd\w+|prüfe\w*|schaue\w*|посмотрю|проверю)\b.{0,25}?"
    r"\b(?:if|si|se|ob|of|als|wenn|czy)\b(?! (?:you|vous|tu|du|sie)\b)",
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

_PROMISE = re.compile(
    rf"{_LEAD}(?:\W{{0,9}}(?:{_join_openers()})(?:\W{{1,9}}|(?<=[^\x00-\u2fff]))){{0,3}}"
    rf"\W{{0,9}}(?:{'|'.join(_PROMISES.values())})",
    re.IGNORECASE,
)
_CONDITION = re.compile(_CONDITIONS, re.IGNORECASE)


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
    if not _PROMISE.match(sentence) or _TELLS.search(sentence):
        return False
    return not _CONDITION.search(_WHETHER.sub("", sentence))
