"""A secret taken apart so that the one who looks for it does not see it, and a reader does."""

import html
from collections.abc import Callable

KNOWN = "Zq7rVault9ROOTx2209kPw"
"""A secret of the bot's own, of no shape that anybody knows."""

TOKEN = "glpat-" + "aB3dE5gH7jK9mN1pQ2rS"
"""A token that is known by its shape."""

UNSEEN = (
    *("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\xad", "\u202e", "\u2066", "\u061c"),
    *("\ufe0f", "\U000e0041", "\U000e0100", "\x00", "\x1b", "\x7f", "\u115f", "\u3164", "\ue000"),
)

Split = Callable[[str, int], str]


def _around(opening: str, closing: str) -> Split:
    """A piece from the middle, marked."""
    return lambda text, at: f"{text[:at]}{opening}{text[at : at + 3]}{closing}{text[at + 3 :]}"


def _between(piece: str) -> Split:
    return lambda text, at: f"{text[:at]}{piece}{text[at:]}"


SPLITS: dict[str, Split] = {
    **{f"unseen {ord(each):x}": _between(each) for each in UNSEEN},
    "unseen everywhere": lambda text, at: "\u200b".join(text),
    "strong": _around("**", "**"),
    "emphasis": _around("*", "*"),
    "strong emphasis": _around("***", "***"),
    "strong twice": lambda text, at: f"**{text[:at]}****{text[at:]}**",
    "struck": _around("~~", "~~"),
    "struck to the end": lambda text, at: f"{text[:at]}~~{text[at:]}~~",
    "code": _around("`", "`"),
    "code twice": lambda text, at: f"`{text[:at]}``{text[at:]}`",
    "code in strong": _around("**`", "`**"),
    "a link's label": _around("[", "](https://gitlab.example.com/group/shop/-/jobs/1)"),
    "no link's label": _around("[", "](x)"),
    "an image": _between("![](x)"),
    "a comment": _between("<!-- -->"),
    "an empty element": _between("<b></b>"),
    "an element": _around("<b>", "</b>"),
    "a closing tag": _between("</img>"),
    "an entity": lambda text, at: text[:at] + f"&#{ord(text[at])};" + text[at + 1 :],
    "entities": lambda text, at: "".join(f"&#x{ord(each):x};" for each in text),
    "an entity of nothing": _between("&zwj;"),
    "another entity of nothing": _between("&#8203;"),
    "an entity of an entity": _between("&amp;#8203;"),
    "named entities": lambda text, at: html.escape(text).replace("-", "&hyphen;"),
    "an escape": _between("\\"),
    "strong and unseen": _around("*\u200b*", "*\u200b*"),
    "unseen and strong": _around("\u200b**", "**\u200b"),
    "a tag of nothing": _between("<!---->"),
    "a heading": lambda text, at: f"# {text[:at]}**{text[at:]}**",
    "an item": lambda text, at: f"- x\n- {text[:at]}**{text[at:]}**",
    "a quote": lambda text, at: f"> {text[:at]}**{text[at:]}**",
    "a cell": lambda text, at: f"| a |\n|---|\n| {text[:at]}**{text[at:]}** |",
}
