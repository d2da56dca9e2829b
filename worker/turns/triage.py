"""What the host finds out before the model is asked, and what it can answer without a model.

The survey goes into the session's first message, once. If rules or earlier findings explain all of
it, no model is asked and no sandbox is started.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from sandbox.base import Sandbox
from worker.conversation import prompts
from worker.conversation.absorb import charge_helper
from worker.conversation.context import KNOWN, RULE, Context, Outcome, Status
from worker.conversation.messages import Assistant, User
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
from worker.errors import StoreError
from worker.safety.untrusted import remove_foreign_hosts
from worker.settings.runs import PlanBy
from worker.turns.memory import MOST_KEPT, find_leads, read_hit
from worker.turns.parts import Deps, Toolset
from worker.turns.project_memory import tell_memory
from worker.verdict import known, verdict
from worker.verdict.jobs import EXCERPT, Group, Hit, RuleMatch, Survey
from worker.verdict.survey_text import MOST_TOLD, tell_diff, tell_leads, tell_survey, tell_time
from worker.verdict.verdict import Verdict

log = logging.getLogger("sandpiper.survey")


def add_survey(context: Context, toolset: Toolset, deps: Deps) -> Context:
    """Return `context` with the survey in its first message, unless it has begun or has one."""
    if context.turn or context.survey is not None or len(context.messages) != 1:
        return context
    shown = count_shown_bytes(context, deps)
    survey = make_survey(context, toolset, deps, shown)
    first = context.messages[0]
    parts = (
        tell_time(deps.runtime.clock.now()),
        tell_survey(survey, MOST_TOLD + shown),
        tell_leads(survey),
        tell_diff(survey),
        tell_memory(context, deps),
    )
    text = "\n\n".join(filter(None, parts))
    if isinstance(first, User):
        context = replace(context, messages=(User(f"{first.text}\n\n{deps.runtime.redact(text)}"),))
    return replace(context, survey=survey)


def make_survey(context: Context, toolset: Toolset, deps: Deps, shown: int = 0) -> Survey:
    """Return what failed, and what is known of it. `shown` is as in `Toolset.survey_failures`."""
    return _add_hits(_remove_hosts(toolset.survey_failures(shown), deps), context, deps)


def add_tools(context: Context, sandbox: Sandbox | None, deps: Deps) -> Context:
    """Return `context` whose first message also lists the interpreters and tools of `sandbox`.

    It changes only a session whose model is about to be asked for the first time.
    """
    first = context.messages[0]
    if context.outcome or len(context.messages) > 1 or not isinstance(first, User):
        return context
    if deps.runtime.playbook.get(context.workflow).compact:
        return context
    if not (tools := deps.runtime.describe_tools(sandbox)):
        return context
    return replace(context, messages=(User(f"{first.text}\n\n{prompts.tell_tools(tools)}"),))


def _remove_hosts(survey: Survey, deps: Deps) -> Survey:
    """Return the survey without foreign hosts in what GitLab says of a broken configuration. Other
    rules name hosts too, of plain characters between backticks, which are no links."""
    return replace(
        survey, groups=tuple(_remove_group_hosts(group, deps) for group in survey.groups)
    )


def _remove_group_hosts(group: Group, deps: Deps) -> Group:
    if group.rule_match is None or group.jobs:
        return group
    cause, to_do = (
        remove_foreign_hosts(text, deps.gitlab.hosts)
        for text in (group.rule_match.cause, group.rule_match.to_do)
    )
    return replace(group, rule_match=replace(group.rule_match, cause=cause, to_do=to_do))


def answer_without_model(context: Context, deps: Deps, *, by_known: bool) -> Context | None:
    """Return `context` with its outcome if no model is needed, else None.

    `by_known` says that an earlier finding may answer, as nobody has asked for an analysis.
    """
    survey = context.survey
    is_begun = not context.is_look or len(context.messages) != context.turn_start + 1
    if survey is None or is_begun or not survey.groups:
        return None
    if rulings := _list_rulings(survey):
        return _conclude(context, RULE, _write_ruled_finding(survey, rulings))
    now = deps.runtime.clock.now()
    hits = known.find_answers(survey, context.subject.project, now, deps.options.known_settings)
    if by_known and hits:
        return _conclude(context, KNOWN, _write_known_finding(survey, hits))
    return None


def _conclude(context: Context, found_by: str, text: str) -> Context:
    answered = context.add(Assistant(text))
    return replace(answered, found_by=found_by, outcome=Outcome(Status.DONE, text))


# ------------------------------------------------------------------------------------- by rules


def _list_rulings(survey: Survey) -> tuple[RuleMatch, ...]:
    """Return the rules' results for all groups, if they are certain of each, else nothing."""
    sure = tuple(
        group.rule_match for group in survey.groups if group.rule_match and group.rule_match.certain
    )
    contradicted = any(
        group.hard_verdict and group.rule_match and group.hard_verdict != group.rule_match.verdict
        for group in survey.groups
    )
    complete = survey.whole or all(group.rule_match and not group.jobs for group in survey.groups)
    return sure if len(sure) == len(survey.groups) and complete and not contradicted else ()


