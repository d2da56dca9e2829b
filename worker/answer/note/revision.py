"""Combines a note with what was said before or is said beside it. Pure; all text is harmless."""

from worker.safety.lint import MAX_SIZE
from worker.safety.marker import Marker
from worker.safety.neutralise import is_plain_url

_SUMMARY = "<summary>What was said first, before a later answer changed it</summary>"
_ROOM = MAX_SIZE - 1_000
"""The most characters of a note that can still be marked as outdated later."""


def take_text(note: str) -> str:
    """Return the text of a note without its marker."""
    return note.partition("\n")[2].strip("\n")


def put_above(note: str, text: str) -> str:
    """Return `note` with `text` above its headline."""
    marker, _, rest = note.partition("\n")
    return f"{marker}\n\n{text}\n{rest}" if text else note


def fold_below(note: str, summary: str, text: str) -> str:
    """Return `note` with `text` folded below it, under a `summary`.

    If both are too long for one note, the text's details are left out, and the note says so.
    """

    def fold(text: str) -> str:
        return "\n".join([note.rstrip("\n"), "", "<details>", summary, "", text, "", "</details>"])

    whole = fold(text)
    if len(whole) <= _ROOM:
        return whole
    return fold(f"{text.partition('<details>')[0].rstrip()}\n\n(Its details are left out here.)")


def replace_first(finding: str, marker: Marker, first: str, answer_url: str) -> str:
    """Return the note `finding` in place of a session's `first` note, whose text is folded below.

    `marker` is the first note's.
    """
    where = f"[A later answer]({answer_url})" if is_plain_url(answer_url) else "A later answer"
    said = f"{where} has changed the verdict.\n\n{take_text(first)}"
    return fold_below(f"{marker.text()}\n\n{take_text(finding)}", _SUMMARY, said)
