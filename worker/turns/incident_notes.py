"""What merge requests' notes say of incidents of their target branch.

They are the difference between what holds and what was told: doing it twice changes nothing.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note import older_note
from worker.answer.note.note import is_placeholder
from worker.conversation.context import OF_OTHERS, Context, SessionKey, Subject
from worker.conversation.context_json import HistoryError, load_context_of
from worker.conversation.triggers import PipelineFailed, Trigger
from worker.errors import ForgeError, SourceError, StoreError
from worker.incidents.explain import count_others, explain_request
from worker.incidents.record import BranchRecord, Incident, IncidentState, RequestRecord
from worker.incidents.sentences import Scene, replace_block, says_the_same, write_block
from worker.safety.markdown import Marker
from worker.turns import train_notes
from worker.turns.incident_actions import confirm_menders
from worker.turns.parts import Deps

log = logging.getLogger("sandpiper.incidents")

TOLD = (IncidentState.OPEN, IncidentState.CLOSED)
"""The states of the incidents of which people are told."""

_AWAITED = 24 * 3600.0
"""Seconds after a pipeline's end in which it is looked into by itself what the branch explained."""


def record_told(context: Context, deps: Deps) -> None:
    """Store what the note of `context`, just posted, says of incidents: what its look has found, or
    what was told before beside the finding of a later answer. Raises nothing: what was not stored
    is compared with the note itself the next time."""
    survey, subject = context.survey, context.subject
    if survey is None or not survey.branch or context.dry_run:
        return
    if not (survey.branch_lines or context.turn):
        return  # nothing was told before, either
    is_short = context.found_by in OF_OTHERS
    told = (survey.incidents, survey.branch_lines) if context.is_look else None
    try:
        _record(survey.branch, subject.make_key(context.session_id), deps, told, is_short)
    except StoreError as error:
        said = "session %s: what its note says of the branch is not kept: %s"
        log.warning(said, context.session_id, error)


def tell_again(context: Context, deps: Deps) -> None:
    """Make the note of a look just committed say what holds now: the branch may have changed while
    it was written. Raises nothing."""
    survey, subject = context.survey, context.subject
    if survey is None or not survey.branch or not context.is_look or context.dry_run:
        return
    store = deps.storage.incidents
    try:
        record = store.read_branch(subject.project_id, survey.branch)
        request = store.read_request(subject.project_id, survey.branch, subject.mr_iid)
        if record and request and request.session_id == context.session_id:
            if not {each.incident_id for each in record.incidents}.issuperset(survey.incidents):
                return  # it is newer than the judgement; the job that judges the branch tells it
            if request.mr_iid in record.waiting_cars:  # a run in front may have ended meanwhile
                fresh = deps.gitlab.pipelines.read_branch(record)
                request = train_notes.find_train(fresh, request, deps)
            if context.found_by not in OF_OTHERS:  # a model has taken its time
                record = confirm_menders(record, deps)
            tell_request(record, request, deps)
            if request.train:
                train_notes.stop_waiting(record, request.mr_iid, deps)
    except (ForgeError, SourceError, StoreError) as error:
        log.warning(
            "session %s: what its note says of the branch stays: %s", context.session_id, error
        )


def stands_alone(record: BranchRecord, request: RequestRecord, now: float) -> bool:
    """Whether a note says nothing but why the branch explains a failure, which it does not do any
    more. After a day, nobody waits for more."""
    if not request.is_short or now - request.ended_at > _AWAITED:
        return False
    return not train_notes.list_brought(request).issuperset(explain_request(record, request).own)


def is_left_alone(context: Context, deps: Deps) -> bool:
    """Whether `stands_alone` holds for the note of a session that has `context`. Raises
    StoreError."""
    survey, subject, store = context.survey, context.subject, deps.storage.incidents
    if survey is None or context.found_by not in OF_OTHERS:
        return False
    record = store.read_branch(subject.project_id, survey.branch)
    request = store.read_request(subject.project_id, survey.branch, subject.mr_iid)
    return (
        record is not None
        and request is not None
        and request.session_id == context.session_id
        and stands_alone(record, request, deps.runtime.clock.now())
    )


def tell_request(
    record: BranchRecord,
    request: RequestRecord,
    deps: Deps,
    begin: Callable[[Trigger], None] | None = None,
) -> None:
    """Make the merge request's note say what holds now of its branch's incidents, if it says
    something else.

    Doing it twice changes nothing. A note that was deleted, or is of an older pipeline, stays as it
    is; one that is still to be written is left to whoever writes it. If what it says `stands_alone`
    by now, `begin` is called with what has the failure looked into, once; without `begin`, it is
    left to whoever has it. Raises ForgeError, SourceError and StoreError.
    """
    if request.is_over or not request.session_id:
        return
    is_alone = stands_alone(record, request, deps.runtime.clock.now())
    if is_alone and begin is None:
        return
    named = find_named(record, request, is_alone=is_alone)
    whole = request.is_short and not (is_alone and named)
    lines = write_lines(record, request, named, deps, whole=whole, is_alone=is_alone)
    if says_the_same(lines, request.told_text) or (request.is_short and not lines):
        return
    key = SessionKey(record.project_id, request.mr_iid, request.session_id)
    latest = deps.storage.sessions.find_latest_turn(key)
    if latest is None:
        return
    try:
        context = load_context_of(key, deps.storage.sessions.read_context(key, latest))
    except HistoryError as error:
        log.warning("session %s: its note stays: %s", key.session_id, error)
        return
    if any(each.cause for each in named) and not _may_tell_finding(context, deps):
        named = tuple(replace(each, cause="") for each in named)
        lines = write_lines(record, request, named, deps, whole=whole)
        if says_the_same(lines, request.told_text):
            return
    if context.began_dry or not _edit_block(context.subject, key, lines, deps):
        return
    if is_alone and begin and context.found_by in OF_OTHERS:
        begin(_make_trigger(context))
    ids = tuple(each.incident_id for each in named) or request.told_incidents * bool(lines)
    _record(record.branch, key, deps, (ids, lines), request.is_short)


