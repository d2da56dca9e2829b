"""Removes invisible characters from untrusted text."""

import re

BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Every line end other than "\\n" that some program recognises."""

UNSEEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\ue000-\uf8ff"
    "\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
)
"""Control characters except tab and newline, zero-width and bidirectional marks, tag characters,
variation selectors, private-use characters, lone surrogates."""


def visible(text: str) -> str:
    """Return `text` with every line end as "\\n" and without invisible characters."""
    return UNSEEN.sub("", BREAKS.sub("\n", text))


def one_line(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters; an ellipsis marks a cut."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
