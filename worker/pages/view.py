"""Builds the content of a stored session's page: what is said of each step, the chart of tokens.
Pure; caps texts, which templates escape.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

from markupsafe import Markup

from worker.answer.parse import find_unavailable
from worker.conversation.context import INCIDENT, KNOWN, RULE, TRAIN, CallCost, Context
from worker.conversation.folds import FoldKind
from worker.conversation.limits import SOFT, TurnUsage, measure_budgets
from worker.conversation.messages import Assistant, ToolCall, ToolResult, Usage, User
from worker.conversation.prompts import QUESTION_FOLLOWS
from worker.pages import texts
from worker.pages.texts import (
    GIVEN_UP,
    CharacterBudget,
    Content,
    Text,
    check_web_url,
    format_cost,
    format_count,
    format_duration,
    format_size,
    format_time,
    indent_json,
    split_fields,
)
from worker.safety.redacted_values import describe_counts
from worker.safety.untrusted import one_line
from worker.sessions.recent import RUNNING
from worker.settings.limits import LimitSettings, Unit
from worker.verdict import aftermath
from worker.verdict.aftermath import Aftermath, Feedback

MAX_STEPS = 600
"""The most steps of a turn that are shown; a run's own limit is far lower."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn as it is stored. `state` is RUNNING or INTERRUPTED for one that is not committed."""

    context: Context
    state: str = ""
    files: bool = False
    feedback: Feedback = field(default_factory=Feedback)
    aftermath: Aftermath | None = None


@dataclass(frozen=True, slots=True)
class _ToolUse:
    """A tool call and its result, which is None before it has ended."""

    name: str
    arguments: Content
    result: Content | None
    is_error: bool
    size: str


@dataclass(slots=True)
class Step:
    """One model call, or our message before it (`ours`), or a fold (`ours`).

    `title` replaces the template's "Asked" or "Told".
    """

    number: int = 0
    ours: Text | None = None
    title: str = ""
    text: Text | None = None
    calls: list[_ToolUse] = field(default_factory=list)
    time: str = ""
    seconds: str = ""
    tools: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Gauge:
    """A budget and how much of it was used; `percent` is at most 100. It `is_near` its limit from
    where the model is warned."""

    title: str
    amount: str
    limit: str
    percent: float
    is_near: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: an analysis or a reply. `asides` stand with the note, `details` at the end."""

    context: Context
    title: str
    status: str
    steps: list[Step]
    note: Markup | None
    gauges: list[_Gauge]
    asides: list[tuple[str, str]]
    details: list[tuple[str, str]]
    files: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One rectangle of a bar: from `y` downwards."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class _CallBar:
    """One model call. `model` names the model, or the tier and the helper's task."""

    number: int
    x: float
    parts: tuple[Part, ...]
    usage: Usage
    cost_usd: float | None
    model: str


@dataclass(frozen=True, slots=True)
class _Chart:
    """All model calls of a session. Bars are one unit wide; the picture is `width` by 100."""

    bars: tuple[_CallBar, ...]
    top: str
    width: int
    turns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A session's page. `context` is the newest turn's."""

    context: Context
    pipeline_url: str
    verdict: str
    seconds: float
    models: str
    turns: list[Turn]
    chart: _Chart | None
    full: bool
    hidden_turns: int


def build_page(turns: Sequence[StoredTurn], limits: LimitSettings, *, hidden: int = 0) -> Page:
    """Build the page of a session's turns, oldest first; `hidden` older ones are left out."""
    room, last = CharacterBudget(), turns[-1].context
    project, subject = last.subject.web_url.partition("/-/")[0], last.subject
    pipeline = check_web_url(f"{project}/-/pipelines/{subject.pipeline_id}")
    # The newest turn matters most to readers, so it uses the character budget first.
    views = [_build_turn(each, limits, room) for each in reversed(turns)][::-1]
    verdict = next((each.context.verdict for each in reversed(turns) if each.context.verdict), "")
    return Page(
        context=last,
        pipeline_url=pipeline if subject.pipeline_project_id == subject.project_id else "",
        verdict=verdict,
        seconds=sum(each.context.seconds for each in turns),
        models=", ".join(dict.fromkeys(one_line(each.context.model, 80) for each in turns)),
        turns=views,
        chart=_build_chart(last.calls[-400:]),
        full=room.characters <= 0,
        hidden_turns=hidden,
    )


