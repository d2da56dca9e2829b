"""The tier of a turn: what people prefer, which one is chosen, and the model that serves it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from worker.answer.finish import add_subject_hosts
from worker.answer.parse import parse_finding
from worker.conversation.context import Context, Outcome, Status, Subject
from worker.conversation.fold_plan import estimate_size
from worker.conversation.limits import Limits
from worker.conversation.model import Model
from worker.conversation.questions import Route
from worker.conversation.tiers import (
    REPLY,
    Preference,
    ReplyModel,
    TierChoice,
    choose_reply_model,
    resolve_tier,
)
from worker.errors import ConfigError, StoreError
from worker.sessions.objects import RECORD, update_record
from worker.sessions.projects import dump_preference, load_preference, make_preference_name
from worker.settings.models import Signal
from worker.settings.playbook import Workflow
from worker.turns.parts import Attempt, Deps, Terms
from worker.verdict.verdict import CLAIMS, Verdict

log = logging.getLogger("sandpiper.turn")


def read_preferences(project_id: int, mr_iid: int, deps: Deps) -> tuple[Preference, Preference]:
    """Read what people chose for a merge request, and for its project. Raises StoreError."""
    return _read_preference(project_id, mr_iid, deps), _read_preference(project_id, 0, deps)


def _read_preference(project_id: int, mr_iid: int, deps: Deps) -> Preference:
    name = make_preference_name(project_id, mr_iid)
    stored = deps.storage.sessions.records.read(name, RECORD)
    return load_preference(stored.content if stored else None, _name_place(mr_iid))


def _name_place(mr_iid: int) -> str:
    return "this merge request" if mr_iid else "this project"


def change_preference(
    project_id: int, mr_iid: int, change: Callable[[Preference], Preference], deps: Deps
) -> Preference:
    """Change a merge request's preference, or its project's if `mr_iid` is 0, and return it.

    Raises StoreError.
    """
    where = _name_place(mr_iid)
    changed = Preference(where=where)

    def make(data: bytes | None) -> bytes:
        nonlocal changed
        changed = change(load_preference(data, where))
        return dump_preference(changed)

    update_record(deps.storage.sessions.records, make_preference_name(project_id, mr_iid), make)
    return changed


def forget_preference(project_id: int, mr_iid: int, deps: Deps) -> bool:
    """Remove a merge request's preference; False if it has none. Raises StoreError."""
    records, name = deps.storage.sessions.records, make_preference_name(project_id, mr_iid)
    found = records.read(name, RECORD) is not None
    if found:
        records.delete(name)
    return found


def make_terms(subject: Subject, workflow: Workflow, deps: Deps) -> Terms:
    """Return the terms of a turn whose model is not chosen by a tier."""
    return Terms(workflow, deps.runtime.limits, add_subject_hosts(subject, deps.gitlab.hosts))


def choose_tier(
    subject: Subject,
    workflow: str,
    deps: Deps,
    run: Attempt,
    *,
    unfinished: Context | None = None,
    before: Context | None = None,
) -> tuple[TierChoice | None, Terms]:
    """Choose the tier of a turn; return it and the turn's terms, with people's choices for the
    tiers and the workflow in the form that fits the model.

    The tier is None if there are no tiers, or if a comment names the model. `unfinished` is the
    turn as another worker left it, whose tier is kept; `before` is the session's last turn.
    """
    playbook, rules = deps.runtime.playbook, deps.runtime.limits.tier_rules
    terms = make_terms(subject, playbook.get(workflow), deps)
    if run.model or not rules:
        return None, terms
    preferences = _read_known_preferences(subject.project_id, subject.mr_iid, deps)
    if unfinished:
        chosen = unfinished.tier
    else:
        chosen = resolve_tier(
            rules,
            terms.workflow.model_tier or "",
            preferences,
            before.tier if before else None,
            before_at=before.turn_usage.started_at if before else 0.0,
        )
    if chosen is None:
        return None, terms
    _log_tier(subject, chosen)
    room = min(terms.limits.context_tokens, _open_served(chosen, deps).context_tokens)
    preferred = {"tier_rules": rules.apply_preferences(preferences)}
    return chosen, replace(
        terms,
        workflow=playbook.fit(room).get(workflow),
        limits=terms.limits.model_copy(update=preferred),
    )


def _log_tier(subject: Subject, chosen: TierChoice) -> None:
    level = chosen.reasoning or "its own level"
    log.info(
        "%d!%d: tier %s: %s, %s (%s)",
        subject.project_id,
        subject.mr_iid,
        chosen.tier,
        chosen.model,
        level,
        chosen.reason,
    )


