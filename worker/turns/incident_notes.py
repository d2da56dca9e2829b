"""What merge requests' notes say of incidents of their target branch.

A merge request's failure is stored first, and the branch is read after that; the branch's job
stores the branch first, and lists the merge requests after that: so one of both sees the other. The
notes are the difference between what holds and what was told: doing it twice changes nothing.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note import older_note
from worker.answer.note.note import is_placeholder
from worker.conversation.context import OF_OTHERS, Context, SessionKey, Subject
from worker.conversation.context_json import HistoryError, load_context_of
from worker.errors import ForgeError, SourceError, StoreError
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.incidents.explain import count_others, explain_request
from worker.incidents.judge import judge_branch
from worker.incidents.record import (
    BranchRecord,
    Incident,
    IncidentState,
    PipelineKind,
    RequestRecord,
)
from worker.incidents.sentences import Scene, replace_block, says_the_same, write_block
from worker.safety.markdown import Marker
from worker.turns import train_notes
from worker.turns.incident_actions import confirm_menders
from worker.turns.parts import Deps
from worker.verdict.jobs import Survey

log = logging.getLogger("sandpiper.incidents")

_TOLD = (IncidentState.OPEN, IncidentState.CLOSED)
_MOST_RUN_AGAIN = 100
_NOTHING: frozenset[tuple[str, str]] = frozenset()


# ------------------------------------------------------------------- before the model is asked


@dataclass(slots=True)
class BranchExplainer:
    """Explains the failure of `context` by incidents of its target branch, for a survey.

    If it `settles`, what they explain is not looked into; else somebody wants it looked into, and
    it is only stored and told. It raises nothing: without an explanation the analysis goes on.
    """

    context: Context
    deps: Deps
    settles: bool
    begin_rest: Callable[[], None] = lambda: None
    """Is called once it is known that not all is explained."""
    branch: str = ""
    incidents: tuple[str, ...] = ()
    lines: str = ""
    is_all: bool = False
    is_train: bool = False

    def explain(
        self, branch: str, read_request: Callable[[GitLabReader, bool], RequestRecord]
    ) -> frozenset[tuple[str, str]]:
        """See `Explain`. Nothing needs no other explanation if it does not settle anything."""
        try:
            explained = self._explain(branch, read_request)
            if not (self.is_all and self.settles):
                self.begin_rest()
            return explained if self.settles else _NOTHING
        except (ForgeError, SourceError, StoreError) as error:
            session = self.context.session_id
            log.warning(
                "session %s: whether its branch explains it is not known: %s", session, error
            )
            return _NOTHING

    def _explain(
        self, branch: str, read_request: Callable[[GitLabReader, bool], RequestRecord]
    ) -> frozenset[tuple[str, str]]:
        deps, subject = self.deps, self.context.subject
        store, gitlab = deps.storage.incidents, deps.gitlab.pipelines
        globs = deps.options.incident_settings.branches
        if subject.branch or not globs or not gitlab.is_watched(subject.project_id, branch, globs):
            return _NOTHING
        self.branch = branch
        runs_again = deps.options.incident_settings.rerun > 0
        request = replace(read_request(gitlab, runs_again), session_id=self.context.session_id)
        gitlab.forget_answers()
        store.change_request(
            subject.project_id, branch, subject.mr_iid, partial(_put_request, request)
        )
        record = store.read_branch(subject.project_id, branch)
        self.is_train = is_train = request.kind is PipelineKind.MERGE_TRAIN
        if record is None and is_train:
            record = BranchRecord(subject.project_id, subject.project, branch)
        if record is None:
            return _NOTHING
        told = (each.state in _TOLD for each in explain_request(record, request).incidents)
        if not is_train and not any(told):
            return _NOTHING
        # What the branch's own event has not told yet counts, too; its job stores it.
        record = confirm_menders(_judge_now(record, request, deps), deps)
        explanation = explain_request(record, request)
        named = tuple(each for each in explanation.incidents if each.state in _TOLD)
        if is_train and explanation.own:
            request = train_notes.find_train(record, request, deps)
        if not named and not request.train:
            return _NOTHING
        brought = train_notes.list_brought(request)
        explained = brought.union(explanation.explained_errors if named else ())
        self.incidents = tuple(each.incident_id for each in named)
        self.is_all = bool(explained) and brought.issuperset(explanation.own)
        whole = explanation.is_all or self.is_all
        self.lines = _write_lines(record, request, named, deps, whole=whole)
        return explained

    def add_to(self, survey: Survey) -> Survey:
        """Return the survey with what was found."""
        return replace(
            survey,
            branch=self.branch,
            incidents=self.incidents,
            branch_lines=self.lines,
            is_train=self.is_train,
        )


def _judge_now(record: BranchRecord, request: RequestRecord, deps: Deps) -> BranchRecord:
    """Return the branch as GitLab shows it now, judged by the merge requests' runs, this one among
    them.

    If nothing has happened on the branch, all that the others show is in the record already: they
    are not read, as there may be hundreds.
    """
    now, is_train = deps.runtime.clock.now(), request.kind is PipelineKind.MERGE_TRAIN
    observed = deps.gitlab.pipelines.read_branch(record, only_news=not is_train)
    if observed.pipelines != record.pipelines:
        store = deps.storage.incidents
        return judge_branch(observed, store.list_requests(record.project_id, record.branch), now)
    judged = judge_branch(observed, [request], now)
    for known in record.open_incidents:
        for each in judged.open_incidents:
            if each.incident_id == known.incident_id:
                menders = tuple(sorted({*known.menders, *each.menders}))
                hits = tuple(sorted({*known.hits, *each.hits}))
                judged = judged.put(replace(each, menders=menders, hits=hits))
    return judged


def may_be_explained(project_id: int, deps: Deps) -> bool:
    """Whether a branch of the project has an incident of which people are told. Raises
    StoreError."""
    records = deps.storage.incidents.list_branches(project_id)
    return any(each.state in _TOLD for record in records for each in record.incidents)


def may_tell(project_id: int, deps: Deps) -> bool:
    """Whether a pass may change what notes say: `may_be_explained`, or somebody waits for a run in
    front of a merge train. Raises StoreError."""
    records = deps.storage.incidents.list_branches(project_id)
    return any(
        record.waiting_cars or any(each.state in _TOLD for each in record.incidents)
        for record in records
    )


def _put_request(new: RequestRecord, stored: RequestRecord | None) -> RequestRecord:
    """Return what is kept of a merge request: its newest pipeline, with what its note was told."""
    if stored is None:
        return new
    if stored.pipeline_id > new.pipeline_id:
        return stored
    again = tuple(dict.fromkeys((*stored.run_again, *new.run_again)))[-_MOST_RUN_AGAIN:]
    new = replace(new, run_again=again, ran_for=stored.ran_for[-_MOST_RUN_AGAIN:])
    if stored.session_id != new.session_id:
        return new
    new = replace(
        new, told_incidents=stored.told_incidents, told_text=stored.told_text, train=stored.train
    )
    return replace(new, is_short=stored.is_short)


# --------------------------------------------------------------------------------- after the note


def record_told(context: Context, deps: Deps) -> None:
    """Store what the note of `context`, just posted, says of incidents. Raises nothing: what was
    not stored is compared with the note itself the next time."""
    survey, subject = context.survey, context.subject
    if survey is None or not survey.branch_lines or not context.is_look or context.dry_run:
        return
    try:
        _record(
            survey.branch,
            subject.project_id,
            subject.mr_iid,
            context.session_id,
            deps,
            told=survey.incidents,
            told_text=survey.branch_lines,
            is_short=context.found_by in OF_OTHERS,
        )
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


def tell_request(record: BranchRecord, request: RequestRecord, deps: Deps) -> None:
    """Make the merge request's note say what holds now of its branch's incidents, if it says
    something else.

    Doing it twice changes nothing. A note that was deleted, or is of an older pipeline, stays as it
    is; one that is still to be written is left to whoever writes it. Raises ForgeError, SourceError
    and StoreError.
    """
    if request.is_over or not request.session_id:
        return
    named = find_named(record, request)
    whole = request.is_short
    lines = _write_lines(record, request, named, deps, whole=whole)
    if says_the_same(lines, request.told_text):
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
        lines = _write_lines(record, request, named, deps, whole=whole)
        if says_the_same(lines, request.told_text):
            return
    if context.began_dry or not _edit_block(context.subject, key, lines, deps):
        return
    _record(
        record.branch,
        record.project_id,
        request.mr_iid,
        request.session_id,
        deps,
        told=tuple(each.incident_id for each in named) or request.told_incidents * bool(lines),
        told_text=lines,
        is_short=request.is_short,
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


def find_named(record: BranchRecord, request: RequestRecord) -> tuple[Incident, ...]:
    """Return the incidents that the merge request's note is to name: those that explain something
    of its failure, and those that it was told of, unless they were withdrawn."""
    explaining = {each.incident_id for each in explain_request(record, request).incidents}
    return tuple(
        each
        for each in record.incidents
        if each.state in _TOLD and each.incident_id in explaining.union(request.told_incidents)
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
    project_id: int,
    mr_iid: int,
    session_id: str,
    deps: Deps,
    *,
    told: tuple[str, ...],
    told_text: str,
    is_short: bool,
) -> None:
    def change(stored: RequestRecord | None) -> RequestRecord | None:
        if stored is None or stored.session_id != session_id:
            return stored
        return replace(stored, told_incidents=told, told_text=told_text, is_short=is_short)

    deps.storage.incidents.change_request(project_id, branch, mr_iid, change)


def _write_lines(
    record: BranchRecord,
    request: RequestRecord,
    named: Sequence[Incident],
    deps: Deps,
    *,
    whole: bool,
) -> str:
    address = f"{deps.gitlab.url.rstrip('/')}/{record.project}"
    place = urlsplit(address)
    hosts = deps.gitlab.hosts | {place.netloc + place.path}
    others = count_others(record, request, named)
    scene = Scene(named, others, deps.runtime.clock.now(), hosts, whole)
    of_train = train_notes.write_train_lines(record, request, address)
    if of_train and not named:
        return "\n\n".join(of_train)
    return "\n\n".join(filter(None, (*of_train[:1], write_block(record, request, scene))))


# ------------------------------------------------------------------------------- a pass


def note_passed_request(subject: Subject, deps: Deps) -> None:
    """Store that the merge request's newest pipeline, the `subject`'s, has passed: no incident hits
    it any more, and it may be what mends the branch. Raises SourceError and StoreError."""
    gitlab, globs = deps.gitlab.pipelines, deps.options.incident_settings.branches
    branch = gitlab.find_target_branch(subject) if globs else ""
    if not branch or not gitlab.is_watched(subject.project_id, branch, globs):
        return
    change = partial(_put_request, gitlab.read_request(subject))
    deps.storage.incidents.change_request(subject.project_id, branch, subject.mr_iid, change)
