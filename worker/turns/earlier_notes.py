"""Changes the notes of earlier turns, so that a merge request has one current note of a workflow.

When a newer analysis has found something, or the pipeline passes, the notes of older pipelines are
folded under a line that says so. Nothing of their text is lost, and their markers stay, so that a
reply under them still resumes its session. A later turn's verdict goes into the first note.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note import older_note
from worker.answer.note.older_note import replace_first
from worker.conversation import context_json
from worker.conversation.context import Context, SessionKey, Status, Subject
from worker.conversation.context_json import HistoryError
from worker.errors import ForgeError, SourceError, StoreError
from worker.gitlab.ports import OwnNote
from worker.incidents.sentences import find_block, replace_block
from worker.safety.markdown import Kind, Marker
from worker.turns import memory, stored_turns
from worker.turns.parts import Deps, NotesMarked, Turn
from worker.verdict.aftermath import Aftermath, dump_aftermath
from worker.verdict.finding import Finding
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.notes")

MOST = 10
"""The most notes that are folded at a time; the rest wait for the next time."""


@dataclass(frozen=True, slots=True)
class _OlderNote:
    """An analysis whose note has not been folded yet."""

    key: SessionKey
    context: Context
    note: OwnNote


def fold_older_notes(context: Context, deps: Deps) -> None:
    """Fold the notes that the newest analysis of a merge request and workflow supersedes.

    `context` is an analysis just committed. Raises nothing: the finding is posted already.
    """
    if context.has_failed:
        return
    try:
        place = context.subject.project_id, context.subject.mr_iid
        sessions = {key.session_id for key in deps.storage.sessions.list_sessions(*place)}
        if sessions <= {context.session_id}:
            return
        own = list(deps.gitlab.notes.list_own_notes(context.subject))
        found = [
            each
            for each in _list_older_notes(own, context.subject, deps)
            if each.context.workflow == context.workflow
        ]
        # A superseded run may end after the run that superseded it.
        newest = max(
            found,
            key=lambda each: (not each.context.has_failed, each.context.subject.pipeline_id),
            default=None,
        )
        for each in found if newest and not newest.context.has_failed else ():
            if newest and each.context.subject.pipeline_id < newest.context.subject.pipeline_id:
                number = newest.context.subject.pipeline_id
                body = older_note.mark_superseded(each.note.body, newest.note.ref.url, number)
                _edit_older_note(each, body, "superseded", newest.context.subject, own, deps)
    except (ForgeError, StoreError) as error:
        log.warning("session %s: older notes not folded: %s", context.session_id, error)


def mark_passed(subject: Subject, deps: Deps) -> NotesMarked:
    """Fold the notes of pipelines up to the `subject`'s, which has passed, and say so on them.

    Raises ForgeError and StoreError; doing it twice changes nothing.
    """
    own = list(deps.gitlab.notes.list_own_notes(subject))
    done = []
    for each in _list_older_notes(own, subject, deps):
        before = each.context.subject
        if before.pipeline_id > subject.pipeline_id:
            continue
        same = before.sha == subject.sha
        body = older_note.mark_passed(each.note.body, subject, same_commit=same)
        _edit_older_note(each, body, "passed_again" if same else "fixed", subject, own, deps)
        done.append(each.key.session_id)
    return NotesMarked(subject.pipeline_id, tuple(done))


def _list_older_notes(own: Sequence[OwnNote], subject: Subject, deps: Deps) -> Iterator[_OlderNote]:
    """Yield the newest committed analyses whose notes have not been folded yet."""
    first = (note for note in own if note.marker.turn == 0 and not older_note.is_marked(note.body))
    for note in islice(first, MOST):
        key = subject.make_key(note.marker.session_id)
        context = _read_context(key, deps)
        # What was posted in an existing internal thread is not folded.
        is_in_thread = context and context.note and context.note.discussion_id
        if context and not (note.internal and is_in_thread):
            yield _OlderNote(key, context, note)


def _read_context(key: SessionKey, deps: Deps) -> Context | None:
    """Return the analysis, or what replaced a deleted one; None if not committed or unreadable."""
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is None:
        return None
    try:
        data = deps.storage.sessions.read_context(key, 0)
    except StoreError:
        if latest == 0:
            raise
        data = deps.storage.sessions.read_context(key, latest)
    try:
        return context_json.load_context_of(key, data)
    except HistoryError as error:
        log.warning("session %s: %s", key.session_id, error)
        return None


def _edit_older_note(
    older: _OlderNote,
    body: str,
    became: str,
    by: Subject,
    own: Sequence[OwnNote],
    deps: Deps,
) -> None:
    store, before = deps.storage.sessions, older.context.subject
    changed_paths: tuple[str, ...] | None = None
    if became == "fixed":
        try:
            changed_paths = deps.gitlab.merge_requests.list_changed_paths(before, by.sha)
        except SourceError as error:
            log.info("!%d: what fixed it is not known: %s", before.mr_iid, error)
    now = deps.runtime.clock.now()
    after = Aftermath(became, by.pipeline_id, by.sha, now, changed_paths=changed_paths)
    store.write_aftermath(older.key, 0, dump_aftermath(after))
    # Of several failures of the commit, the newest one ended so.
    newest = stored_turns.read_turn(store, older.key, store.find_latest_turn(older.key) or 0)
    look = stored_turns.read_turn(store, older.key, newest.look if newest else 0)
    memory.record_end(look or older.context, became, by.pipeline_id, deps)
    memory.update_memory(older.key, deps)
    # The note comes last: once it is folded, the other steps are not retried.
    for note in own:
        marker = note.marker
        # Threads that a reply has begun stay open.
        is_begun = marker.kind is Kind.SUGGESTION or (marker.turn == 0 and deps.options.note.thread)
        if note.in_open_thread and marker.session_id == older.key.session_id and is_begun:
            deps.gitlab.notes.resolve_thread(by, note.ref)
    finished = finish_body(body, add_subject_hosts(before, deps.gitlab.hosts), deps.runtime.redact)
    if finished.kept_back:
        # The substitute for a body that must not be posted must not replace the note either.
        log.warning("session %s: note left as it is", older.key.session_id)
        return
    try:
        deps.gitlab.notes.edit_note(before, older.note.ref, finished.body)
    except ForgeError as error:
        if error.status != 404:
            raise
        log.info("note %d was deleted meanwhile", older.note.ref.note_id)
    log.info("session %s: %s by pipeline %d", older.key.session_id, became, by.pipeline_id)


def revise_first_note(turn: Turn, found: Finding, body: str, deps: Deps) -> None:
    """Replace the first note by `body`, a later turn's note on `found`, if the verdict changed.

    The first note's text is folded below it. The new text depends only on committed turns and the
    finding, so that a repeated turn writes the same. Raises transient ForgeErrors and StoreErrors;
    after others, the first note stays.
    """
    try:
        if _changes_verdict(turn.key, turn.context, found, deps):
            _replace_note(turn, found, body, deps)
    except (ForgeError, StoreError) as error:
        if error.transient:
            raise
        log.warning("session %s: its first note stays: %s", turn.key.session_id, error)


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


def _replace_note(turn: Turn, found: Finding, body: str, deps: Deps) -> None:
    key, context = turn.key, turn.context
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
    combined = replace_block(combined, find_block(note.body))
    finished = finish_body(combined, turn.terms.hosts, deps.runtime.redact)
    if finished.kept_back:
        log.warning("session %s: its first note stays as it is", key.session_id)
        return
    if note.body != finished.body:
        deps.gitlab.notes.edit_note(context.subject, note.ref, finished.body)
    log.info("session %s: the verdict was changed by turn %d", key.session_id, context.turn)
    if found.verdict is Verdict.CHANGE:
        return
    for each in own:  # suggestions for the earlier verdict are no fix any more
        is_suggestion = each.marker.kind is Kind.SUGGESTION
        if each.in_open_thread and each.marker.session_id == key.session_id and is_suggestion:
            deps.gitlab.notes.resolve_thread(context.subject, each.ref)