def _make_trigger(context: Context) -> PipelineFailed:
    """Make what has the failure of a session looked at again."""
    subject = context.subject
    return PipelineFailed(
        project_id=subject.pipeline_project_id,
        pipeline_id=subject.pipeline_id,
        sha=subject.sha,
        ref="",
        mr_iid=subject.mr_iid,
        mr_project_id=subject.project_id,
    )


def _may_tell_finding(context: Context, deps: Deps) -> bool:
    """Whether what was found on the branch, by its logs, may stand in the session's note: a note
    that was posted in public stays public where the logs have become the members' alone."""
    is_internal = context.note is not None and context.note.internal
    return is_internal or not deps.gitlab.permissions.needs_internal_note(context.subject)


def tell_trains(record: BranchRecord, deps: Deps, behind: int = 0) -> None:
    """Tell the cars that wait who broke their train, as far as that is known by now: those `behind`
    a merge request alone, if one is given. Raises ForgeError, SourceError and StoreError."""
    for request in train_notes.look_at_waiting(record, deps, behind):
        tell_request(record, request, deps)


def tell_cars_behind(project_id: int, mr_iid: int, deps: Deps) -> None:
    """Tell the cars behind a merge request, whose pipeline has ended, what that shows of theirs.
    Raises what may be tried again of `tell_trains`."""
    for record in list(deps.storage.incidents.list_branches(project_id)):
        try:
            if record.waiting_cars:
                tell_trains(confirm_menders(record, deps), deps, behind=mr_iid)
        except (ForgeError, SourceError) as error:
            if error.transient:
                raise
            log.warning("the cars behind !%d are not told: %s", mr_iid, error)


def find_named(
    record: BranchRecord, request: RequestRecord, *, is_alone: bool = False
) -> tuple[Incident, ...]:
    """Return the incidents that the merge request's note is to name: those that explain something
    of its failure, and unless it stands alone those that it was told of and were not withdrawn."""
    wanted = {each.incident_id for each in explain_request(record, request).incidents}
    wanted |= set(() if is_alone else request.told_incidents)
    return tuple(
        each for each in record.incidents if each.state in TOLD and each.incident_id in wanted
    )


def _edit_block(subject: Subject, key: SessionKey, lines: str, deps: Deps) -> bool:
    """Put the lines into the session's note; False if it is still to be written. Raises ForgeError
    and SourceError."""
    marker = Marker(key.session_id, 0)
    own = (each for each in deps.gitlab.notes.list_own_notes(subject) if each.marker == marker)
    note = next(own, None)
    if note is None:
        log.info("session %s: its note is gone, so nothing is said there", key.session_id)
        return True
    if is_placeholder(note.body):
        return False
    body = replace_block(note.body, lines)
    if body == note.body or older_note.is_marked(note.body):
        return True
    finished = finish_body(body, add_subject_hosts(subject, deps.gitlab.hosts), deps.runtime.redact)
    if finished.kept_back:
        log.warning("session %s: note left as it is", key.session_id)
        return True
    if reason := deps.gitlab.pipelines.explain_over(subject):
        log.info("session %s: note left as it is: %s", key.session_id, reason)
        return True
    try:
        deps.gitlab.notes.edit_note(subject, note.ref, finished.body)
    except ForgeError as error:
        if error.status != 404:
            raise
        log.info("note %d was deleted meanwhile", note.ref.note_id)
    log.info("session %s: its note says how the branch is now", key.session_id)
    return True


def _record(
    branch: str,
    key: SessionKey,
    deps: Deps,
    told: tuple[tuple[str, ...], str] | None,
    is_short: bool,
) -> None:
    """Store which incidents a note names, with its lines on them, unless these stay as they are."""

    def change(stored: RequestRecord | None) -> RequestRecord | None:
        if stored is None or stored.session_id != key.session_id:
            return stored
        incidents, text = told or (stored.told_incidents, stored.told_text)
        return replace(stored, told_incidents=incidents, told_text=text, is_short=is_short)

    deps.storage.incidents.change_request(key.project_id, branch, key.mr_iid, change)


def write_lines(
    record: BranchRecord,
    request: RequestRecord,
    named: Sequence[Incident],
    deps: Deps,
    *,
    whole: bool,
    is_alone: bool = False,
) -> str:
    """Write what the merge request's note is to say of the incidents, and of its merge train;
    `whole` and `is_alone` as in `Scene`."""
    address = f"{deps.gitlab.url.rstrip('/')}/{record.project}"
    place = urlsplit(address)
    hosts = deps.gitlab.hosts | {place.netloc + place.path}
    others = count_others(record, request, named)
    scene = Scene(named, others, deps.runtime.clock.now(), hosts, whole, is_alone)
    of_train = train_notes.write_train_lines(record, request, address)
    if of_train and not named:
        return "\n\n".join(of_train)
    return "\n\n".join(filter(None, (*of_train[:1], write_block(record, request, scene))))
