"""Makes the context that a turn begins with: new, left by another run, or after a stored turn."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from worker.answer.note.note_parts import remove_tokens
from worker.answer.parse import list_failed_calls
from worker.conversation import context_json, prompts
from worker.conversation.context import (
    ASKED,
    Context,
    NoteRef,
    Outcome,
    SessionKey,
    Status,
    Subject,
    find_last_tool_turn,
)
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import User, find_saved_files
from worker.conversation.plan import ANNOUNCEMENT
from worker.conversation.questions import list_parts, split_question
from worker.conversation.tiers import TierChoice
from worker.conversation.triggers import Replied
from worker.safety.neutralise import neutralise
from worker.safety.redacted_values import redact_values
from worker.settings.runs import Gate
from worker.turns import stored_turns
from worker.turns.parts import Deps, FailedPipeline, Skipped, Terms
from worker.turns.tiers import make_terms
from worker.verdict.survey_text import tell_time

log = logging.getLogger("sandpiper.job")

FORGOTTEN = "deleted on request"
"""The reason in the outcome of a turn that replaces a deleted conversation."""


def make_first_context(
    name: str,
    subject: Subject,
    terms: Terms,
    deps: Deps,
    tier: TierChoice | None = None,
    ended_at: float = 0.0,
) -> Context:
    """Return the context with which a session's first turn begins; `ended_at` is the context's."""
    system, tools = stored_turns.write_prompt(
        subject, terms.workflow, terms.limits.tier_rules, deps
    )
    return Context(
        session_id=name,
        subject=subject,
        workflow=terms.workflow.name,
        model="",
        system=system,
        tools=tools,
        messages=(_write_first_message(name, subject, deps),),
        turn_usage=TurnUsage(started_at=deps.runtime.clock.now()),
        tier=tier,
        ended_at=ended_at,
        dry_turns=(0,) if deps.options.dry_run else (),
    )


def _write_first_message(name: str, subject: Subject, deps: Deps) -> User:
    event = {
        "project": subject.project,
        **({"branch": subject.branch} if subject.branch else {"iid": subject.mr_iid}),
        "sha": subject.sha,
        "pipeline_id": subject.pipeline_id,
        "session_id": name,
    }
    return User(json.dumps(redact_values(event, deps.runtime.redact)))


def begin_anew(key: SessionKey, latest: int, deps: Deps) -> Context | Skipped:
    """Begin an unreadable session anew, in the place of turn `latest`, with what GitLab says now;
    Skipped if there is nothing to begin with."""
    if key.branch:
        return Skipped(f"session {key.session_id} of a branch cannot be read any more")
    subject = deps.gitlab.pipelines.find_named_subject(str(key.project_id), key.mr_iid, None)
    if isinstance(subject, str):
        return Skipped(subject)
    workflow = deps.runtime.playbook.for_trigger("command:analyze")
    context = make_first_context(key.session_id, subject, make_terms(subject, workflow, deps), deps)
    return replace(context, turn=latest, losses=(stored_turns.ALL_LOST,), dry_turns=())


def load_session(key: SessionKey, latest: int, deps: Deps) -> Context | Skipped:
    """Return a session's newest readable turn, as turn `latest`.

    GitLab is asked whether its pipeline is the merge request's: what is stored is not believed
    about what may be read. If no turn is left, the session begins anew, if GitLab has its merge
    request. Raises SourceError.
    """
    stored = stored_turns.load_newest(key, latest, deps)
    if stored is None:
        return begin_anew(key, latest, deps)
    subject = deps.gitlab.merge_requests.confirm_subject(stored.subject)
    if isinstance(subject, str):
        log.error("session %s: what is stored is damaged: %s", key.session_id, subject)
        return begin_anew(key, latest, deps)
    return replace(stored, subject=subject)


def read_unfinished_analysis(key: SessionKey, subject: Subject, deps: Deps) -> Context | None:
    """Return the checkpoint of the first turn if it is about `subject`, which GitLab has told."""
    unfinished = read_unfinished(key, 0, deps)
    if unfinished is None or not _is_about(unfinished, subject, key):
        return None
    return stored_turns.restore_prompt(replace(unfinished, subject=subject), deps)


def _is_about(unfinished: Context, subject: Subject, key: SessionKey) -> bool:
    """Whether a checkpoint is about the same merge request or branch, and pipeline; if not, it is
    damaged."""
    read = attrgetter("project_id", "mr_iid", "branch", "pipeline_project_id", "pipeline_id")
    same: bool = read(unfinished.subject) == read(subject)
    if not same:
        log.error("session %s: checkpoint dropped: it is about another pipeline", key.session_id)
    return same


def read_unfinished(key: SessionKey, turn: int, deps: Deps) -> Context | None:
    """Return the checkpoint that another run left of this turn, or None."""
    data = deps.storage.sessions.read_checkpoint(key, turn)
    if data is None:
        return None
    try:
        context, now = context_json.load_context_of(key, data), deps.runtime.clock.now()
        spent = context.turn_usage.resume(now)
        if context.handed_over and not spent.iterations:
            # The run only waited for a model, which does not count as its time.
            spent = replace(spent, started_at=now)
        return replace(context, turn_usage=spent)
    except context_json.HistoryError as error:
        log.warning("session %s: checkpoint dropped: %s", key.session_id, error)
        return None


def read_unfinished_look(
    key: SessionKey, stored: Context, failure: FailedPipeline, deps: Deps
) -> Context | None:
    """Return the checkpoint of the turn after `stored` if it looks at the failure's pipeline.

    What it has surveyed may be an earlier failure than the newest: then that one is looked at, and
    the newest one after it.
    """
    unfinished = read_unfinished(key, stored.turn + 1, deps)
    if unfinished is None or not unfinished.is_look:
        return None
    return _continue_as(stored, unfinished, failure.subject, key)


def read_unfinished_answer(
    key: SessionKey, stored: Context, reply: Replied | None, deps: Deps
) -> Context | None:
    """Return the unfinished turn after `stored` if it answers the same comment, else None."""
    unfinished = read_unfinished(key, stored.turn + 1, deps) if reply else None
    if unfinished is None or reply is None or reply.note_id not in unfinished.answered_notes:
        return None
    return _continue_as(stored, unfinished, stored.subject, key)


def _continue_as(
    stored: Context, unfinished: Context, subject: Subject, key: SessionKey
) -> Context | None:
    """Return the checkpoint of the turn after `stored`, if it is about `subject` and its model is
    told what that of `stored` is told."""
    told, now = (unfinished.system, unfinished.tools), (stored.system, stored.tools)
    is_usable = _is_about(unfinished, subject, key) and told == now
    return replace(unfinished, subject=subject) if is_usable else None


def make_next_context(
    stored: Context,
    text: str,
    reply: Replied | None,
    terms: Terms,
    deps: Deps,
    *,
    first_look: bool,
    files_of: Sequence[int],
    asker: str = "",
    tier: TierChoice | None = None,
) -> Context:
    """Return the context of the turn after `stored`, which asks `text`.

    `reply` is the comment that asks, if one does; `asker` says who asks, and where. `first_look`
    says that no model has explained the failure yet, and that this turn is to do so. `files_of` are
    the turns whose files can be restored, the newest first.
    """
    # ASKED says that the turn is to explain the failure.
    found_by = "" if stored.found_by == ASKED else stored.found_by
    before = replace(stored, found_by=ASKED if first_look else found_by)
    message = _write_next_message(before, text, files_of, asker, terms, deps)
    context = replace(
        move_on(before, deps),
        note=NoteRef(0, reply.discussion_id) if reply else NoteRef(0),
        answered_notes=before.answered_notes + ((reply.note_id,) if reply else ()),
        tier=tier,
    )
    return context.add(User(message))


def move_on(stored: Context, deps: Deps) -> Context:
    """Return the turn after `stored`, before anything is said in it."""
    return replace(
        stored,
        turn=stored.turn + 1,
        turn_start=len(stored.messages),
        turn_usage=TurnUsage(started_at=deps.runtime.clock.now()),
        outcome=None,
        gave_way="",
        note_text="",
        unposted_note="",
        verdict="",
        seconds=0.0,
        fact="",
        earlier_note="",
        # Older versions committed turns with it; no worker has left the new turn.
        handed_over=False,
        dry_turns=stored.dry_turns + ((stored.turn + 1,) if deps.options.dry_run else ()),
    )


def _write_next_message(
    stored: Context, text: str, files_of: Sequence[int], asker: str, terms: Terms, deps: Deps
) -> str:
    kept, used = next(iter(files_of), None), find_last_tool_turn(stored)
    first = stored.messages[0]
    announced = isinstance(first, User) and ANNOUNCEMENT in first.text
    deleted = ["The conversation until now was deleted on request."] if is_forgotten(stored) else []
    is_gated = (terms.workflow.gate or deps.runtime.gate) is not Gate.OFF
    parts = split_question(text) if is_gated else ()
    news = _tell_news(stored, asker, deps, files=kept is not None and kept >= used, failed=is_gated)
    changes = deps.gitlab.merge_requests.list_changes_since(stored.subject)
    return prompts.write_continuation(
        "\n\n".join([text, *([list_parts(parts)] if parts else [])]),
        first_look=stored.found_by == ASKED,
        files=prompts.tell_files(kept, used, announced=announced),
        about=list(news),
        used=used >= 0,
        posted=deps.runtime.redact(_tell_posted(stored, deps)),
        seconds=deps.runtime.clock.now() - stored.turn_usage.started_at - stored.seconds,
        changes=[*deleted, *stored.losses, *map(deps.runtime.redact, changes)],
    )


def _tell_news(
    stored: Context, asker: str, deps: Deps, *, files: bool, failed: bool
) -> Iterator[str]:
    """Yield the time, who asks, restored files, failed calls, and the tools if not told yet."""
    yield tell_time(deps.runtime.clock.now())
    yield deps.runtime.redact(asker or prompts.tell_asker("", ours=False))
    if files and (saved := find_saved_files(stored.messages)):
        yield deps.runtime.redact(prompts.tell_saved_files(saved))
    if failed and (calls := list_failed_calls(stored)):
        yield deps.runtime.redact(prompts.tell_failed_calls(calls))
    mentions = (
        prompts.tells_tools(each.text) for each in stored.messages if isinstance(each, User)
    )
    if not any(mentions) and (tools := deps.runtime.describe_tools(None)):
        yield prompts.tell_tools(tools)


def _tell_posted(stored: Context, deps: Deps) -> str:
    """Return what the model does not know about the last turn's note, "" if nothing."""
    outcome = stored.outcome
    if outcome is None or is_forgotten(stored):
        return ""
    if stored.note_text:
        answer = neutralise(remove_tokens(deps.runtime.redact(outcome.text)), deps.gitlab.hosts)
        return prompts.tell_posted(stored.note_text, answer.strip())
    return prompts.tell_unposted(outcome.reason) if outcome.status is Status.FAILED else ""


def make_emptied_context(stored: Context, deps: Deps) -> Context:
    """Return the turn without a history that replaces a deleted conversation."""
    return Context(
        session_id=stored.session_id,
        subject=stored.subject,
        workflow=stored.workflow,
        model="",
        system=stored.system,
        tools=stored.tools,
        messages=(_write_first_message(stored.session_id, stored.subject, deps),),
        turn_usage=TurnUsage(started_at=deps.runtime.clock.now()),
        turn=stored.turn + 1,
        turn_start=1,
        note=stored.note,
        answered_notes=stored.answered_notes,
        look=stored.look,
        ended_at=stored.ended_at,
        first_pipeline=stored.first_pipeline,
        dry_turns=stored.dry_turns,
        outcome=Outcome(Status.FAILED, "", FORGOTTEN),
    )


def is_forgotten(context: Context) -> bool:
    """Whether the turn replaces a deleted conversation."""
    return context.outcome is not None and context.outcome.reason == FORGOTTEN
