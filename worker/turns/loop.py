"""Performs what `decide` asks for, and writes a checkpoint after every step.

The final request and the prompt cache: switching the tools off in the request (`tool_choice: none`)
makes Anthropic discard the cached messages, in the very request in which they are longest. An
eight-request session would cost 1.4 times its minimum. So if the provider charges for that, the
tools stay in the request, the notice says that they are switched off, and that is enforced here:
`absorb` drops every call of that answer, and a call that is not in the context is never run. This
is as strict as the provider's switch. But only the switch guarantees a text, so an answer that has
nothing but calls is requested once more with the tools off, without cache marks, which would not
help. This one request may exceed `max_iterations`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from worker.answer import repair
from worker.answer.parse import is_finding
from worker.clock import Clock
from worker.conversation import prompts
from worker.conversation.absorb import (
    absorb_reply,
    charge_helper,
    close_calls,
    close_lost_calls,
    halt_turn,
    list_saving_calls,
    record_overflow,
)
from worker.conversation.context import CacheMark, Context, Outcome
from worker.conversation.decide import HINT, Act, Ask, Stop, decide
from worker.conversation.events import Answered, Asking, Stage, ToolRan, Watcher
from worker.conversation.fold_plan import choose_fold, estimate_size
from worker.conversation.folds import (
    MOST_SUMMARY_TOKENS,
    SUMMARY_TASK,
    Fold,
    FoldKind,
    build_view,
    check_summary,
    list_fold_ends,
    list_missing_files,
    split_messages,
    summarise_by_rules,
    write_transcript,
)
from worker.conversation.limits import Limits, find_room, is_time_up
from worker.conversation.messages import (
    Message,
    ToolCall,
    User,
    count_groups,
    count_results,
    find_open_calls,
    find_saved_files,
)
from worker.conversation.model import Helper, HelperAnswer, MarkPlan, Model, Request, plan_marks
from worker.conversation.model_switch import (
    SET_TIER,
    Escalate,
    answer_set_tier,
    escalate_for_answer,
    hand_over,
    leave_reply_model,
    record_model,
)
from worker.conversation.tiers import REPLY
from worker.errors import CIRCUIT_OPEN, SILENT, ContextOverflow, ModelError, Postponed, SandboxLost
from worker.settings.models import Signal
from worker.tools.source import Toolbox
from worker.turns.examination import Examiner

log = logging.getLogger("sandpiper.turn")


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of one run's loop."""

    model: Model
    toolbox: Toolbox
    clock: Clock
    checkpoint: Callable[[Context], None]
    """Called after every step."""
    watch: Watcher
    examiner: Examiner = field(default_factory=Examiner)
    """Says what is wrong with an answer."""
    remind: Callable[[Context], str] = lambda context: ""
    """The notice of a request that has no other one."""
    news: Callable[[], str] = lambda: ""
    """What else the model must know, once; it stays in the history."""
    may_postpone: bool = False
    """While no provider answers, the run ends in Postponed, and not with that reason."""
    prepare_tools: Callable[[Context], None] = lambda context: None
    """Called before calls are run."""
    after_tools: Callable[[Context], None] = lambda context: None
    replace_sandbox: Callable[[str], int | None] = lambda error: None
    """Called when the sandbox was lost: how many messages the new sandbox's files cover, None if
    there is no new one."""
    helper: Helper | None = None
    """Writes the summaries of folds; without one, rules do."""
    redact: Callable[[str], str] = lambda text: text
    change_model: Callable[[Context], tuple[Model, Limits]] | None = None
    """Opens the model that goes on with a context, with its limits."""
    find_signal: Callable[[Context, Outcome], Signal | None] = lambda context, outcome: None
    """Why an answer calls for a stronger model."""


