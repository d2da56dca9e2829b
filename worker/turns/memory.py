"""Keeps what is known of a project's errors: findings, how they ended, which errors are alike."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from worker.answer import suggestions
from worker.conversation.context import KNOWN, RULE, Context, Status
from worker.errors import SourceError, StoreError
from worker.sessions.projects import MemoryPart
from worker.turns.parts import Deps, Terms
from worker.verdict import known
from worker.verdict.finding import Finding
from worker.verdict.jobs import Group, Hit, Survey
from worker.verdict.known import KnownFailure
from worker.verdict.verdict import CLAIMS

log = logging.getLogger("sandpiper.survey")

MOST_KEPT = 6
"""Errors of one pipeline that are looked up and kept."""


def _list_kept_groups(survey: Survey) -> Iterator[Group]:
    keys = known.list_keys(survey.groups)[:MOST_KEPT]
    return (group for group in survey.groups if group.key in keys and group.jobs)


def _holds_for(group: Group, finding: Finding) -> bool:
    """Whether the model's finding applies to the group. It does not if GitLab's record contradicts
    it."""
    judged = finding.final_verdict
    if finding.verdict not in CLAIMS or finding.doubt or (judged and judged.because):
        return False
    model = judged.model if judged else finding.verdict
    if not group.ruling:
        return True
    return model not in dict(group.ruling.contradictions) and (
        group.ruling.decide_verdict(model) is finding.verdict
    )


def _add_sighting(
    key: str, where: known.Sighting, found: known.PastFinding | None, data: bytes | None
) -> bytes:
    entry = known.load_known_failure(data, key)
    return known.dump_known_failure(known.add_sighting(entry, key, where, found))


def _is_by_member(context: Context, deps: Deps) -> bool:
    """Whether the merge request is a member's; False if GitLab does not say."""
    try:
        return deps.gitlab.permissions.is_members(context.subject)
    except SourceError as error:
        log.warning("session %s: known failures not kept: %s", context.session_id, error)
        return False


def remember_finding(context: Context, finding: Finding, deps: Deps) -> None:
    """Store what was found for each error of a committed turn's pipeline. Raises no StoreError.

    A turn that was answered from known failures counts as a sighting, not as a finding. Only
    members' merge requests count.
    """
    survey, outcome = context.survey, context.outcome
    if survey is None or outcome is None or outcome.status is not Status.DONE:
        return
    if context.found_by == RULE or not _is_by_member(context, deps):
        return
    subject, now = context.subject, deps.runtime.clock.now()
    is_investigated = context.found_by != KNOWN
    url = context.note.url if context.note else ""
    found = known.make_past_finding(
        finding.verdict,
        deps.runtime.redact(finding.cause),
        deps.runtime.redact(suggestions.read_suggestions(finding.to_do)[0]),
        url,
        subject.mr_iid,
        now,
    )
    try:
        for group in _list_kept_groups(survey):
            job = group.jobs[0]
            where = known.make_sighting(job, subject.mr_iid, subject.pipeline_id, subject.sha, now)
            past_finding = (
                replace(found, job_url=known.keep_web_url(job.url))
                if is_investigated and _holds_for(group, finding)
                else None
            )
            change = partial(_add_sighting, group.key, where, past_finding)
            deps.storage.known_failures.change_entry(subject.project_id, group.key, change)
        keep_words(_list_kept_groups(survey), subject.project_id, deps)
    except StoreError as error:
        log.warning("session %s: known failures not kept: %s", context.session_id, error)


def _add_end(key: str, of: int, became: str, by: int, data: bytes | None) -> bytes | None:
    entry = known.load_known_failure(data, key)
    return (
        known.dump_known_failure(known.record_resolution(entry, of, became, by)) if entry else data
    )


def record_end(context: Context, became: str, pipeline_id: int, deps: Deps) -> None:
    """Record for each error of an analysed pipeline how it was resolved.

    `became` is a key of `known.RESOLUTIONS`; another one changes nothing. Raises nothing; doing it
    twice changes nothing.
    """
    if context.survey is None or context.found_by == RULE:
        return
    where = context.subject
    try:
        for group in _list_kept_groups(context.survey):
            change = partial(_add_end, group.key, where.pipeline_id, became, pipeline_id)
            deps.storage.known_failures.change_entry(where.project_id, group.key, change)
    except StoreError as error:
        log.warning("session %s: its end is not kept: %s", context.session_id, error)