def _build_turn(stored: StoredTurn, limits: LimitSettings, room: CharacterBudget) -> Turn:
    context = stored.context
    title = "Analysis" if context.turn == 0 else f"Reply {context.turn}"
    if context.turn and context.is_look:
        title = f"Analysis of pipeline {context.subject.pipeline_id}"
    status = context.outcome.status.value if context.outcome else RUNNING
    steps = list(islice(_build_steps(context, room), MAX_STEPS + 1))
    if len(steps) > MAX_STEPS:
        steps[MAX_STEPS:] = [Step(steps[-1].number, note="What came after is not shown.")]
    return Turn(
        context=context,
        title=title,
        status=stored.state or (GIVEN_UP if context.is_given_up else status),
        steps=steps,
        note=texts.render_note(context.note_text) if context.note_text else None,
        gauges=list(_list_gauges(context.turn_usage, context.seconds, limits)),
        asides=list(_list_asides(stored)),
        details=list(_list_details(context)),
        files=stored.files,
    )


_FOUND_BY = {
    RULE: "a rule",
    KNOWN: "an earlier finding",
    INCIDENT: "what fails on the target branch",
    TRAIN: "what is in front of it in the merge train",
}


def _list_asides(stored: StoredTurn) -> Iterator[tuple[str, str]]:
    context = stored.context
    if found_by := _FOUND_BY.get(context.found_by):
        yield "Found by", found_by
    if missing := (*context.losses, *find_unavailable(context)):
        yield "Not available", one_line("; ".join(missing[:20]), 1500)
    if lines := aftermath.describe_aftermath(stored.feedback, stored.aftermath):
        yield "Afterwards", "; ".join(lines)


def _list_details(context: Context) -> Iterator[tuple[str, str]]:
    if chosen := context.tier:
        yield "Tier", one_line(f"{chosen.tier} ({chosen.reason})", 120)
    if reply := context.reply_by:
        left = f"; not to its end: {reply.end_reason}" if reply.end_reason else ""
        yield "Reply by", one_line(f"{reply.model}{left}", 160)
    if context.gave_way:
        yield "Did not answer", one_line(context.gave_way, 80)
    if context.redactions:
        yield "Redacted", one_line(describe_counts(context.redactions), 600)


def _list_gauges(spent: TurnUsage, seconds: float, limits: LimitSettings) -> Iterator[_Gauge]:
    for each in measure_budgets(limits, spent, spent.started_at + seconds):
        write = FORMATS[each.budget.unit]
        if amount := write(each.amount):  # a turn that has not ended has no time yet
            percent = round(min(100.0, max(0.0, 100 * each.share)), 1)
            near = each.share >= SOFT
            limit = write(each.limit) + (" tokens" if each.budget.unit is Unit.TOKENS else "")
            yield _Gauge(each.budget.title, amount, limit, percent, near)


FORMATS: Mapping[Unit, Callable[[float], str]] = {
    Unit.TIMES: lambda times: f"{times:.0f}",
    Unit.TOKENS: lambda tokens: format_count(int(tokens)),
    Unit.SECONDS: format_duration,
    Unit.DOLLARS: format_cost,
}
"""How amounts of a budget are shown."""


def _build_own_message(message: str, is_reply: bool, room: CharacterBudget) -> Iterator[Step]:
    """Build the steps of our message. Of a reply, the question comes first; what the model was told
    with it is a step of its own."""
    before, separator, question = message.partition(QUESTION_FOLLOWS)
    if is_reply and separator and question.strip():
        yield Step(ours=room.clip_text(question.strip()))
        yield Step(ours=room.clip_text(before + separator.rstrip()), title="Told")
    else:
        yield Step(ours=room.clip_text(indent_json(message)))


def _build_steps(context: Context, room: CharacterBudget) -> Iterator[Step]:
    """Build steps from the turn's messages, and from model calls that left no message."""
    own = [call for call in context.calls if call.turn == context.turn]
    results: dict[str, list[ToolResult]] = {}
    for each in context.messages[context.turn_start :]:
        if isinstance(each, ToolResult):
            results.setdefault(each.call_id, []).append(each)
    costs, silent = _pair_calls(context, own)
    between = {
        call.message: later.sent_at - call.sent_at - call.seconds
        for call, later in pairwise(own)
        if call.sent_at and later.sent_at
    }
    number = 0
    end = len(context.messages)
    for place in range(min(context.turn_start, end), end + 1):
        for call in silent.get(place, ()):
            number += 1
            about = f"A helper was asked: {one_line(call.task, 40)}." if call.task else ""
            yield _add_times(Step(number, note=about or "No answer that could be used."), call)
        yield from _build_folds(context, place, room)
        message = context.messages[place] if place < end else None
        if isinstance(message, User):
            yield from _build_own_message(
                message.text, context.turn > 0 and place == context.turn_start, room
            )
        elif isinstance(message, Assistant):
            number += 1
            step = Step(number, text=room.clip_text(message.text) if message.text.strip() else None)
            step.calls = [_make_tool_use(call, results, room) for call in message.calls]
            step.tools = format_duration(between.get(place, 0.0)) if step.calls else ""
            yield _add_times(step, costs.get(place))


