"""Finds known errors of the project that resemble the errors about which nothing is known."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from worker.conversation.context import Context
from worker.errors import StoreError
from worker.sessions.projects import MemoryPart
from worker.turns.parts import Deps
from worker.verdict import known, similar
from worker.verdict.jobs import Group, Hit, Survey

log = logging.getLogger("sandpiper.survey")


def find_leads(survey: Survey, context: Context, deps: Deps) -> Survey:
    """Return the survey with leads, unless something is known of each of its errors.

    If the store fails, only the leads are missing.
    """
    unexplained = similar.list_unexplained(survey)
    if not unexplained:
        return survey
    project = context.subject.project_id
    try:
        index = _load_words(project, deps)
        words = map(similar.read_group_words, unexplained)
        keys = dict.fromkeys(key for each in words for key in similar.find_similar(each, index))
        own = {group.key for group in survey.groups}
        hits = (read_hit(key, context, deps) for key in keys if key not in own)
        return replace(survey, leads=tuple(filter(None, hits))[: similar.MOST_LEADS])
    except StoreError as error:
        log.warning("session %s: similar failures not read: %s", context.session_id, error)
        return survey


def read_hit(key: str, context: Context, deps: Deps) -> Hit | None:
    """Return what is known of an error, None if nothing. Raises StoreError."""
    subject = context.subject
    data = deps.storage.known_failures.read_entry(subject.project_id, key)
    entry = known.load_known_failure(data, key)
    return known.make_hit(entry, subject.mr_iid, subject.sha, deps.gitlab.hosts) if entry else None


def keep_words(groups: Iterable[Group], project_id: int, deps: Deps) -> None:
    """Store the words of known errors, by which similar errors are found. Raises StoreError."""
    kept, now = list(groups), deps.runtime.clock.now()
    _change_words(project_id, lambda index: similar.add_words(index, kept, now), deps)


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


_Words = Sequence[similar.ErrorWords]


def _change_words(project_id: int, change: Callable[[_Words], _Words], deps: Deps) -> None:
    def change_stored(data: bytes | None) -> bytes | None:
        return similar.dump_words(change(similar.load_words(data)))

    deps.storage.known_failures.change_memory(project_id, change_stored, MemoryPart.WORDS)


def _load_words(project_id: int, deps: Deps) -> _Words:
    return similar.load_words(deps.storage.known_failures.read_memory(project_id, MemoryPart.WORDS))
