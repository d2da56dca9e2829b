"""The tier of a turn: what people prefer, which one is chosen, and the model that serves it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from worker.core.conversation.context import Context, Outcome, Status, Subject
from worker.core.conversation.limits import Limits
from worker.core.conversation.messages import ToolSpec
from worker.core.conversation.model_switch import SET_TIER, make_set_tier_spec
from worker.core.failure.verdict import Verdict
from worker.core.finding import CLAIMS, parse_finding
from worker.core.ports import Model
from worker.core.ports.records import RECORD, update_record
from worker.core.routing.preferences import (
    dump_preference,
    load_preference,
    make_preference_name,
)
from worker.core.routing.tiers import (
    Preference,
    Signal,
    TierChoice,
    TierRules,
    resolve_tier,
)
from worker.errors import ConfigError, StoreError
from worker.playbook import Workflow
from worker.turns.parts import Deps, Run

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


def prepare_tier(
    subject: Subject,
    workflow: str,
    deps: Deps,
    run: Run,
    *,
    unfinished: Context | None = None,
    before: Context | None = None,
) -> tuple[TierChoice | None, Deps]:
    """Choose the tier of a turn; return it, and the job's parts with people's choices for the tiers
    and with the workflows in the form that fits the model.

    The tier is None if there are no tiers, or if a comment names the model. `unfinished` is the
    turn as another worker left it, whose tier is kept; `before` is the session's last turn.
    """
    rules = deps.runtime.limits.tier_rules
    if run.model or not rules:
        return None, deps
    preferences = _read_known_preferences(subject.project_id, subject.mr_iid, deps)
    if unfinished:
        chosen = unfinished.tier
    else:
        workflow_tier = deps.runtime.playbook.get(workflow).model_tier or ""
        chosen = resolve_tier(
            *(rules, workflow_tier, preferences, before.tier if before else None),
            before_at=before.turn_usage.started_at if before else 0.0,
        )
    if chosen is None:
        return None, deps
    log.info("%d!%d: tier %s: %s", subject.project_id, subject.mr_iid, chosen.tier, chosen.reason)
    return chosen, _fit_deps(chosen, rules.apply_preferences(preferences), deps)


def _fit_deps(chosen: TierChoice, rules: TierRules, deps: Deps) -> Deps:
    runtime = deps.runtime
    limits = replace(runtime.limits, tier_rules=rules)
    room = min(limits.context_tokens, _open_served(chosen, deps).context_tokens)
    return replace(
        deps, runtime=replace(runtime, limits=limits, playbook=runtime.playbook.fit(room))
    )


def _read_known_preferences(project_id: int, mr_iid: int, deps: Deps) -> Sequence[Preference]:
    """Read what people prefer; nothing if the store fails."""
    try:
        return read_preferences(project_id, mr_iid, deps)
    except StoreError as error:
        log.warning("%d!%d: preferences not read: %s", project_id, mr_iid, error)
        return ()


def open_model(context: Context, deps: Deps, run: Run) -> Model:
    """Open the model of a turn: the one that a comment names, the tier's, or the configured one."""
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


def change_model(workflow: str, deps: Deps, choice: TierChoice) -> tuple[Model, Limits]:
    """Open the model of another tier, with its limits."""
    model = _open_served(choice, deps)
    return model, deps.runtime.limits_for(workflow, model)


def list_tier_tools(workflow: Workflow, deps: Deps) -> tuple[ToolSpec, ...]:
    """List the tool `set_tier` if there are tiers and the workflow announces it."""
    rules = deps.runtime.limits.tier_rules
    is_announced = rules and workflow.announces(SET_TIER)
    return (make_set_tier_spec(rules),) if is_announced else ()


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
    chosen = context.tier
    return ", ".join(filter(None, (chosen.tier, chosen.reasoning))) if chosen else ""


def describe_models(context: Context) -> tuple[str, ...]:
    """Return a line for each model asked in a turn that changed the model, and the reason."""
    if context.tier is None or context.tier.raised_in != context.turn:
        return ()
    asked: dict[str, int] = {}
    for each in context.calls:
        if each.turn == context.turn and not each.task:
            level = f", {each.reasoning}" if each.reasoning else ""
            name = f"{each.tier}{level}: {each.model}"
            asked[name] = asked.get(name, 0) + 1
    lines = [f"{name}, {count} requests" if count > 1 else name for name, count in asked.items()]
    return (*lines, f"{context.tier.tier}: {context.tier.reason}")
