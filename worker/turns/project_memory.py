"""Keeps a project's memory of its sessions' confirmed findings, and tells it to the model."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from worker.conversation.context import KNOWN, RULE, Context, SessionKey, Status
from worker.errors import ForgeError, SourceError, StoreError
from worker.turns import stored_turns
from worker.turns.parts import Deps
from worker.verdict import aftermath, project_memory
from worker.verdict.finding import Finding
from worker.verdict.project_memory import Fact, Source
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.survey")

MOST_ASKED = 30
"""The most voters of each kind for whom GitLab is asked whether they are members."""

_PASSES_AGAIN = (Verdict.FLAKY, Verdict.INFRASTRUCTURE)


def write_fact(context: Context, finding: Finding, deps: Deps) -> str:
    """Return what the project may remember of a turn's finding once it is confirmed, "" if nothing.

    Only a model's complete findings are remembered.
    """
    outcome = context.outcome
    if outcome is None or outcome.status is not Status.DONE or context.survey is None:
        return ""
    if context.found_by in (RULE, KNOWN):
        return ""
    return project_memory.write_fact(finding, context.survey, deps.runtime.redact)


def update_memory(key: SessionKey, deps: Deps, context: Context | None = None) -> None:
    """Put the session's fact into the project's memory if it is confirmed now, else remove it.

    `context` is the committed turn that has its newest verdict, read from the store by default.
    Raises nothing; doing it twice changes nothing.
    """
    try:
        context = context or _read_verdict(key, deps)
        fact = _make_confirmed_fact(key, context, deps) if context else None
        change = partial(_put_fact, Source(key.mr_iid, key.session_id), fact)
        deps.storage.known_failures.change_memory(key.project_id, change)
    except (ForgeError, SourceError, StoreError) as error:
        log.warning("session %s: the project's memory stays: %s", key.session_id, error)


def _read_verdict(key: SessionKey, deps: Deps) -> Context | None:
    latest = deps.storage.sessions.find_latest_turn(key)
    return None if latest is None else stored_turns.find_verdict(key, latest, deps)


def _put_fact(source: Source, fact: Fact | None, data: bytes | None) -> bytes | None:
    facts = project_memory.load_facts(data)
    if fact:
        return project_memory.dump_facts(project_memory.add_fact(facts, fact))
    remaining = project_memory.remove_sources(facts, lambda each: each == source)
    return data if remaining == facts else project_memory.dump_facts(remaining)


def _make_confirmed_fact(key: SessionKey, context: Context, deps: Deps) -> Fact | None:
    """Return the fact of a confirmed finding on a member's merge request, else None."""
    if not context.fact or context.survey is None or not _is_confirmed(key, context, deps):
        return None
    if not deps.gitlab.permissions.is_members(context.subject):
        return None
    source = Source(key.mr_iid, key.session_id)
    found_at = context.turn_usage.started_at
    return project_memory.make_fact(context.fact, context.verdict, context.survey, found_at, source)


def _is_confirmed(key: SessionKey, context: Context, deps: Deps) -> bool:
    """Whether GitLab's record or a member's vote confirms the verdict, and no member voted against
    it."""
    proven = _is_proven(key, context, deps)
    feedback = aftermath.load_feedback(deps.storage.sessions.read_feedback(key, context.turn))
    if not feedback.votes:
        return proven
    ups, downs = _list_voters(context, deps)
    if _has_member(downs, context, deps):
        return False
    return proven or _has_member(ups, context, deps)


def _is_proven(key: SessionKey, context: Context, deps: Deps) -> bool:
    """Whether GitLab's record settles the verdict, or a pipeline passed on the same commit."""
    if context.survey and project_memory.is_settled(context.survey, context.verdict):
        return True
    after = stored_turns.find_aftermath(deps.storage.sessions, key, context.turn, context.look)
    passed_again = after is not None and after.became == "passed_again"
    return passed_again and context.verdict in _PASSES_AGAIN


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


def forget_merge_request(project_id: int, mr_iid: int, deps: Deps) -> int:
    """Remove a merge request's facts from the memory, and return how many. Raises StoreError."""

    def select_others(facts: Sequence[Fact]) -> tuple[Fact, ...]:
        return project_memory.remove_sources(facts, lambda each: each.mr_iid == mr_iid)

    return _keep_facts(project_id, select_others, deps)


def remove_old(project_id: int, before: float, deps: Deps) -> int:
    """Remove facts of days that ended before `before` (epoch seconds), and return how many. Raises
    StoreError."""
    return _keep_facts(project_id, partial(project_memory.remove_old, before=before), deps)


def count_old(project_id: int, before: float, deps: Deps) -> int:
    """Count what `remove_old` would remove. Raises StoreError."""
    select = partial(project_memory.remove_old, before=before)
    return _count_removed(select, _read(project_id, deps))


Select = Callable[[Sequence[Fact]], tuple[Fact, ...]]
"""A function that returns the facts that stay in the memory."""


def _keep_facts(project_id: int, select: Select, deps: Deps) -> int:
    removed = _count_removed(select, _read(project_id, deps))
    if removed:
        deps.storage.known_failures.change_memory(project_id, partial(_select_facts, select))
    return removed


def _count_removed(select: Select, data: bytes | None) -> int:
    """Count the removed facts; damaged data, or the removal of only a further source, is one."""
    if _select_facts(select, data) == data:
        return 0
    facts = project_memory.load_facts(data)
    return max(len(facts) - len(select(facts)), 1)


def _select_facts(select: Select, data: bytes | None) -> bytes | None:
    return project_memory.dump_facts(select(project_memory.load_facts(data)))


def _read(project_id: int, deps: Deps) -> bytes | None:
    return deps.storage.known_failures.read_memory(project_id)


def tell_memory(context: Context, deps: Deps) -> str:
    """Return what the project's memory says, as background for the model; "" if nothing."""
    try:
        data = _read(context.subject.project_id, deps)
    except StoreError as error:
        log.warning("session %s: the project's memory not read: %s", context.session_id, error)
        return ""
    return project_memory.tell_facts(project_memory.load_facts(data), deps.gitlab.hosts)
