"""What becomes of notes that stand: one living note for each merge request and workflow.

When a newer analysis has found something, or the pipeline passes, the notes of older pipelines are
folded under a line that says so. Nothing of their text is lost, and their markers stay, so that a
reply under them still resumes its session.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from worker.core.conversation import context_json
from worker.core.conversation.context import Context, Status, Subject
from worker.core.conversation.context_json import HistoryError
from worker.core.ports import SessionKey
from worker.core.ports.gitlab import OwnNote
from worker.core.session_id import SUGGESTIONS
from worker.errors import ForgeError, StoreError
from worker.forge.defence.finish import finish
from worker.forge.defence.lint import hosts_of
from worker.forge.text import older_note
from worker.turns import memory
from worker.turns.parts import Deps
from worker.turns.results import Settled

log = logging.getLogger("sandpiper.living")

MOST = 10
"""Notes that are folded at a time; the rest waits for the next time."""


@dataclass(frozen=True, slots=True)
class _Standing:
    """An analysis whose note stands as it was written."""

    key: SessionKey
    context: Context
    note: OwnNote


def supersede(context: Context, deps: Deps) -> None:
    """Fold what the newest analysis of a merge request and workflow has replaced.

    `context` is an analysis just committed. Raises nothing: the finding is posted already.
    """
    if _failed(context):
        return
    try:
        own = list(deps.forge.own(context.subject))
        found = [each for each in _standing(own, context.subject, deps) if _alike(each, context)]
        # A run that was overtaken may end after the one that took its place.
        newest = max(found, key=_rank, default=None)
        for each in found if newest and not _failed(newest.context) else ():
            if newest and each.context.subject.pipeline_id < newest.context.subject.pipeline_id:
                number = newest.context.subject.pipeline_id
                body = older_note.superseded(each.note.body, newest.note.ref.url, number)
                _settle(each, body, "superseded", newest.context.subject, own, deps)
    except (ForgeError, StoreError) as error:
        log.warning("session %s: older notes not folded: %s", context.session_id, error)


def passed(subject: Subject, deps: Deps) -> Settled:
    """Say on every note that stands that the `subject`'s pipeline has passed.

    Raises ForgeError and StoreError; doing it twice changes nothing.
    """
    own = list(deps.forge.own(subject))
    done = []
    for each in _standing(own, subject, deps):
        before = each.context.subject
        if before.pipeline_id > subject.pipeline_id:
            continue
        same = before.sha == subject.sha
        body = older_note.passed(each.note.body, subject, same_commit=same)
        _settle(each, body, "passed_again" if same else "fixed", subject, own, deps)
        done.append(each.key.session_id)
    return Settled(subject.pipeline_id, tuple(done))


def _standing(own: Sequence[OwnNote], subject: Subject, deps: Deps) -> Iterator[_Standing]:
    """The newest analyses that are committed and not settled yet."""
    first = (note for note in own if note.marker.turn == 0 and not older_note.is_settled(note.body))
    for note in islice(first, MOST):
        key = SessionKey(subject.project_id, subject.mr_iid, note.marker.session_id)
        context = _stored(key, deps)
        if context and not (note.internal and _is_in_thread(context)):
            yield _Standing(key, context, note)


def _is_in_thread(context: Context) -> bool:
    """Whether it was asked for in private: what is answered there stands for nobody else."""
    return context.note is not None and bool(context.note.discussion_id)


def _stored(key: SessionKey, deps: Deps) -> Context | None:
    """The analysis, or what stands for a deleted one; None if not committed or not to be read."""
    latest = deps.store.latest(key)
    if latest is None:
        return None
    try:
        return context_json.load(_read(key, latest, deps))
    except HistoryError as error:
        log.warning("session %s: %s", key.session_id, error)
        return None


def _read(key: SessionKey, latest: int, deps: Deps) -> bytes:
    try:
        return deps.store.read_context(key, 0)
    except StoreError:
        if latest == 0:
            raise
        return deps.store.read_context(key, latest)


def _alike(standing: _Standing, context: Context) -> bool:
    return standing.context.workflow == context.workflow


def _rank(standing: _Standing) -> tuple[bool, int]:
    """What could be explained before what could not, then the newer pipeline."""
    return not _failed(standing.context), standing.context.subject.pipeline_id


def _failed(context: Context) -> bool:
    return context.outcome is None or context.outcome.status is Status.FAILED


def _settle(
    standing: _Standing,
    body: str,
    became: str,
    by: Subject,
    own: Sequence[OwnNote],
    deps: Deps,
) -> None:
    after = {"schema": 1, "became": became, "pipeline_id": by.pipeline_id, "sha": by.sha}
    after |= {"at": deps.clock.now()}
    deps.store.record_after(standing.key, 0, json.dumps(after).encode())
    memory.ended(standing.context, became, by.pipeline_id, deps)
    # The note comes last: once it is folded, nobody comes back for the rest.
    for note in own:
        if _to_resolve(note, standing.key.session_id, deps):
            deps.forge.resolve(by, note.ref)
    before = standing.context.subject
    made = finish(body, hosts_of(before, deps.hosts), deps.redact)
    if made.kept_back:
        # Not even harmless words may take the place of what is there.
        log.warning("session %s: note left as it is", standing.key.session_id)
        return
    try:
        deps.forge.edit(before, standing.note.ref, made.body)
    except ForgeError as error:
        if error.status != 404:
            raise
        log.info("note %d was deleted meanwhile", standing.note.ref.note_id)
    log.info("session %s: %s by pipeline %d", standing.key.session_id, became, by.pipeline_id)


def _to_resolve(note: OwnNote, session: str, deps: Deps) -> bool:
    """Whether it stands in an open thread that we began on purpose: else people did by replying."""
    begun = note.marker.turn in SUGGESTIONS or (note.marker.turn == 0 and deps.note.thread)
    return note.unresolved and note.marker.session_id == session and begun