def _refers_to(entry: KnownFailure, mr_iid: int) -> bool:
    seen = any(each.mr_iid == mr_iid for each in entry.sightings)
    return seen or (entry.finding is not None and entry.finding.mr_iid == mr_iid)


def _remove_merge_request(key: str, mr_iid: int, data: bytes | None) -> bytes | None:
    entry = known.load_known_failure(data, key)
    remaining = known.forget_merge_request(entry, mr_iid) if entry else None
    return known.dump_known_failure(remaining) if remaining else None


def forget_merge_request(project_id: int, mr_iid: int, deps: Deps) -> int:
    """Remove a merge request's sightings and words from known failures; return how many had any.

    An unreadable entry, which answers nobody, may be from it too: it is removed but not counted.
    Raises StoreError.
    """
    touched = 0
    for key in deps.storage.known_failures.list_keys(project_id):
        data = deps.storage.known_failures.read_entry(project_id, key)
        entry = known.load_known_failure(data, key)
        if data and (entry is None or _refers_to(entry, mr_iid)):
            deps.storage.known_failures.change_entry(
                project_id, key, partial(_remove_merge_request, key, mr_iid)
            )
            touched += entry is not None
    forget_words(project_id, deps)
    return touched


def find_leads(survey: Survey, context: Context, terms: Terms, deps: Deps) -> Survey:
    """Return the survey with leads, unless something is known of each of its errors.

    If the store fails, only the leads are missing.
    """
    unexplained = known.list_unexplained(survey)
    if not unexplained:
        return survey
    project = context.subject.project_id
    try:
        index = _load_words(project, deps)
        words = map(known.read_group_words, unexplained)
        keys = dict.fromkeys(key for each in words for key in known.find_similar(each, index))
        own = {group.key for group in survey.groups}
        hits = (read_hit(key, context, terms, deps) for key in keys if key not in own)
        return replace(survey, leads=tuple(filter(None, hits))[: known.MOST_LEADS])
    except StoreError as error:
        log.warning("session %s: similar failures not read: %s", context.session_id, error)
        return survey


def read_hit(key: str, context: Context, terms: Terms, deps: Deps) -> Hit | None:
    """Return what is known of an error, None if nothing. Raises StoreError."""
    subject = context.subject
    data = deps.storage.known_failures.read_entry(subject.project_id, key)
    entry = known.load_known_failure(data, key)
    return known.make_hit(entry, subject.mr_iid, subject.sha, terms.hosts) if entry else None


def keep_words(groups: Iterable[Group], project_id: int, deps: Deps) -> None:
    """Store the words of known errors, by which similar errors are found. Raises StoreError."""
    kept, now = list(groups), deps.runtime.clock.now()
    _change_words(project_id, lambda index: known.add_words(index, kept, now), deps)


def forget_words(project_id: int, deps: Deps) -> None:
    """Remove the words of errors that are not known any more. Raises StoreError."""
    keys = frozenset(deps.storage.known_failures.list_keys(project_id))
    _change_words(project_id, lambda index: [each for each in index if each.key in keys], deps)


def count_old_words(project_id: int, before: float, deps: Deps) -> int:
    """Count the errors of the index that were last seen before `before` (epoch seconds). Raises
    StoreError."""
    return sum(each.seen_at < before for each in _load_words(project_id, deps))


def remove_old_words(project_id: int, before: float, deps: Deps) -> int:
    """Remove what `count_old_words` counts, and return how many. Raises StoreError."""
    removed = count_old_words(project_id, before, deps)
    _change_words(
        project_id, lambda index: [each for each in index if each.seen_at >= before], deps
    )
    return removed


_Words = Sequence[known.ErrorWords]


def _change_words(project_id: int, change: Callable[[_Words], _Words], deps: Deps) -> None:
    def change_stored(data: bytes | None) -> bytes | None:
        return known.dump_words(change(known.load_words(data)))

    deps.storage.known_failures.change_memory(project_id, change_stored, MemoryPart.WORDS)


def _load_words(project_id: int, deps: Deps) -> _Words:
    return known.load_words(deps.storage.known_failures.read_memory(project_id, MemoryPart.WORDS))
