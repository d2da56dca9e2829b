"""Combines notes when a later turn changes the verdict. Pure; all text is harmless already."""

from worker.core.session_id import Marker
from worker.forge.defence.lint import MAX_SIZE
from worker.forge.defence.spans import is_plain_url

_SUMMARY = "<summary>What was said first, before a later answer changed it</summary>"
_ROOM = MAX_SIZE - 1_000
"""The most characters of a note that can still be marked as outdated later."""


def put_above(answer: str, finding: str) -> str:
    """Return the note `finding` with the text of the note `answer` above its headline."""
    marker, _, rest = finding.partition("\n")
    text = answer.partition("\n")[2].strip("\n")
    return f"{marker}\n\n{text}\n{rest}" if text else finding


def replace_first(finding: str, marker: Marker, first: str, answer_url: str) -> str:
    """Return the note `finding` in place of a session's `first` note, whose text is folded below.

    `marker` is the first note's. If both are too long for one note, the details of the first one
    are left out, and the note says so.
    """
    text = first.partition("\n")[2].strip("\n")
    where = f"[A later answer]({answer_url})" if is_plain_url(answer_url) else "A later answer"
    rest = finding.partition("\n")[2].strip("\n")

    def fold(text: str) -> str:
        lines = ["<details>", _SUMMARY, "", f"{where} has changed the verdict.", "", text, ""]
        return "\n".join([marker.text(), "", rest, "", *lines, "</details>"])

    whole = fold(text)
    if len(whole) <= _ROOM:
        return whole
    return fold(f"{text.partition('<details>')[0].rstrip()}\n\n(Its details are left out here.)")