def _read_known_preferences(project_id: int, mr_iid: int, deps: Deps) -> Sequence[Preference]:
    """Read what people prefer; nothing if the store fails."""
    try:
        return read_preferences(project_id, mr_iid, deps)
    except StoreError as error:
        log.warning("%d!%d: preferences not read: %s", project_id, mr_iid, error)
        return ()


def choose_reply_by(
    context: Context, stored: Context, terms: Terms, deps: Deps, run: Attempt
) -> ReplyModel | None:
    """Choose the model of `models.reply` for the turn of `context`, after the turn `stored`.

    Returns None if the session's own model is to answer: no reply's model is configured, the
    question needs more than what was said, people have chosen a model, or the conversation is too
    long for the other one.
    """
    rules, subject = terms.limits.tier_rules, context.subject
    is_question = run.reply_route.route is Route.QUESTION and not run.model
    if not (rules.reply and is_question) or stored.has_failed or context.investigates:
        return None
    preferences = _read_known_preferences(subject.project_id, subject.mr_iid, deps)
    chosen = choose_reply_model(rules, context.tier, preferences)
    if chosen is None:
        return None
    try:
        limits = terms.limits_for(deps.runtime.make_reply_model(chosen.served_by))
    except ConfigError as error:
        log.warning("models.reply: %s", error)
        return None
    # The conversation is not folded for one answer.
    if estimate_size(context) >= limits.context_tokens * limits.context.fold_at:
        return None
    level = chosen.reasoning or "its own level"
    log.info("%d!%d: reply by %s, %s", subject.project_id, subject.mr_iid, chosen.model, level)
    return chosen


def open_model(context: Context, deps: Deps, run: Attempt) -> Model:
    """Open the model of a turn: the one that a comment names, the reply's, the tier's, or the
    configured one."""
    if context.reply_model:
        try:
            return deps.runtime.make_reply_model(context.reply_model.served_by)
        except ConfigError as error:
            log.warning("models.reply: %s", error)
    if run.model or context.tier is None:
        return (run.model or deps.runtime.model)()
    return _open_served(context.tier, deps)


def _open_served(chosen: TierChoice, deps: Deps) -> Model:
    """Open a tier's model, or the default one if it is no longer configured."""
    try:
        return deps.runtime.make_model(chosen.served_by)
    except ConfigError as error:
        log.warning("tier %s: %s", chosen.tier, error)
        return deps.runtime.model()


def change_model(terms: Terms, deps: Deps, run: Attempt, context: Context) -> tuple[Model, Limits]:
    """Open the model that goes on with a turn, with its limits."""
    if context.tier:
        _log_tier(context.subject, context.tier)
    model = open_model(context, deps, run)
    return model, terms.limits_for(model)


def find_signal(
    context: Context, outcome: Outcome, read_verdict: Callable[[Context], Verdict | None]
) -> Signal | None:
    """Return why an answer calls for a stronger model: an unproven claim, or no clear cause.

    None if it does not. `read_verdict` returns the verdict that the note would have.
    """
    if not context.investigates or outcome.status is not Status.DONE:
        return None
    verdict = read_verdict(replace(context, outcome=outcome))
    if verdict not in (None, Verdict.UNKNOWN, Verdict.ABSTAIN):
        return None
    claimed = parse_finding(outcome.text).verdict in CLAIMS
    return Signal.UNPROVEN if claimed else Signal.UNCLEAR


def describe_tier(context: Context) -> str:
    """Return the turn's tier with its level, as "smart, high"; "" if it has none."""
    if context.reply_model:
        return ", ".join(filter(None, (REPLY, context.reply_model.reasoning)))
    chosen = context.tier
    return ", ".join(filter(None, (chosen.tier, chosen.reasoning))) if chosen else ""


def describe_models(context: Context) -> tuple[str, ...]:
    """Return a line for each model asked in a turn that changed the model, and the reason."""
    raised = context.tier if context.tier and context.tier.raised_in == context.turn else None
    left = context.reply_by.end_reason if context.reply_by else ""
    if not (raised or left):
        return ()
    asked: dict[str, int] = {}
    for each in context.calls:
        if each.turn == context.turn and not each.task:
            served = ", ".join(filter(None, (each.tier, each.reasoning)))
            name = ": ".join(filter(None, (served, each.model)))
            asked[name] = asked.get(name, 0) + 1
    lines = [f"{name}, {count} requests" if count > 1 else name for name, count in asked.items()]
    reasons = [f"{REPLY}: {left}"] if left else []
    return (*lines, *reasons, *([f"{raised.tier}: {raised.reason}"] if raised else []))
