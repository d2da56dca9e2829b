"""Fixes put on the lines of the diff, where one click applies them."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from worker.core import suggestions
from worker.core.context import Context
from worker.core.finding import Finding, Verdict
from worker.core.gitlab import Changes, Position
from worker.core.identity import SUGGESTIONS, Marker
from worker.core.suggestions import Suggestion
from worker.deps import Deps
from worker.errors import ForgeError, SourceError
from worker.forge import note

log = logging.getLogger("sandpiper.suggesting")


def offered(context: Context, finding: Finding, deps: Deps) -> tuple[Finding, tuple[str, ...]]:
    """`finding` with its suggestions as text, and the URLs of those that are on the diff now.

    Each is posted once, however often this is called. What GitLab does not take stays text.
    """
    prose, found = suggestions.read(finding.to_do)
    told = replace(finding, to_do=prose)
    if not found or not _wanted(context, finding, deps):
        return told, ()
    try:
        return told, tuple(_posted(context, found, deps))
    except (ForgeError, SourceError) as error:
        log.warning("session %s: no suggestions: %s", context.session_id, error)
        return told, ()


def _wanted(context: Context, finding: Finding, deps: Deps) -> bool:
    """A note in a thread was asked for in private: nothing of it or of an internal one goes on."""
    at = context.note
    public = at is not None and not at.discussion_id and not at.internal
    return deps.note.suggestions and public and finding.verdict is Verdict.CHANGE


def _posted(context: Context, found: Sequence[Suggestion], deps: Deps) -> Iterator[str]:
    changes = deps.desk.changes(context.subject)
    if isinstance(changes, str):
        log.info("session %s: no suggestions: %s", context.session_id, changes)
        return
    there = {own.marker: own.ref for own in deps.forge.own(context.subject)}
    analysis = there.get(Marker(context.session_id, context.turn))
    fitting = islice(_placed(found, changes, context.session_id), len(SUGGESTIONS))
    for turn, (fix, position) in zip(SUGGESTIONS, fitting, strict=False):
        marker = Marker(context.session_id, turn)
        # Where the note was deleted meanwhile there is nothing to link to.
        body = note.suggestion(marker, fix, analysis.url if analysis else "")
        if marker in there:
            yield there[marker].url
        elif body and (url := _post(context, body, position, deps)):
            yield url


def _placed(
    found: Sequence[Suggestion], changes: Changes, session: str
) -> Iterator[tuple[Suggestion, Position]]:
    for fix in found:
        position = suggestions.placed(fix, changes)
        if isinstance(position, str):
            log.info("session %s: a suggestion stays text: %s", session, position)
        else:
            yield fix, position


def _post(context: Context, body: str, position: Position, deps: Deps) -> str:
    try:
        return deps.forge.post(context.subject, body, "", at=position).url
    except ForgeError as error:
        log.warning("session %s: a suggestion stays text: %s", context.session_id, error)
        return ""
