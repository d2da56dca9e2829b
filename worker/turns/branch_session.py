"""The paid analysis of a red branch: a session without a merge request, and so without a note.

It is claimed, taken, checkpointed and committed like any first turn. What it has found is read from
the store afterwards, also by whoever did not take it: it goes into the branch's incident.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from worker.answer import suggestions
from worker.answer.finish import find_kept_back
from worker.answer.parse import parse_finding
from worker.conversation.branch_text import tell_branch
from worker.conversation.context import Context, NoteRef, SessionKey, Subject
from worker.conversation.events import Event, NotePlaced, Stage, Watcher
from worker.conversation.messages import User
from worker.gitlab.ports import OwnNote
from worker.incidents.record import BranchFailure, BranchRecord, Incident
from worker.queue.leases import Lease
from worker.safety.markdown import Marker
from worker.safety.untrusted import one_line
from worker.turns import contexts, session, stored_turns, tiers
from worker.turns.parts import Attempt, Deps, Ended, Skipped, Terms, Turn
from worker.turns.turn import explain_unaffordable, take_turn
from worker.verdict.diffs import Position
from worker.verdict.verdict import CLAIMS, Verdict

MOST_CAUSE, MOST_TO_DO = 600, 400
"""The most characters that are given of a cause, and of what to do."""


@dataclass(frozen=True, slots=True)
class BranchFinding:
    """What a model has found out about a red branch; the texts are redacted lines, not Markdown.

    `cause` and `to_do` are empty if the verdict claims nothing. `is_internal` says that more people
    can read the project's merge requests than may open its job logs: what the finding says is for
    internal notes alone.
    """

    session_id: str
    verdict: Verdict
    cause: str = ""
    to_do: str = ""
    is_internal: bool = False
    seconds: float = 0.0
    """How long that took."""


def analyse_branch(
    record: BranchRecord,
    incident: Incident,
    deps: Deps,
    run: Attempt,
    *,
    failure: BranchFailure | None = None,
    superseded: Callable[[], str] = lambda: "",
) -> Ended:
    """Look into the first red pipeline of an incident, once; nothing is posted.

    `failure` is the one to look into, by default the incident's first. `superseded` is called now
    and then during the run; if it returns a reason, the run ends. Returns why it is not looked into
    (again): `read_branch_finding` returns what was found. A day's budget that is used up is no end:
    the next call looks again. Raises Busy, SourceError, StoreError and what a turn raises.
    """
    failure = failure or incident.first
    key = find_branch_key(record, incident, deps, failure)
    if deps.storage.sessions.find_latest_turn(key) is not None:
        return Skipped(f"session {key.session_id} has looked into it", is_certain=True)
    subject = deps.gitlab.pipelines.find_branch_subject(
        record.project_id, record.branch, failure.since_pipeline, failure.green_sha
    )
    if isinstance(subject, str):
        return Skipped(subject)
    deps, run = _leave_unposted(deps), replace(run, watch=_hide_notes(run.watch))
    workflow = deps.runtime.playbook.for_trigger("pipeline_failed")
    with session.claim_turn(key, 0, key.session_id, deps) as lease:
        if isinstance(lease, Skipped):
            return lease
        unfinished = contexts.read_unfinished_analysis(key, subject, deps)
        tier, terms = tiers.choose_tier(subject, workflow.name, deps, run, unfinished=unfinished)
        context = unfinished
        if context is None:
            begun = contexts.make_first_context(key.session_id, subject, terms, deps, tier)
            told = deps.runtime.redact(tell_branch(record, incident, failure))
            context = _add_to_first_message(begun, told)
        return _take(key, context, terms, lease, deps, run, superseded, unfinished is not None)


def _take(
    key: SessionKey,
    context: Context,
    terms: Terms,
    lease: Lease,
    deps: Deps,
    run: Attempt,
    superseded: Callable[[], str],
    is_continued: bool,
) -> Ended:
    # It is private: nothing goes on a diff, and the memory answers merge requests alone.
    turn = Turn(key, context, terms, (), lease, is_continued, is_private=True)
    if not is_continued and (reason := explain_unaffordable(turn, deps)):
        return Skipped(reason)
    run = session.make_stoppable(run, key, 0, deps, superseded)
    session.list_turn(key, context, deps)
    stored_turns.keep_prompt(context, deps)
    return session.commit_turn(turn, take_turn(turn, deps, run), deps, run)


def _add_to_first_message(context: Context, text: str) -> Context:
    first = context.messages[0]
    assert isinstance(first, User)
    return replace(context, messages=(User(f"{first.text}\n\n{text}"), *context.messages[1:]))


def find_branch_key(
    record: BranchRecord, incident: Incident, deps: Deps, failure: BranchFailure | None = None
) -> SessionKey:
    """Return the key of the session that looks, or has looked, into a failure of a branch, by
    default the one with which an incident began. Raises StoreError."""
    since = (failure or incident.first).since_pipeline
    subject = Subject(
        gitlab_url=deps.gitlab.url,
        project_id=record.project_id,
        project=record.project,
        mr_iid=0,
        pipeline_project_id=record.project_id,
        pipeline_id=since,
        sha="",
        web_url="",
        branch=record.branch,
    )
    workflow = deps.runtime.playbook.for_trigger("pipeline_failed")
    return stored_turns.make_key(subject, workflow, deps)


def read_branch_finding(key: SessionKey, deps: Deps) -> BranchFinding | None:
    """Return what a branch's session has found, None if it has not ended, or without a finding.

    Raises SourceError, and StoreError if the store is away.
    """
    latest = deps.storage.sessions.find_latest_turn(key)
    stored = None if latest is None else stored_turns.find_verdict(key, latest, deps)
    if stored is None or stored.outcome is None:
        return None
    found, verdict = parse_finding(stored.outcome.text), Verdict(stored.verdict)
    is_internal = deps.gitlab.permissions.needs_internal_note(stored.subject)
    if verdict not in CLAIMS:
        return BranchFinding(
            key.session_id, verdict, is_internal=is_internal, seconds=stored.seconds
        )
    hosts = tiers.make_terms(stored.subject, deps.runtime.playbook.get(stored.workflow), deps).hosts
    cause, to_do = (
        _make_line(text, most, hosts, deps)
        for text, most in (
            (found.cause, MOST_CAUSE),
            (suggestions.read_suggestions(found.to_do)[0], MOST_TO_DO),
        )
    )
    return BranchFinding(key.session_id, verdict, cause, to_do, is_internal, stored.seconds)


def _make_line(text: str, most: int, hosts: frozenset[str], deps: Deps) -> str:
    """Return a text of the model as one redacted line; "" if a part of it could not be posted."""
    redacted = deps.runtime.redact(text)
    kept_back = find_kept_back(hosts, deps.runtime.redact, redacted)
    return "" if kept_back else deps.runtime.redact(one_line(redacted, most))


# ------------------------------------------------------------------------------ without a note


def _leave_unposted(deps: Deps) -> Deps:
    """Return parts with which a turn posts nothing."""
    note = deps.options.note.model_copy(update={"progress": 0.0})
    return replace(
        deps,
        gitlab=replace(deps.gitlab, notes=_NoNotes()),
        options=replace(deps.options, note=note),
    )


def _hide_notes(watch: Watcher) -> Watcher:
    """Return a watcher that is not told of notes: there is none to count, or to write an end in."""

    def watch_rest(event: Event) -> None:
        is_of_note = isinstance(event, Stage) and event.milestone
        if not (is_of_note or isinstance(event, NotePlaced)):
            watch(event)

    return watch_rest


class _NoNotes:
    """See NoteWriter. Every note seems to be there, and none is."""

    def find_note(self, subject: Subject, marker: Marker, discussion_id: str) -> NoteRef | None:
        """Return the note that is nowhere."""
        return NoteRef(0)

    def list_own_notes(self, subject: Subject) -> Iterator[OwnNote]:
        """Yield nothing."""
        return iter(())

    def post_note(
        self,
        subject: Subject,
        body: str,
        discussion_id: str,
        *,
        thread: bool = False,
        at: Position | None = None,
        internal: bool = False,
    ) -> NoteRef:
        """Return the note that is nowhere."""
        return NoteRef(0)

    def remove_copies(
        self, subject: Subject, marker: Marker, kept: NoteRef, *, older: bool = False
    ) -> int:
        """Return 0."""
        return 0

    def edit_note(
        self, subject: Subject, note: NoteRef, body: str, *, hurried: bool = False
    ) -> None:
        """Do nothing."""

    def resolve_thread(self, subject: Subject, note: NoteRef) -> None:
        """Do nothing."""
