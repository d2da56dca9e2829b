"""Keeps what is known of a project's errors: findings, how they ended, which errors are alike, and
the memory of confirmed findings, which is told to the model."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from worker.answer import suggestions
from worker.conversation.context import (
    KNOWN,
    OF_OTHERS,
    RULE,
    WITHOUT_MODEL,
    Context,
    SessionKey,
    Status,
)
from worker.errors import ForgeError, SourceError, StoreError
from worker.sessions.projects import MemoryPart
from worker.turns import stored_turns
from worker.turns.parts import Deps, Terms
from worker.verdict import aftermath, known, project_memory
from worker.verdict.finding import Finding
from worker.verdict.jobs import Group, Hit, Survey
from worker.verdict.project_memory import Fact, Source
from worker.verdict.verdict import CLAIMS, Verdict

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


def remember_finding(context: Context, finding: Finding, deps: Deps) -> None:
    """Store what was found for each error of a committed turn's pipeline. Raises no StoreError.

    A turn that was answered from known failures counts as a sighting, not as a finding. Only
    merge requests that GitLab says are members' count.
    """
    survey, outcome = context.survey, context.outcome
    if survey is None or outcome is None or outcome.status is not Status.DONE:
        return
    if context.found_by in (RULE, *OF_OTHERS):
        return
    subject, now = context.subject, deps.runtime.clock.now()
    try:
        if not deps.gitlab.permissions.is_members(subject):
            return
    except SourceError as error:
        log.warning("session %s: known failures not kept: %s", context.session_id, error)
        return
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
        kept = list(_list_kept_groups(survey))
        _change_words(subject.project_id, lambda index: known.add_words(index, kept, now), deps)
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
    if context.survey is None or context.found_by in (RULE, *OF_OTHERS):
        return
    where = context.subject
    try:
        for group in _list_kept_groups(context.survey):
            change = partial(_add_end, group.key, where.pipeline_id, became, pipeline_id)
            deps.storage.known_failures.change_entry(where.project_id, group.key, change)
    except StoreError as error:
        log.warning("session %s: its end is not kept: %s", context.session_id, error)


def _remove_merge_request(key: str, mr_iid: int, data: bytes | None) -> bytes | None:
    entry = known.load_known_failure(data, key)
    remaining = known.forget_merge_request(entry, mr_iid) if entry else None
    return known.dump_known_failure(remaining) if remaining else None


def forget_merge_request(project_id: int, mr_iid: int, deps: Deps) -> int:
    """Remove a merge request's sightings, words and facts; return of how many known failures and
    facts.

    An unreadable entry, which answers nobody, may be from it too: it is removed but not counted.
    Raises StoreError.
    """
    touched = 0
    for key in deps.storage.known_failures.list_keys(project_id):
        data = deps.storage.known_failures.read_entry(project_id, key)
        entry = known.load_known_failure(data, key)
        found = (*entry.sightings, entry.finding) if entry else ()
        if data and (entry is None or any(each and each.mr_iid == mr_iid for each in found)):
            deps.storage.known_failures.change_entry(
                project_id, key, partial(_remove_merge_request, key, mr_iid)
            )
            touched += entry is not None
    keys = frozenset(deps.storage.known_failures.list_keys(project_id))
    _change_words(project_id, lambda index: [each for each in index if each.key in keys], deps)
    return touched + _keep_facts(
        project_id,
        lambda facts: project_memory.remove_sources(facts, lambda each: each.mr_iid == mr_iid),
        deps,
    )


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


def remove_old_words(project_id: int, before: float, deps: Deps, *, act: bool = True) -> int:
    """Remove the words of errors that were last seen before `before` (epoch seconds), and return of
    how many; without `act` only count them. Raises StoreError."""
    old = sum(each.seen_at < before for each in _load_words(project_id, deps))
    if act:
        _change_words(
            project_id, lambda index: [each for each in index if each.seen_at >= before], deps
        )
    return old


_Words = Sequence[known.ErrorWords]


def _change_words(project_id: int, change: Callable[[_Words], _Words], deps: Deps) -> None:
    def change_stored(data: bytes | None) -> bytes | None:
        return known.dump_words(change(known.load_words(data)))

    deps.storage.known_failures.change_memory(project_id, change_stored, MemoryPart.WORDS)


def _load_words(project_id: int, deps: Deps) -> _Words:
    return known.load_words(deps.storage.known_failures.read_memory(project_id, MemoryPart.WORDS))


# ----------------------------------------------------------------- confirmed findings of a project


MOST_ASKED = 30
"""The most voters of each kind for whom GitLab is asked whether they are members."""


def write_fact(context: Context, finding: Finding, deps: Deps) -> str:
    """Return what the project may remember of a turn's finding once it is confirmed, "" if nothing.

    Only a model's complete findings are remembered.
    """
    outcome = context.outcome
    if outcome is None or outcome.status is not Status.DONE or context.survey is None:
        return ""
    if context.found_by in WITHOUT_MODEL:
        return ""
    return project_memory.write_fact(finding, context.survey, deps.runtime.redact)


def update_memory(key: SessionKey, deps: Deps, context: Context | None = None) -> None:
    """Put the session's fact into the project's memory if it is confirmed now, else remove it.

    `context` is the committed turn that has its newest verdict, read from the store by default.
    Raises nothing; doing it twice changes nothing.
    """
    try:
        latest = None if context else deps.storage.sessions.find_latest_turn(key)
        if latest is not None:
            context = stored_turns.find_verdict(key, latest, deps)
        fact = _make_confirmed_fact(key, context, deps) if context else None
        change = partial(_put_fact, Source(key.mr_iid, key.session_id), fact)
        deps.storage.known_failures.change_memory(key.project_id, change)
    except (ForgeError, SourceError, StoreError) as error:
        log.warning("session %s: the project's memory stays: %s", key.session_id, error)


def _put_fact(source: Source, fact: Fact | None, data: bytes | None) -> bytes | None:
    facts = project_memory.load_facts(data)
    if fact:
        return project_memory.dump_facts(project_memory.add_fact(facts, fact))
    remaining = project_memory.remove_sources(facts, lambda each: each == source)
    return data if remaining == facts else project_memory.dump_facts(remaining)


def _make_confirmed_fact(key: SessionKey, context: Context, deps: Deps) -> Fact | None:
    """Return the fact of a confirmed finding on a member's merge request, else None.

    GitLab's record, a pipeline that passed on the same commit, or a member's vote confirms it, if
    no member has voted against it.
    """
    if not context.fact or context.survey is None:
        return None
    is_confirmed = project_memory.is_settled(context.survey, context.verdict)
    if not is_confirmed and context.verdict in (Verdict.FLAKY, Verdict.INFRASTRUCTURE):
        after = stored_turns.find_aftermath(deps.storage.sessions, key, context.turn, context.look)
        is_confirmed = after is not None and after.became == "passed_again"
    feedback = aftermath.load_feedback(deps.storage.sessions.read_feedback(key, context.turn))
    if feedback.votes:
        ups, downs = _list_voters(context, deps)
        if _has_member(downs, context, deps):
            return None
        is_confirmed = is_confirmed or _has_member(ups, context, deps)
    if not is_confirmed or not deps.gitlab.permissions.is_members(context.subject):
        return None
    source = Source(key.mr_iid, key.session_id)
    found_at = context.turn_usage.started_at
    return project_memory.make_fact(context.fact, context.verdict, context.survey, found_at, source)


def _list_voters(context: Context, deps: Deps) -> tuple[Sequence[int], Sequence[int]]:
    """List the users whose vote on the turn's note is now 👍, and those whose vote is 👎."""
    subject, note = context.subject, context.note
    votes = (
        deps.gitlab.reactions.read_votes(subject.project_id, subject.mr_iid, note.note_id)
        if note
        else None
    )
    by_user = votes.by_user if votes else {}
    ups = [user for user, up in by_user.items() if up]
    return ups, [user for user, up in by_user.items() if not up]


