"""Explains a merge request's failure by what its target branch fails of, before a model is asked.

A merge request's failure is stored first, and the branch is read after that; the branch's job
stores the branch first, and lists the merge requests after that: so one of both sees the other.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from worker.conversation.context import Context, Subject
from worker.errors import ForgeError, SourceError, StoreError
from worker.gitlab.read.gitlab_reader import GitLabReader
from worker.incidents.explain import explain_request
from worker.incidents.judge import judge_branch
from worker.incidents.record import BranchRecord, PipelineKind, RequestRecord
from worker.turns import train_notes
from worker.turns.incident_actions import confirm_menders
from worker.turns.incident_notes import TOLD, write_lines
from worker.turns.parts import Deps
from worker.verdict.jobs import Survey

log = logging.getLogger("sandpiper.incidents")

_MOST_RUN_AGAIN = 100
_NOTHING: frozenset[tuple[str, str]] = frozenset()


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
        self.is_train = is_train = request.kind is PipelineKind.MERGE_TRAIN
        empty = BranchRecord(subject.project_id, subject.project, branch)
        known = store.read_branch(subject.project_id, branch)
        record = confirm_menders(_judge_now(known or empty, request, deps), deps)
        explanation = explain_request(record, request)
        named = tuple(each for each in explanation.incidents if each.state in TOLD)
        if is_train and explanation.own:
            request = train_notes.find_train(record, request, deps)
        if not named and not request.train:
            return _NOTHING
        brought = train_notes.list_brought(request)
        explained = brought.union(explanation.explained_errors if named else ())
        self.incidents = tuple(each.incident_id for each in named)
        self.is_all = bool(explained) and brought.issuperset(explanation.own)
        whole = explanation.is_all or self.is_all
        self.lines = write_lines(record, request, named, deps, whole=whole)
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
    them: what the branch's own event has not told yet counts, too.

    If nothing has happened on the branch, all that the others show is in the record already: they
    are not read, as there may be hundreds. If nothing that is known explains the failure, GitLab is
    asked only whether the branch has failed since.
    """
    now, is_train = deps.runtime.clock.now(), request.kind is PipelineKind.MERGE_TRAIN
    gitlab, store = deps.gitlab.pipelines, deps.storage.incidents
    told = any(each.state in TOLD for each in explain_request(record, request).incidents)
    if told or is_train:
        observed = gitlab.read_branch(record, only_news=not is_train)
    else:
        observed = gitlab.read_new_failures(record)
    if observed.pipelines != record.pipelines:
        # Kept without the judgement: nobody reads it again, and a job, of the branch or of a merge
        # request, judges it and does what follows.
        kept = store.change_branch(
            record.project_id,
            record.branch,
            lambda stored: observed.join(stored) if stored else observed,
        )
        requests = store.list_requests(record.project_id, record.branch)
        return judge_branch(kept or observed, requests, now)
    judged = judge_branch(observed, [request], now)
    for known in record.open_incidents:
        for each in judged.open_incidents:
            if each.incident_id == known.incident_id:
                menders = tuple(sorted({*known.menders, *each.menders}))
                healers = tuple(sorted({*known.healers, *each.healers}))
                hits = tuple(sorted({*known.hits, *each.hits}))
                each = replace(each, menders=menders, healers=healers, hits=hits)
                judged = judged.put(each)
    return judged


def may_be_explained(project_id: int, deps: Deps) -> bool:
    """Whether a branch of the project has an incident of which people are told. Raises
    StoreError."""
    records = deps.storage.incidents.list_branches(project_id)
    return any(each.state in TOLD for record in records for each in record.incidents)


def may_tell(project_id: int, deps: Deps) -> bool:
    """Whether a pass may change what notes say: `may_be_explained`, or somebody waits for a run in
    front of a merge train. Raises StoreError."""
    records = deps.storage.incidents.list_branches(project_id)
    return any(
        record.waiting_cars or any(each.state in TOLD for each in record.incidents)
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


def note_passed_request(subject: Subject, deps: Deps) -> None:
    """Store that the merge request's newest pipeline, the `subject`'s, has passed: no incident hits
    it any more, and it may be what mends the branch. Raises SourceError and StoreError."""
    gitlab, globs = deps.gitlab.pipelines, deps.options.incident_settings.branches
    branch = gitlab.find_target_branch(subject) if globs else ""
    if not branch or not gitlab.is_watched(subject.project_id, branch, globs):
        return
    change = partial(_put_request, gitlab.read_request(subject))
    deps.storage.incidents.change_request(subject.project_id, branch, subject.mr_iid, change)
