"""Says why a run ended early. The text is harmless Markdown."""

import re

from worker.answer.note.note_parts import MAX_BRIEF, clean_line
from worker.answer.note.older_note import make_pipeline_url
from worker.conversation.context import Outcome, Status, Subject
from worker.safety.neutralise import is_plain_url


def say_why_stopped(outcome: Outcome, subject: Subject, limit: int = MAX_BRIEF) -> str:
    """Return a sentence on a run that ended early; "" for any other."""
    if outcome.status is Status.DONE:
        return ""
    reason = write_reason(outcome.reason, subject, limit).rstrip(".") or "the run ended early"
    return f"This is what was found before it stopped: {reason}."


_OVERTAKEN = re.compile(r"superseded by pipeline (\d{1,18})(, which passed)?")


def write_reason(text: str, subject: Subject, limit: int = MAX_BRIEF) -> str:
    """Return why a run ended, made harmless, with a link to a pipeline that superseded it."""
    if not (found := _OVERTAKEN.fullmatch(text)):
        return clean_line(text, frozenset(), limit)
    url = make_pipeline_url(subject, int(found[1]))
    pipeline = f"pipeline {found[1]}"
    linked = f"[{pipeline}]({url})" if is_plain_url(url) else pipeline
    return f"superseded by {linked}{found[2] or ''}"