def _has_member(users: Sequence[int], context: Context, deps: Deps) -> bool:
    permissions, project = deps.gitlab.permissions, context.subject.project_id
    return any(
        permissions.may_command(project, user) and not permissions.is_bot(user)
        for user in islice(users, MOST_ASKED)
    )


def remove_old_facts(project_id: int, before: float, deps: Deps, *, act: bool = True) -> int:
    """Remove facts of days that ended before `before` (epoch seconds), and return how many; without
    `act` only count them. Raises StoreError."""
    select = partial(project_memory.remove_old, before=before)
    return _keep_facts(project_id, select, deps, act=act)


def _keep_facts(
    project_id: int,
    select: Callable[[Sequence[Fact]], tuple[Fact, ...]],
    deps: Deps,
    *,
    act: bool = True,
) -> int:
    """Remove the facts that `select` does not return, and return how many; damaged data, or the
    removal of only a further source, counts as one."""

    def select_stored(data: bytes | None) -> bytes | None:
        return project_memory.dump_facts(select(project_memory.load_facts(data)))

    data = deps.storage.known_failures.read_memory(project_id)
    if select_stored(data) == data:
        return 0
    facts = project_memory.load_facts(data)
    if act:
        deps.storage.known_failures.change_memory(project_id, select_stored)
    return max(len(facts) - len(select(facts)), 1)


def tell_memory(context: Context, terms: Terms, deps: Deps) -> str:
    """Return what the project's memory says, as background for the model; "" if nothing."""
    try:
        data = deps.storage.known_failures.read_memory(context.subject.project_id)
    except StoreError as error:
        log.warning("session %s: the project's memory not read: %s", context.session_id, error)
        return ""
    return project_memory.tell_facts(project_memory.load_facts(data), terms.hosts)
