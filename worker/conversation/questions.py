"""Decides what a reply needs: nothing, an answer from what was said, or work with tools. Pure.

For work a sandbox starts at once; for a question it starts at the first tool call. Confusing the
two costs a short wait, or a container that nobody uses.
"""

import re
from enum import StrEnum

from worker.conversation.acknowledgements import is_acknowledgement


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