def run_loop(context: Context, limits: Limits, parts: LoopParts) -> Context:
    """Run `context` to its outcome. Raises only what `checkpoint` raises, and Postponed."""
    served = context.reply_model or context.tier
    while True:
        if parts.change_model and (context.reply_model or context.tier) != served:
            served = context.reply_model or context.tier
            model, limits = parts.change_model(context)
            why = (
                f"{REPLY} ({context.reply_by.end_reason})" if context.reply_by else "another model"
            )
            if context.tier and context.tier.raised_in == context.turn:
                why = f"tier {context.tier.tier} ({context.tier.reason})"
            parts.watch(Stage(f"{why}: {model.name} goes on"))
            parts, context = replace(parts, model=model), replace(context, model=model.name)
        match decide(context, limits, parts.clock.now()):
            case Ask() as ask:
                context = _ask_model(context, ask, limits, parts)
            case Act(calls, is_repetition=True):
                context = close_calls(context, HINT)
            case Act(calls):
                context = _call_tools(context, calls, limits, parts)
            case Escalate() as escalation:
                context = hand_over(context, escalation)
            case Fold() as fold:
                context = make_fold(context, fold, parts)
            case Stop(outcome):
                outcome, now = repair.join_repair(context, outcome), parts.clock.now()
                context, objections = parts.examiner.examine(context, outcome, limits, now)
                taken = None if objections else _raise_for_answer(context, outcome, limits, parts)
                if not objections and taken is None:
                    return parts.examiner.conclude(context, outcome)
                context = taken or repair.ask_for_repair(context, objections)
        parts.checkpoint(context)


def _raise_for_answer(
    context: Context, outcome: Outcome, limits: Limits, parts: LoopParts
) -> Context | None:
    """Return the context in which another model continues, None if the answer is kept.

    A reply's own model changes no verdict: a new one is written by the session's.
    """
    if context.reply_model:
        is_new = is_finding(outcome.text)
        return leave_reply_model(context, "it came to another verdict") if is_new else None
    signal = parts.find_signal(context, outcome) if context.tier else None
    return escalate_for_answer(context, limits, signal) if signal else None


def _ask_model(context: Context, ask: Ask, limits: Limits, parts: LoopParts) -> Context:
    context = context.add(User(news)) if (news := parts.news()) else context
    sent_at, started = parts.clock.now(), parts.clock.monotonic()
    request, cache = _make_request(context, ask, limits, parts, sent_at)
    parts.watch(Asking(context.turn_usage.iterations + 1, limits.max_iterations, request.notice))
    try:
        reply = parts.model.reply(request)
    except ModelError as error:
        return _handle_failure(context, error, limits, parts, sent_at)
    seconds = parts.clock.monotonic() - started
    parts.watch(
        Answered(
            usage=reply.usage,
            context_share=reply.usage.input / find_room(limits, context.turn_usage),
            cost_usd=reply.cost_usd,
            seconds=seconds,
            text=reply.text,
            calls=reply.calls,
        )
    )
    name = parts.model.name
    if context.reply_model:
        # Its signed thinking would bind a notice into the history that later turns must not obey.
        reply = replace(reply, wire="", thought=False)
    after = absorb_reply(
        context,
        ask,
        reply,
        name,
        request.notice if reply.thought and parts.model.binds_thinking else "",
        at=sent_at,
        seconds=seconds,
        cache=cache,
        loop=limits.loop,
    )
    if context.reply_model and after.turn_usage.halt:
        return leave_reply_model(after, "it refused to answer", gave_way=name)
    return record_model(after, name)


