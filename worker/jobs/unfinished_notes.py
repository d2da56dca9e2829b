"""Heals notes on GitLab: promises that nobody keeps any more, and notes that are there twice.

A run writes its end into its note by itself. This is for what it could not do: GitLab did not
answer at the end, its worker was killed while it gave up, or GitLab carried out a POST so late that
its client had posted anew.
"""

from collections.abc import Iterator, Sequence

from worker.conversation.context import Context, SessionKey, Subject
from worker.errors import ForgeError
from worker.gitlab.ports import OwnNote
from worker.queue.journal import State
from worker.safety.marker import Marker
from worker.sessions import object_names
from worker.turns import stored_turns
from worker.turns.parts import Deps
from worker.turns.placeholder import is_unfinished, write_end

MOST = 500
"""The most merge requests whose notes one sweep reads."""

CUT_OFF = "its run was cut off, and nothing is left to continue it; ask again: /sandpiper analyze"


def heal_notes(deps: Deps, since: float, *, act: bool = True) -> Iterator[str]:
    """Heal the notes of the merge requests with turns begun after `since` (epoch seconds), and
    yield a line for each note; without `act` only yield. Raises StoreError."""
    for project, iid in _list_merge_requests(deps, since):
        place = f"!{iid} of project {project}"
        try:
            for line in _heal_merge_request(project, iid, deps, act):
                yield f"{place}: {line}"
        except ForgeError as error:
            yield f"{place}: its notes are left as they are: {error}"


def _list_merge_requests(deps: Deps, since: float) -> Sequence[tuple[int, int]]:
    found: dict[tuple[int, int], None] = {}
    for name in deps.storage.sessions.records.list_names(object_names.RECENT):
        row = object_names.parse_row(name)
        if row and row.began_at < since:
            break  # the newest come first
        if row:
            found[row.project_id, row.mr_iid] = None
        if len(found) >= MOST:
            break
    return list(found)


def _heal_merge_request(project: int, iid: int, deps: Deps, act: bool) -> Iterator[str]:
    subject = Subject(deps.gitlab.url, *(project, "", iid, 0, 0, "", deps.gitlab.url))
    by_marker: dict[Marker, list[OwnNote]] = {}
    for own in deps.gitlab.notes.list_own_notes(subject):
        by_marker.setdefault(own.marker, []).append(own)
    for marker, notes in by_marker.items():
        is_whole = len(notes) == 1 and not is_unfinished(notes[0].body)
        if is_whole or _is_at_work(marker, project, iid, deps):
            continue
        context = _read_turn(marker, project, iid, deps)
        kept = _choose(notes, context)
        if len(notes) > 1:
            if act:
                deps.gitlab.notes.remove_copies(subject, marker, kept.ref, older=True)
            yield f"note {kept.ref.note_id} was there {len(notes)} times"
        if is_unfinished(kept.body):
            body, what = _write_end(marker, subject, context, deps)
            if act:
                deps.gitlab.notes.edit_note(subject, kept.ref, body)
            yield f"note {kept.ref.note_id} promised a result: {what}"


def _is_at_work(marker: Marker, project: int, iid: int, deps: Deps) -> bool:
    """Whether somebody will still write the note: a worker has the turn, or a trigger of the merge
    request has not ended."""
    turn = marker.turn
    key = SessionKey(project, iid, marker.session_id)
    if turn is not None and deps.queue.leases.find_holder(key, turn):
        return True
    for name in deps.queue.journal.list_names(project, iid):
        stored = deps.queue.journal.read_entry(name)
        if stored is None or stored.entry.state is not State.PARKED:
            return True
    return False


def _read_turn(marker: Marker, project: int, iid: int, deps: Deps) -> Context | None:
    """Return the turn that a note reports; None if it reports none that was committed."""
    key, turn = SessionKey(project, iid, marker.session_id), marker.turn
    latest = deps.storage.sessions.find_latest_turn(key)
    if turn is None or latest is None or turn > latest:
        return None
    if turn == 0:
        return stored_turns.find_newest_look(key, latest, deps)
    stored = stored_turns.read_turn(deps.storage.sessions, key, turn)
    return stored if stored and stored.note_turn == turn else None


def _choose(notes: Sequence[OwnNote], context: Context | None) -> OwnNote:
    """Return which of several notes stays: one with a result, the turn's own, the oldest."""
    own = context.note.note_id if context and context.note else 0
    return min(
        notes,
        key=lambda each: (is_unfinished(each.body), each.ref.note_id != own, each.ref.note_id),
    )


def _write_end(
    marker: Marker, subject: Subject, context: Context | None, deps: Deps
) -> tuple[str, str]:
    """Return the body that a promise is replaced by, and what that is in a few words."""
    if context and (body := context.note_text or context.unposted_note):
        return body, "the finding of its session is there now"
    outcome = context.outcome if context else None
    reason = (outcome.reason if outcome else "") or _find_reason(subject, deps) or CUT_OFF
    said = deps.runtime.redact(reason)
    return write_end(marker, subject, said), f"it says why there is none: {said}"


def _find_reason(subject: Subject, deps: Deps) -> str:
    """Return why a trigger of the merge request was parked, "" if none was."""
    for name in deps.queue.journal.list_names(subject.project_id, subject.mr_iid):
        stored = deps.queue.journal.read_entry(name)
        if stored and stored.entry.state is State.PARKED:
            return stored.entry.reason
    return ""
