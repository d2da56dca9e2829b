"""What `sandpiper sweep` repairs: work that nobody does any more, lost webhooks, broken promises.

Running workers find triggers without a worker themselves (`worker.queue.recovery`); the sweep also
finds them while no worker runs, and finds turns whose trigger's record was lost from the store. It
begins the failed pipelines whose webhook was lost; beginning one twice does no harm.

A run writes its end into its note by itself. The sweep heals the notes where it could not: GitLab
did not answer at the end, its worker was killed while it gave up, or GitLab carried out a POST so
late that its client had posted anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice

from worker.answer.note.note import is_placeholder
from worker.conversation import context_json
from worker.conversation.context import Context, SessionKey, Subject
from worker.conversation.triggers import PipelineFailed, Reacted, Replied, Trigger, trigger_id
from worker.errors import ForgeError, SandpiperError, Unreadable
from worker.gitlab.ports import OwnNote
from worker.jobs.pipeline import find_looked_at
from worker.queue.journal import Journal, State, StoredEntry
from worker.safety.markdown import Marker
from worker.sessions import layout
from worker.turns import stored_turns
from worker.turns.parts import Deps, FailedPipeline
from worker.turns.placeholder import write_end
from worker.turns.run_again import explain_nothing_new
from worker.turns.stored_turns import make_key, read_turn

STALE = 600.0
"""Seconds that a trigger may wait in the queue before it counts as abandoned."""

DOUBTED = 7 * 86_400.0
"""Seconds after its acceptance in which a trigger that was parked in doubt is begun again."""

MOST_LOOKED_AT = 1000
"""Failed pipelines that one sweep compares with the store."""

MOST = 500
"""The most merge requests whose notes one sweep reads."""

CUT_OFF = "its run was cut off, and nothing is left to continue it; ask again: /sandpiper analyze"


# ------------------------------------------------------------- triggers and turns without a worker


class _LostTrigger(Exception):
    """The trigger that began a turn cannot be made again; says why."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What was found, and the reason if it was not begun (again).

    With `is_gap`, GitLab did not say which pipelines there are, and `reason` is why.
    """

    what: str
    reason: str = ""
    is_gap: bool = False

    @property
    def was_begun(self) -> bool:
        """Whether nothing was against it."""
        return not self.reason


def resume_abandoned(
    deps: Deps, begin: Callable[[Trigger], None], *, act: bool = True
) -> Iterator[Swept]:
    """Call `begin` for each abandoned trigger and turn, and yield them; without `act` only yield.

    A trigger that was parked because GitLab or the store refused it for long is begun again too:
    what they say may be otherwise by now, and a finished analysis waits in its checkpoint. Raises
    StoreError and what `begin` raises.
    """
    journal = deps.queue.journal
    for name in list(journal.list_names()):
        stored = journal.read_entry(name)
        if stored is None:
            continue
        entry, what = stored.entry, f"trigger {trigger_id(stored.entry.trigger)}"
        age = deps.runtime.clock.now() - entry.accepted_at
        if entry.state is State.PARKED and entry.doubts > 0 and age < DOUBTED:
            what, reopen = f"parked {what}", journal.reopen_doubted
        elif _is_abandoned(stored, deps):
            reopen = journal.reopen_entry
        else:
            continue
        if act and not reopen(stored):
            continue
        if act:
            begin(stored.entry.trigger)
        yield Swept(what)
    for key, turn in list(_find_unfinished_turns(deps)):
        what = f"turn {turn} of session {key.session_id}"
        try:
            data = deps.storage.sessions.read_checkpoint(key, turn)
            context = context_json.load_context_of(key, data or b"")
            if context.dry_run:
                continue  # whoever began it in a terminal has ended it there
            trigger = _restore_trigger(context)
        except (context_json.HistoryError, Unreadable) as error:
            yield Swept(what, f"its checkpoint cannot be read: {error}")
            continue
        except _LostTrigger as lost:
            yield Swept(what, str(lost))
            continue
        if isinstance(trigger, PipelineFailed) and journal.has_pipeline(trigger):
            # A branch pipeline's trigger names no merge request, so its entry is elsewhere.
            continue
        if act:
            begin(trigger)
        yield Swept(what)


def _is_abandoned(stored: StoredEntry, deps: Deps) -> bool:
    """Whether no worker runs a trigger, and no message in the queue will start it."""
    entry = stored.entry
    if entry.state in (State.PARKED, State.HELD):
        return False
    if entry.owner:
        return not deps.queue.leases.is_alive(entry.owner)
    return deps.runtime.clock.now() - max(entry.accepted_at, entry.due) > STALE


def _find_unfinished_turns(deps: Deps) -> Iterator[tuple[SessionKey, int]]:
    """Yield the turns that have a checkpoint but no commit, no worker and no trigger."""
    for name in deps.storage.sessions.records.list_names(layout.ROOT):
        found = layout.parse_name(name)
        if found is None or found.leaf != layout.CHECKPOINT or found.key.branch:
            continue  # a branch's own job goes on with what it has begun
        key, turn = found.key, found.turn
        latest = deps.storage.sessions.find_latest_turn(key)
        if latest is not None and latest >= turn:
            continue
        if deps.queue.leases.find_holder(key, turn):
            continue
        if not any(True for _ in deps.queue.journal.list_names(key.project_id, key.mr_iid)):
            yield key, turn


def _restore_trigger(context: Context) -> Trigger:
    """Return the trigger that began a turn. Raises _LostTrigger."""
    subject, note = context.subject, context.note
    if context.answered_notes and note and note.discussion_id:
        return Replied(
            subject.project_id, subject.mr_iid, note.discussion_id, context.answered_notes[-1]
        )
    if not context.is_look:
        raise _LostTrigger("which comment it was to answer is not known any more: ask again")
    return PipelineFailed(
        project_id=subject.pipeline_project_id,
        pipeline_id=subject.pipeline_id,
        sha=subject.sha,
        ref="",
        mr_iid=subject.mr_iid,
        mr_project_id=subject.project_id,
        finished_at=int(context.ended_at) if context.turn else 0,
    )


# ------------------------------------------------------------------- failures without a webhook


def begin_missed_pipelines(
    deps: Deps, since: float, most: int, begin: Callable[[PipelineFailed], None]
) -> Iterator[Swept]:
    """Call `begin` for at most `most` failures that no session knows, and yield all looked at.

    `since` is in epoch seconds. Raises StoreError and what `begin` raises.
    """
    begun = 0
    for found in islice(deps.gitlab.pipelines.find_failed_pipelines(since), MOST_LOOKED_AT):
        if isinstance(found, str):
            yield Swept("GitLab", found, is_gap=True)
            continue
        what = f"pipeline {found.pipeline_id} of project {found.mr_project_id}!{found.mr_iid}"
        reason = _explain_skipped(found, deps)
        if not reason:
            begin(found)
            begun += 1
        yield Swept(what, reason)
        if begun >= most:
            return


def list_parked(journal: Journal, most: int | None = None) -> Iterator[str]:
    """Yield a line for each parked trigger among the first `most` of the journal, and for each
    whose damaged record was set aside.

    Raises StoreError.
    """
    for stored in journal.find_parked(most):
        entry = stored.entry
        at = datetime.fromtimestamp(entry.accepted_at, UTC).strftime("%Y-%m-%d %H:%M")
        match entry.trigger:
            case Replied() | Reacted() as trigger:
                about = f"note {trigger.note_id} on {trigger.project_id}!{trigger.mr_iid}"
            case trigger:
                about = f"pipeline {trigger.pipeline_id} of project {trigger.project_id}"
        yield f"{trigger_id(entry.trigger)}  {at}Z  {about}: {entry.reason}"
    for kept in islice(journal.list_set_aside(), most):
        yield f"{kept}: set aside, as it could not be read; --retry with this name puts it back"


def _explain_skipped(found: PipelineFailed, deps: Deps) -> str:
    """Return why a pipeline is not begun, or ""."""
    place = Subject(
        gitlab_url=deps.gitlab.url,
        project_id=found.mr_project_id,
        project="",
        mr_iid=found.mr_iid,
        pipeline_project_id=found.project_id,
        pipeline_id=found.pipeline_id,
        sha=found.sha,
        web_url="",
    )
    workflow = deps.runtime.playbook.for_trigger("pipeline_failed")
    key = make_key(place, workflow, deps)
    failure = FailedPipeline(place, found.finished_at)
    if reason := _explain_known(key, failure, deps):
        return reason
    if deps.queue.leases.find_holder(key, 0):
        return "it is being looked at"
    if deps.queue.journal.has_pipeline(found):
        return "its trigger is in the journal"
    try:
        subject = deps.gitlab.pipelines.find_failed_subject(found)
        if isinstance(subject, str):
            return subject
        looked = find_looked_at(subject, workflow, deps)
        return _explain_known(looked, replace(failure, subject=subject), deps) if looked else ""
    except SandpiperError as error:
        return str(error)


def _explain_known(key: SessionKey, failure: FailedPipeline, deps: Deps) -> str:
    """Return why a session knows a failure; "" if there is no session, or it may not."""
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is None:
        return ""
    stored = read_turn(deps.storage.sessions, key, latest)
    is_own = stored is None or stored.subject.pipeline_id == failure.subject.pipeline_id
    if stored is None or (is_own and not failure.ended_at):
        return "it has its session"
    return explain_nothing_new(stored, failure)


# ------------------------------------------------------------- notes that nobody writes any more


def heal_notes(deps: Deps, since: float, *, act: bool = True) -> Iterator[str]:
    """Heal the notes of the merge requests with turns begun after `since` (epoch seconds), and
    yield a line for each note; without `act` only yield. Raises StoreError."""
    found: dict[tuple[int, int], None] = {}
    for name in deps.storage.sessions.records.list_names(layout.RECENT):
        row = layout.parse_row(name)
        if (row and row.began_at < since) or len(found) >= MOST:
            break  # the newest come first
        if row and not row.branch:  # a branch has no notes
            found[row.project_id, row.mr_iid] = None
    for project, iid in found:
        place = f"!{iid} of project {project}"
        try:
            for line in _heal_merge_request(project, iid, deps, act):
                yield f"{place}: {line}"
        except ForgeError as error:
            yield f"{place}: its notes are left as they are: {error}"


def _heal_merge_request(project: int, iid: int, deps: Deps, act: bool) -> Iterator[str]:
    subject = Subject(deps.gitlab.url, project, "", iid, 0, 0, "", deps.gitlab.url)
    by_marker: dict[Marker, list[OwnNote]] = {}
    for own in deps.gitlab.notes.list_own_notes(subject):
        by_marker.setdefault(own.marker, []).append(own)
    for marker, notes in by_marker.items():
        is_whole = len(notes) == 1 and not is_placeholder(notes[0].body)
        if is_whole or _is_at_work(marker, project, iid, deps):
            continue
        context = _read_turn(marker, project, iid, deps)
        kept = _choose(notes, context)
        if len(notes) > 1:
            if act:
                deps.gitlab.notes.remove_copies(subject, marker, kept.ref, older=True)
            yield f"note {kept.ref.note_id} was there {len(notes)} times"
        if is_placeholder(kept.body):
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
        key=lambda each: (is_placeholder(each.body), each.ref.note_id != own, each.ref.note_id),
    )


def _write_end(
    marker: Marker, subject: Subject, context: Context | None, deps: Deps
) -> tuple[str, str]:
    """Return the body that a promise is replaced by, and what that is in a few words."""
    if context and (body := context.note_text or context.unposted_note):
        return body, "the finding of its session is there now"
    reason = context.outcome.reason if context and context.outcome else ""
    if not reason:
        journal = deps.queue.journal
        names = journal.list_names(subject.project_id, subject.mr_iid)
        found = (stored.entry for name in names if (stored := journal.read_entry(name)))
        parked = next((each for each in found if each.state is State.PARKED), None)
        reason = (parked.reason if parked else "") or CUT_OFF
    said = deps.runtime.redact(reason)
    return write_end(marker, subject, said), f"it says why there is none: {said}"
