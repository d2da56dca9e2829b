"""Runs failed jobs again where the record proves that they may pass as they are (`retry:`), says so
in the note, and keeps what came of it.

That a job runs again is written down *before* GitLab is asked for it: a worker that is killed in
between, or an answer that is lost, costs a retry, which a person can start with one click; the
other way round a job could run twice.
"""

import logging

from worker.answer.finish import add_subject_hosts, finish_body
from worker.answer.note.note import is_placeholder
from worker.answer.note.older_note import put_retries
from worker.conversation.context import Context, SessionKey, Subject
from worker.conversation.events import JobRetried, Watcher
from worker.errors import ForgeError, SandpiperError, SourceError, StoreError
from worker.safety.markdown import Marker
from worker.settings.runs import RetrySettings
from worker.turns.incident_actions import NOT_DONE
from worker.turns.parts import Deps
from worker.verdict.jobs import FailingJob
from worker.verdict.retries import RetriedJob, choose_retries
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.retries")

_DAY = 86_400.0


def list_allowed(settings: RetrySettings) -> frozenset[Verdict]:
    """Return the verdicts under which jobs are run again."""
    chosen = {Verdict.FLAKY: settings.flaky, Verdict.INFRASTRUCTURE: settings.infrastructure}
    return frozenset(verdict for verdict, times in chosen.items() if times)


def retry_jobs(context: Context, deps: Deps, watch: Watcher) -> None:
    """Run the failed jobs of a look again, whose note is posted and which is committed, where the
    record proves that they may pass, and say so in the note.

    Each job at most once for a commit, however often this is called. Raises nothing: the finding
    stands without it.
    """
    allowed = list_allowed(deps.options.retry_settings)
    subject, survey = context.subject, context.survey
    if not allowed or not context.is_look or context.dry_run or subject.branch or survey is None:
        return
    if context.has_failed or context.note is None or not context.note.note_id:
        return
    chosen = choose_retries(survey, context.verdict, allowed)
    if isinstance(chosen, str):
        log.info("session %s: nothing is run again: %s", context.session_id, chosen)
        return
    for job in chosen:
        try:
            _retry(job, context, deps, watch)
        except (ForgeError, SourceError, StoreError) as error:
            log.warning("session %s: job %d: %s", context.session_id, job.job_id, error)
    try:
        tell_retries(context, deps)
    except (ForgeError, StoreError) as error:
        log.warning("session %s: what runs again is not told: %s", context.session_id, error)


def _retry(job: FailingJob, context: Context, deps: Deps, watch: Watcher) -> None:
    """Raises ForgeError, SourceError and StoreError."""
    subject, store = context.subject, deps.storage.retries
    if reason := deps.gitlab.pipelines.explain_no_retry(subject, job.job_id):
        log.info("session %s: job %d is not run again: %s", context.session_id, job.job_id, reason)
        return
    now = deps.runtime.clock.now()
    wanted = RetriedJob(
        subject.sha,
        job.name,
        job.job_id,
        subject.mr_iid,
        context.session_id,
        context.verdict,
        claimed_at=now,
    )
    project, most = subject.project_id, deps.runtime.limits.retries_per_day
    if reason := store.claim(project, subject.project, wanted, now - now % _DAY, most):
        log.info("session %s: job %d is not run again: %s", context.session_id, job.job_id, reason)
        return
    try:
        answer = deps.gitlab.incident_writer.retry_job(project, job.job_id)
    except ForgeError as error:
        if error.status in NOT_DONE:
            store.change(project, lambda found: found.drop(job.job_id))
        raise
    if isinstance(answer, str):
        log.info("session %s: job %d is not run again: %s", context.session_id, job.job_id, answer)
        store.change(project, lambda found: found.drop(job.job_id))
        return
    store.change(project, lambda found: found.start(job.job_id, answer))
    log.info("session %s: job %d runs again as %d", context.session_id, job.job_id, answer)
    watch(JobRetried(context.verdict, ""))


def tell_retries(context: Context, deps: Deps) -> None:
    """Say in the session's note which jobs were run again. Doing it twice changes nothing. Raises
    ForgeError and StoreError."""
    subject = context.subject
    if not list_allowed(deps.options.retry_settings) or subject.branch or context.dry_run:
        return
    found = deps.storage.retries.read(subject.project_id)
    jobs = {
        each.job: each.new_job
        for each in (found.jobs if found else ())
        if each.session_id == context.session_id and each.sha == subject.sha and each.new_job
    }
    if not jobs:
        return
    marker = Marker(context.session_id, 0)
    own = (each for each in deps.gitlab.notes.list_own_notes(subject) if each.marker == marker)
    note = next(own, None)
    if note is None or is_placeholder(note.body):
        return
    body = put_retries(note.body, subject, jobs)
    finished = finish_body(body, add_subject_hosts(subject, deps.gitlab.hosts), deps.runtime.redact)
    if body != note.body and not finished.kept_back:
        deps.gitlab.notes.edit_note(subject, note.ref, finished.body)


def record_end(
    subject: Subject, key: SessionKey, deps: Deps, watch: Watcher, *, passed: bool
) -> None:
    """Store what came of the jobs that were run again for a session: its pipeline has passed, or
    has failed again in the same way. Raises nothing."""
    if not list_allowed(deps.options.retry_settings):
        return
    try:
        store = deps.storage.retries
        found = store.read(subject.project_id)
        ended = found.list_open(key.session_id, subject.sha) if found else ()
        if ended:
            store.change(
                subject.project_id,
                lambda found: found.end(key.session_id, subject.sha, passed=passed),
            )
        for each in ended:
            watch(JobRetried(each.verdict, "passed" if passed else "failed"))
    except SandpiperError as error:
        log.warning("session %s: what came of its retry is not kept: %s", key.session_id, error)
