"""Puts a session's newest verdict into the first note of its thread."""

import logging
from collections.abc import Sequence

from worker.answer.finish import finish_body
from worker.answer.note import older_note
from worker.answer.note.older_note import replace_first
from worker.conversation.context import Context, Status
from worker.conversation.session_id import SessionKey
from worker.errors import ForgeError, StoreError
from worker.gitlab.ports import OwnNote
from worker.safety.marker import Kind, Marker
from worker.turns import stored_turns
from worker.turns.parts import Deps
from worker.verdict.finding import Finding
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.turn")


def revise_first_note(
    key: SessionKey, context: Context, found: Finding, body: str, deps: Deps
) -> None:
    """Replace the first note by `body`, a later turn's note on `found`, if the verdict changed.

    The first note's text is folded below it. The new text depends only on committed turns and the
    finding, so that a repeated turn writes the same. `deps.gitlab.hosts` include the merge
    request's. Raises transient ForgeErrors and StoreErrors; after others, the first note stays.
    """
    try:
        if _changes_verdict(key, context, found, deps):
            _replace_note(key, context, found, body, deps)
    except (ForgeError, StoreError) as error:
        if error.transient:
            raise
        log.warning("session %s: its first note stays: %s", key.session_id, error)


def _changes_verdict(key: SessionKey, context: Context, found: Finding, deps: Deps) -> bool:
    """Whether a later turn gives the first verdict, or a complete, undoubted answer changes it."""
    if context.is_look or context.outcome is None or context.note is None:
        return False
    before = stored_turns.find_verdict(key, context.turn - 1, deps)
    if before is None:
        return True
    judged = found.final_verdict
    refuted = judged is not None and judged.is_refuted
    doubted = refuted or (found.verdict is Verdict.UNKNOWN and bool(found.doubt))
    whole = context.outcome.status is Status.DONE
    return whole and not doubted and before.verdict != found.verdict


def _replace_note(key: SessionKey, context: Context, found: Finding, body: str, deps: Deps) -> None:
    own = list(deps.gitlab.notes.list_own_notes(context.subject))
    marker = Marker(key.session_id, 0)
    note = next((each for each in own if each.marker == marker), None)
    first = stored_turns.load_turn(deps.storage.sessions, key, context.look).note_text
    posted = context.note
    if note is None or not first or posted is None or older_note.is_marked(note.body):
        return
    if posted.internal and not note.internal:
        log.info("session %s: its first note has more readers and stays", key.session_id)
        return
    combined = replace_first(body, marker, first, posted.url)
    finished = finish_body(combined, deps.gitlab.hosts, deps.runtime.redact)
    if finished.kept_back:
        log.warning("session %s: its first note stays as it is", key.session_id)
        return
    if note.body != finished.body:
        deps.gitlab.notes.edit_note(context.subject, note.ref, finished.body)
    log.info("session %s: the verdict was changed by turn %d", key.session_id, context.turn)
    if found.verdict is not Verdict.CHANGE:
        _resolve_suggestions(own, key.session_id, context, deps)


def _resolve_suggestions(
    own: Sequence[OwnNote], session: str, context: Context, deps: Deps
) -> None:
    """Resolve the suggestions for the earlier verdict, which are no fix any more."""
    for note in own:
        if (
            note.in_open_thread
            and note.marker.session_id == session
            and note.marker.kind is Kind.SUGGESTION
        ):
            deps.gitlab.notes.resolve_thread(context.subject, note.ref)