def _build_folds(context: Context, place: int, room: CharacterBudget) -> Iterator[Step]:
    """Build a step for each fold that was made before the message at `place`."""
    for fold in context.folds:
        if fold.made_at == place:
            hidden = f"messages {fold.start + 1} to {fold.upto}"
            title = f"Folded ({fold.kind})"
            yield Step(
                ours=room.clip_text(fold.text or _FOLDED.get(fold.kind, "") + hidden), title=title
            )


_FOLDED = {
    FoldKind.PRUNE: "From here on the model is sent only the beginning and the end of long tool "
    "results in ",
    FoldKind.CUT: "From here on the model is sent only the beginning and the end of long ",
}


def _pair_calls(
    context: Context, own: Sequence[CallCost]
) -> tuple[dict[int, CallCost], dict[int, list[CallCost]]]:
    """Return calls by the index of their answers, and unanswered ones by the index they precede."""
    # An impossible duration is replaced by 0.
    own = [call if 0 <= call.seconds < 10**7 else replace(call, seconds=0.0) for call in own]
    answers = [
        place
        for place in range(context.turn_start, len(context.messages))
        if isinstance(context.messages[place], Assistant)
    ]
    if all(call.message < 0 and not call.sent_at for call in own):  # older sessions lack both
        return dict(zip(answers, own, strict=False)), {}
    costs: dict[int, CallCost] = {}
    silent: dict[int, list[CallCost]] = {}
    before, places = context.turn_start, set(answers)
    for call in own:
        if call.message in places:
            costs[call.message], before = call, call.message + 1
        else:
            silent.setdefault(min(before, len(context.messages)), []).append(call)
    return costs, silent


def _add_times(step: Step, call: CallCost | None) -> Step:
    if call is None:
        return step
    step.time, step.seconds = format_time(call.sent_at, "%H:%M:%S"), format_duration(call.seconds)
    return step


def _make_tool_use(
    call: ToolCall, results: Mapping[str, list[ToolResult]], room: CharacterBudget
) -> _ToolUse:
    left = results.get(call.id, [])
    result = left.pop(0) if left else None  # a provider may give one id twice
    return _ToolUse(
        name=one_line(call.name, 80),
        arguments=split_fields(call.arguments, room),
        result=split_fields(result.content, room) if result else None,
        is_error=bool(result and result.is_error),
        size=format_size(len(result.content.encode(errors="replace"))) if result else "",
    )


def _build_chart(calls: Sequence[CallCost]) -> _Chart | None:
    most = max((call.usage.input for call in calls), default=0)
    if most <= 0:
        return None
    bars = tuple(_build_bar(number, call, most) for number, call in enumerate(calls))
    turns = tuple(
        float(number)
        for number in range(1, len(calls))
        if calls[number].turn != calls[number - 1].turn
    )
    return _Chart(bars, format_count(most), max(len(bars), 12), turns)


def _build_bar(number: int, call: CallCost, most: int) -> _CallBar:
    parts, below, usage = [], 100.0, call.usage
    for kind, tokens in (
        ("cached", usage.cache_read),
        ("written", usage.cache_write),
        ("fresh", usage.uncached_input),
    ):
        height = round(100 * max(0, tokens) / most, 2)
        if height:
            below = round(below - height, 2)
            parts.append(Part(kind, below, height))
    return _CallBar(
        number + 1, number + 0.1, tuple(parts), usage, call.cost_usd, _describe_model(call)
    )


def _describe_model(call: CallCost) -> str:
    model = call.model.partition("/")[2] or call.model
    level = ", ".join(filter(None, (call.task or call.tier, call.reasoning)))
    return one_line(f"{level}: {model}" if level else model, 80)