def _make_request(
    context: Context, ask: Ask, limits: Limits, parts: LoopParts, now: float
) -> tuple[Request, CacheMark | None]:
    """Return the next request, and the prompt cache as it will be after it."""
    reply_model, clock = context.reply_model, parts.clock
    said = prompts.write_notice(ask.soft, ask.final, insist=ask.insist, is_empty=ask.empty)
    notice = said or (prompts.FROM_ABOVE if reply_model else parts.remind(context))
    sent = build_view(context.messages, context.folds)
    keeps_cache = parts.model.keeps_cache_without_tools
    tools_allowed = not ask.final or not (ask.insist or keeps_cache)
    marked = MarkPlan((), context.cache)
    # A reply's own model writes no cache: it is asked once, and the marks are the session's.
    if (tools_allowed or keeps_cache) and not reply_model:
        ends = () if context.cache else list_fold_ends(context.messages, context.folds)
        marked = plan_marks(
            count_groups(sent), context.cache, ephemeral=bool(notice), now=now, fold_ends=ends
        )
    left = limits.wall_clock - (clock.now() - context.turn_usage.started_at)
    seconds = max(left, 0.0) + limits.final_grace
    request = Request(
        system=context.system,
        tools=context.tools,
        messages=sent,
        notice=notice,
        tools_allowed=tools_allowed,
        marks=marked.marks,
        deadline=clock.monotonic()
        + (min(seconds, reply_model.timeout) if reply_model else seconds),
        session=context.session_id,
        max_output=reply_model.max_output if reply_model else 0,
    )
    return request, marked.cache


def _handle_failure(
    context: Context, error: ModelError, limits: Limits, parts: LoopParts, sent_at: float
) -> Context:
    """Return the context, halted, or to go on: with the session's own model after the reply's has
    failed, or with a fold. Raises Postponed if the run is to wait for the provider."""
    name, now = parts.model.name, parts.clock.now()
    if context.reply_model:
        log.warning("session %s: %s", context.session_id, error)
        return leave_reply_model(context, "it did not answer", gave_way=name)
    tried = record_model(context, name)
    if isinstance(error, ContextOverflow):
        # The provider is believed, and not our estimate of the request.
        refused = record_overflow(tried, error.limit, error.count, estimate_size(tried))
        can_fold = choose_fold(refused, limits, now) is not None
        return refused if can_fold else halt_turn(tried, str(error))
    may_pass = error.transient or error.kind == CIRCUIT_OPEN
    if error.kind == SILENT:
        # A silent provider uses the run's time up, as a slow one does; no other failure does.
        sent_at, may_pass = now, error.transient and not is_time_up(limits, context.turn_usage, now)
    if parts.may_postpone and may_pass:
        raise Postponed(str(error), waits_since=sent_at, retry_after=error.retry_after) from error
    return halt_turn(tried, str(error))


def _call_tools(
    context: Context, calls: Sequence[ToolCall], limits: Limits, parts: LoopParts
) -> Context:
    for call in calls if context.tier else ():
        if call.name == SET_TIER:
            context = answer_set_tier(context, call, limits)
    calls = [call for call in calls if not context.tier or call.name != SET_TIER]
    if not calls:
        return context
    first = count_results(context.messages)
    by_id = {call.id: call for call in calls}
    try:
        parts.prepare_tools(context)
        for ran in parts.toolbox.run(calls, first):
            context = context.add(replace(ran.result, ended_at=parts.clock.now()))
            shown = len(ran.result.content.encode(errors="replace"))
            call = by_id[ran.result.call_id]
            parts.watch(ToolRan(call, ran.size, shown, ran.seconds, ran.result.is_error))
            # A call that must not run twice is stored at once; one that only reads, with the rest.
            if not parts.toolbox.is_repeatable(call) and find_open_calls(context.messages):
                parts.checkpoint(context)
            if is_time_up(limits, context.turn_usage, parts.clock.now()):
                context = close_calls(context, "the time of this turn is used up")
                break
    except SandboxLost as error:
        return _continue_in_new_sandbox(context, error, parts)
    parts.after_tools(context)
    return context