def _write_ruled_finding(survey: Survey, rulings: tuple[RuleMatch, ...]) -> str:
    found = list(zip(survey.groups, rulings, strict=True))
    quotes = [
        f"- job {group.jobs[0].job_id} line {ruled.line}: {ruled.text}"
        for group, ruled in found
        if group.jobs and ruled.line
    ]
    names = ", ".join(dict.fromkeys(ruled.rule for ruled in rulings))
    return _write_sections(
        verdict=min((Verdict(ruled.verdict) for ruled in rulings), key=verdict.ORDER.index),
        failed="; ".join(group.job_names for group in survey.groups),
        cause=_list_groups([(group, ruled.cause) for group, ruled in found]),
        evidence="\n".join(quotes),
        to_do=_list_groups([(group, ruled.to_do) for group, ruled in found]),
        details=f"Recognised by rule: {names}.",
    )


def _list_groups(groups: Sequence[tuple[Group, str]]) -> str:
    """Return one text if it is the same for all groups, else each text with its jobs."""
    texts = list(dict.fromkeys(text for _, text in groups))
    if len(texts) == 1:
        return texts[0]
    about = ((text, [group.job_names for group, each in groups if each == text]) for text in texts)
    return "\n".join(f"- {', '.join(jobs)}: {text}" for text, jobs in about)


# ------------------------------------------------------------------------- by what is known


def _write_known_finding(survey: Survey, hits: tuple[Hit, ...]) -> str:
    found = list(zip(survey.groups, hits, strict=True))
    return _write_sections(
        verdict=hits[0].verdict,
        failed="; ".join(group.job_names for group in survey.groups),
        cause=_list_groups([(group, hit.cause) for group, hit in found]),
        evidence="",
        to_do=_list_groups([(group, hit.to_do) for group, hit in found]),
        details="A known failure, as it was found in earlier pipelines; no model was asked and "
        "nothing was looked into this time.",
    )


def _write_sections(
    *, verdict: str, failed: str, cause: str, evidence: str, to_do: str, details: str
) -> str:
    """Write an answer in the workflow's form, which is parsed like a model's answer, and read by a
    model that resumes the session.

    A `#` at the start of a text is escaped, so that no job's name counts as a heading.
    """
    parts = {
        "Verdict": verdict,
        "Failed": failed,
        "Cause": cause,
        "Evidence": evidence,
        "What to do": to_do,
        "Details": details,
    }
    sections = {title: re.sub(r"^#", r"\\#", text) for title, text in parts.items() if text}
    return "\n\n".join(f"## {title}\n{text}" for title, text in sections.items()) + "\n"


def _add_hits(survey: Survey, context: Context, deps: Deps) -> Survey:
    """Return the survey with what is known of its errors; without it if the store fails."""
    hits: dict[str, Hit] = {}
    try:
        for key in known.list_keys(survey.groups)[:MOST_KEPT]:
            if hit := read_hit(key, context, deps):
                hits[key] = hit
    except StoreError as error:
        log.warning("session %s: known failures not read: %s", context.session_id, error)
    groups = tuple(replace(group, hit=hits.get(group.key)) for group in survey.groups)
    survey = replace(survey, groups=groups)
    is_planned = find_planner(context, deps) is not PlanBy.OFF
    return find_leads(survey, context, deps) if is_planned else survey


def read_error_text(context: Context) -> str:
    """Return the log excerpts in the survey, from one failing job of each group."""
    groups = context.survey.groups if context.survey else ()
    return "\n".join(group.jobs[0].excerpt for group in groups if group.jobs)


# ----------------------------------------------------------------------------------- in the note


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
