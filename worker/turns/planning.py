"""Prepares an investigation: what is announced in the first message, and who proposes the steps."""

from dataclasses import replace

from worker.conversation.absorb import charge_helper
from worker.conversation.context import Context
from worker.conversation.messages import User
from worker.conversation.plan import (
    EXEC,
    MOST_TOKENS,
    TASK,
    PlannedFile,
    has_plan,
    list_planned_files,
    make_planned_call,
    propose_steps,
    read_steps,
    tell_plan,
)
from worker.settings.runs import PlanBy
from worker.turns.parts import Deps
from worker.verdict.jobs import EXCERPT

_SHOWN = 4096
"""Bytes of logs, and of a long diff, that the first message shows if there is a plan."""


def find_planner(context: Context, deps: Deps) -> PlanBy:
    """Return who plans the session's investigations: the workflow says, or else the settings."""
    return deps.runtime.playbook.get(context.workflow).plan or deps.runtime.plan


def count_shown_bytes(context: Context, deps: Deps) -> int:
    """Return how many bytes of logs, and of the diff, the first message shows; 0 for excerpts."""
    if find_planner(context, deps) is PlanBy.OFF:
        return 0
    return EXCERPT if deps.runtime.playbook.get(context.workflow).compact else _SHOWN


def add_plan(context: Context, deps: Deps) -> Context:
    """Return the context whose first message announces files and proposes steps.

    It changes only a session whose model is about to be asked for the first time. A helper's cost
    is charged.
    """
    first, by, survey = context.messages[0], find_planner(context, deps), context.survey
    if by is PlanBy.OFF or survey is None or not isinstance(first, User):
        return context
    files = list_files(context, deps)
    if context.outcome or len(context.messages) > 1 or not files:
        return context
    context, steps = _ask_helper(context, first, deps) if by is PlanBy.MODEL else (context, ())
    plan = deps.runtime.redact(tell_plan(survey, files, steps or propose_steps(survey, files)))
    planned = replace(context, messages=(User(f"{first.text}\n\n{plan}"),))
    workflow = deps.runtime.playbook.get(context.workflow)
    first_call = make_planned_call(files) if workflow.leads and workflow.allows(EXEC) else None
    return planned.add(first_call) if first_call else planned


def list_files(context: Context, deps: Deps) -> tuple[PlannedFile, ...]:
    """List the files that are saved for a session's investigation without being asked for."""
    allows = deps.runtime.playbook.get(context.workflow).allows
    return list_planned_files(context.survey, allows)


def list_announced_files(context: Context, deps: Deps) -> tuple[PlannedFile, ...]:
    """List the files that were announced to the model in this turn, and must be there."""
    return list_files(context, deps) if has_plan(context) else ()


def _ask_helper(context: Context, first: User, deps: Deps) -> tuple[Context, tuple[str, ...]]:
    """Return the helper's steps; none if it does not answer or names no existing tool."""
    helper, tools = deps.runtime.helper, [tool.name for tool in context.tools]
    request = f"{first.text}\n\nTools: {', '.join(tools)}"
    answer = helper.ask(TASK, request, MOST_TOKENS) if helper else None
    if answer is None:
        return context, ()
    return charge_helper(context, "plan", [answer]), read_steps(answer.text, tools)