def _continue_in_new_sandbox(context: Context, error: SandboxLost, parts: LoopParts) -> Context:
    """Return the context for a new sandbox with this turn's documents; halted if there is none.

    Calls that only read are made again. Other open calls may have run and are not repeated, unless
    the sandbox never started.
    """
    try:
        covered = parts.replace_sandbox(str(error))
        if covered is not None:
            for call, number in list_saving_calls(context, parts.toolbox.is_repeatable, covered):
                for _ in parts.toolbox.run([call], number):
                    pass
            if not error.has_run:
                return context
            return close_lost_calls(context, parts.toolbox.is_repeatable, in_sandbox=True)
    except SandboxLost as again:
        error = again
    return halt_turn(context, f"the sandbox was lost: {error}")


_CHARACTERS_PER_TOKEN, _MOST_SHARE = 3, 0.7
"""How much of its window a helper is given, with a cautious estimate of characters per token."""


def make_fold(context: Context, planned: Fold, parts: LoopParts) -> Context:
    """Return the context with the planned fold and its text. Raises nothing."""
    fold = replace(planned, drops_wire=parts.model.binds_thinking)
    if fold.leaves_out:
        context, fold = _write_text(context, fold, parts)
    folded = replace(context, folds=(*context.folds, fold), cache=None)
    size = estimate_size(folded)
    summary = f"conversation folded ({fold.kind}, {fold.upto - fold.start} messages)"
    log.info("session %s: %s, about %d tokens are left", context.session_id, summary, size)
    parts.watch(Stage(f"{summary}: about {size:,} tokens are left"))
    spent = replace(folded.turn_usage, context_tokens=size)
    # With the messages goes a warning that has stayed among them.
    return replace(
        folded, turn_usage=replace(spent, warned_share=0.0) if fold.leaves_out else spent
    )


def _write_text(context: Context, fold: Fold, parts: LoopParts) -> tuple[Context, Fold]:
    before = next((each for each in reversed(context.folds) if each.leaves_out), None)
    since = before.upto if before else fold.start
    stretch = [
        message
        for index, message in enumerate(context.messages[since : fold.upto], since)
        if index not in fold.kept_messages
    ]
    earlier_text = before.text if before and fold.kind is not FoldKind.WINDOW else ""
    text, by_model = "", False
    if fold.kind is not FoldKind.WINDOW:
        answers: list[HelperAnswer] = []
        text = _summarise(stretch, earlier_text, fold, parts, answers)
        by_model = bool(text)
        text = text or summarise_by_rules(stretch, earlier_text)
        context = charge_helper(context, "summary", answers)
    hidden = context.messages[fold.start : fold.upto]
    written = (path for path, _ in list_missing_files(context.messages, [fold]))
    told = prompts.tell_fold(
        len(hidden) - len(fold.kept_messages),
        text,
        [*find_saved_files(hidden), *written],
        by_model=by_model,
    )
    return context, replace(fold, text=parts.redact(told))


def _summarise(
    stretch: Sequence[Message],
    before: str,
    fold: Fold,
    parts: LoopParts,
    answers: list[HelperAnswer],
) -> str:
    """Return the helper's summary, "" if there is none or it fails the check.

    The helper's answers, which have their cost, are added to `answers`.
    """
    if parts.helper is None:
        return ""
    texts = [before] if before else []
    whole = "\n\n".join([*texts, *write_transcript(stretch)])
    room = int(parts.helper.context_tokens * _MOST_SHARE * _CHARACTERS_PER_TOKEN)
    most = room // 2 if fold.kind is FoldKind.RECURSIVE else room
    if len(whole) <= most:
        return _ask_helper(whole, whole, parts.helper, answers)
    for cluster in split_messages(stretch, most):
        text = "\n\n".join(write_transcript(cluster))[:most]
        texts.append(_ask_helper(text, text, parts.helper, answers) or summarise_by_rules(cluster))
    return _ask_helper("\n\n".join(texts)[:room], whole, parts.helper, answers)


def _ask_helper(text: str, source: str, helper: Helper, answers: list[HelperAnswer]) -> str:
    answer = helper.ask(SUMMARY_TASK, text, MOST_SUMMARY_TOKENS)
    if answer is None:
        return ""
    answers.append(answer)
    return check_summary(answer.text, source)
