"""Runs a stored analysis again, on its recorded tool results."""

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sandbox.background import start_in_background
from worker.conversation import prompts
from worker.conversation.context import Context, SessionKey, Status
from worker.conversation.decide import normalise_arguments
from worker.conversation.events import Watcher
from worker.conversation.limits import TurnUsage
from worker.conversation.messages import Assistant, ToolCall, ToolResult, Usage, find_results
from worker.conversation.plan import EXEC
from worker.errors import HandedOver
from worker.settings.playbook import Workflow
from worker.tools.source import Ran, Toolbox
from worker.turns import triage
from worker.turns.investigate import make_examiner
from worker.turns.loop import LoopParts, run_loop
from worker.turns.parts import Deps, Terms, Toolset
from worker.turns.report import read_finding
from worker.turns.sandbox import open_toolset
from worker.turns.tiers import make_terms
from worker.verdict.finding import Finding


@dataclass(frozen=True, slots=True)
class Side:
    """The result of the stored or of the replayed analysis. `cost_usd` is None if unknown."""

    model: str
    verdict: str
    proven_quotes: int
    unproven_quotes: int
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    is_whole: bool
    answer: str


@dataclass(frozen=True, slots=True)
class Replay:
    """Both sides, and how the tool calls of the replayed one were answered."""

    stored_side: Side
    replayed_side: Side
    recorded_calls: int
    new_commands: int
    unavailable_calls: int


class _RecordedToolbox:
    """Answers calls from a session's own record. Implements tools.source.Toolbox.

    A repeated call gets the next recorded result each time; the last result is used again and
    again. A command without a record runs on the session's restored files. Any other call without a
    record is unavailable.
    """

    def __init__(self, context: Context, live: Toolbox) -> None:
        self._live = live
        results = {each.call_id: each for each in find_results(context.messages)}
        self._results: dict[tuple[str, str], deque[ToolResult]] = defaultdict(deque)
        for message in context.messages:
            for call in message.calls if isinstance(message, Assistant) else ():
                if call.id in results:
                    self._results[_make_key(call)].append(results[call.id])
        self.recorded_calls = self.new_commands = self.unavailable_calls = 0

    def is_repeatable(self, call: ToolCall) -> bool:
        """Return True: every call may be repeated."""
        return True

    def run(self, calls: Sequence[ToolCall], first: int) -> Iterator[Ran]:
        """Yield the result of each call, in call order. Raises only SandboxLost."""
        for number, call in enumerate(calls, first):
            results = self._results.get(_make_key(call))
            if results:
                self.recorded_calls += 1
                stored = results.popleft() if len(results) > 1 else results[0]
                yield _make_ran(call, stored.content, stored.is_error)
            elif call.name == EXEC:
                self.new_commands += 1
                yield from self._live.run([call], number)
            else:
                self.unavailable_calls += 1
                content = {"unavailable": "this replay has no record of the call; go on without it"}
                yield _make_ran(call, json.dumps(content), is_error=True)


def _make_ran(call: ToolCall, content: str, is_error: bool) -> Ran:
    return Ran(ToolResult(call.id, call.name, content, is_error), len(content), 0.0)


def _make_key(call: ToolCall) -> tuple[str, str]:
    return call.name, normalise_arguments(call.arguments or "{}")


def replay_session(
    key: SessionKey, stored: Context, deps: Deps, watch: Watcher, workflow: Workflow | None
) -> Replay:
    """Replay a session's analysis, `stored`, with the model of `deps`. Nothing is posted or stored.

    Raises HandedOver between two steps once the leases of `deps` are stopping. `workflow` replaces
    the session's workflow. Quotes are proven against GitLab, as always.
    """
    if workflow:
        workflow = workflow.model_copy(update={"name": stored.workflow})
    told = workflow or deps.runtime.playbook.get(stored.workflow)
    terms = make_terms(stored.subject, told, deps)
    toolset = open_toolset(key, stored, terms, deps)
    archive = deps.storage.sessions.open_files(key, stored.turn)
    sandbox = start_in_background(
        deps.runtime.sandboxes,
        name_sandbox(key),
        [archive] if archive else [],
        at_first_use=True,
    )
    try:
        toolbox = _RecordedToolbox(
            stored, toolset.open_toolbox(sandbox, triage.read_error_text(stored))
        )
        fresh = _begin_anew(stored, toolset, workflow, deps)
        ended = _run(fresh, toolset, toolbox, terms, deps, watch)
    finally:
        sandbox.close()
    return Replay(
        _describe(stored, toolset, deps),
        _describe(ended, toolset, deps),
        toolbox.recorded_calls,
        toolbox.new_commands,
        toolbox.unavailable_calls,
    )


def name_sandbox(key: SessionKey) -> str:
    """Return the name by which the sandbox of a session's replay is found."""
    return f"replay-{key.session_id}"


def _begin_anew(
    stored: Context, toolset: Toolset, workflow: Workflow | None, deps: Deps
) -> Context:
    """Return the session as it was before the first model call, changed to `workflow` if given."""
    fresh = replace(
        stored,
        messages=stored.messages[:1],
        turn_usage=TurnUsage(started_at=deps.runtime.clock.now()),
        cache=None,
        usage=Usage(),
        cost_usd=0.0,
        outcome=None,
        found_by="",
        calls=(),
        folds=(),
        tier=None,
        reply_by=None,
    )
    if workflow is None:
        return fresh
    text = prompts.write_system_prompt(toolset.notes, workflow.text, compact=workflow.compact)
    return replace(fresh, system=text, tools=tuple(toolset.specs))


def _run(
    context: Context,
    toolset: Toolset,
    toolbox: _RecordedToolbox,
    terms: Terms,
    deps: Deps,
    watch: Watcher,
) -> Context:
    def end_if_stopping(context: Context) -> None:
        if deps.queue.leases.is_stopping:
            raise HandedOver(f"the replay of session {context.session_id} was stopped")

    model = deps.runtime.model()
    parts = LoopParts(
        model=model,
        toolbox=toolbox,
        clock=deps.runtime.clock,
        checkpoint=end_if_stopping,
        watch=watch,
        examiner=make_examiner(terms, toolset, deps),
        helper=deps.runtime.helper,
        redact=deps.runtime.redact,
    )
    return run_loop(replace(context, model=model.name), terms.limits_for(model), parts)


def _describe(context: Context, toolset: Toolset, deps: Deps) -> Side:
    finding: Finding | None = read_finding(context, toolset, deps)
    outcome = context.outcome
    return Side(
        model=context.model,
        verdict=str(finding.verdict) if finding else "",
        proven_quotes=len(finding.evidence) if finding else 0,
        unproven_quotes=finding.unproven if finding else 0,
        requests=sum(not each.task for each in context.calls),
        input_tokens=context.usage.input,
        output_tokens=context.usage.output,
        cost_usd=context.cost_usd,
        is_whole=outcome is not None and outcome.status is Status.DONE,
        answer=outcome.text if outcome else "",
    )
