"""What the host finds out before the model is asked, and what it can answer without a model.

The survey goes into the session's first message, once. If rules or earlier findings explain all of
it, no model is asked and no sandbox is started.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sandbox.base import Sandbox
from worker.conversation import prompts
from worker.conversation.absorb import charge_helper
from worker.conversation.context import INCIDENT, KNOWN, RULE, TRAIN, Context, Outcome, Status
from worker.conversation.messages import Assistant, User
from worker.conversation.plan import (
    EXEC,
    MOST_TOKENS,
    TASK,
    list_planned_files,
    make_planned_call,
    propose_steps,
    read_steps,
    tell_plan,
)
from worker.errors import StoreError
from worker.safety.untrusted import remove_foreign_hosts
from worker.settings.runs import PlanBy
from worker.turns.branch_explainer import BranchExplainer
from worker.turns.memory import MOST_KEPT, find_leads, read_hit, tell_memory
from worker.turns.parts import Deps, Terms, Toolset
from worker.verdict import known
from worker.verdict.jobs import EXCERPT, Group, Hit, RuleMatch, Survey
from worker.verdict.survey_text import MOST_TOLD, tell_diff, tell_leads, tell_survey, tell_time
from worker.verdict.verdict import ORDER, Verdict

log = logging.getLogger("sandpiper.survey")

_SHOWN = 4096
"""Bytes of logs, and of a long diff, that the first message shows if there is a plan."""


def add_survey(
    context: Context,
    toolset: Toolset,
    terms: Terms,
    deps: Deps,
    *,
    settles: bool = False,
    begin_rest: Callable[[], None] = lambda: None,
) -> Context:
    """Return `context` with the survey in its first message, unless it has begun or has one.

    If it `settles`, as nobody has asked, what incidents of the target branch explain is not looked
    into. `begin_rest` is called as soon as it is known that they do not explain everything.
    """
    if context.turn or context.survey is not None or len(context.messages) != 1:
        return context
    shown = 0
    if (terms.workflow.plan or deps.runtime.plan) is not PlanBy.OFF:
        shown = EXCERPT if terms.workflow.compact else _SHOWN
    explainer = BranchExplainer(context, deps, settles, begin_rest)
    survey = make_survey(context, toolset, terms, deps, shown, explainer)
    first = context.messages[0]
    parts = (
        tell_time(deps.runtime.clock.now()),
        tell_survey(survey, MOST_TOLD + shown),
        tell_leads(survey),
        tell_diff(survey, of_branch=bool(context.subject.branch)),
        tell_memory(context, terms, deps),
    )
    text = "\n\n".join(filter(None, parts))
    if isinstance(first, User):
        context = replace(context, messages=(User(f"{first.text}\n\n{deps.runtime.redact(text)}"),))
    return replace(context, survey=survey)


def make_survey(
    context: Context,
    toolset: Toolset,
    terms: Terms,
    deps: Deps,
    shown: int,
    explainer: BranchExplainer,
) -> Survey:
    """Return what failed, and what is known of it, as far as the store answers. `shown` is as in
    `Toolset.survey_failures`."""
    survey = explainer.add_to(toolset.survey_failures(shown, explainer.explain))
    if survey.is_explained:
        return survey
    hits: dict[str, Hit] = {}
    try:
        for key in known.list_keys(survey.groups)[:MOST_KEPT]:
            if hit := read_hit(key, context, terms, deps):
                hits[key] = hit
    except StoreError as error:
        log.warning("session %s: known failures not read: %s", context.session_id, error)
    groups = tuple(
        replace(_remove_hosts(group, terms), hit=hits.get(group.key)) for group in survey.groups
    )
    survey = replace(survey, groups=groups)
    is_planned = (terms.workflow.plan or deps.runtime.plan) is not PlanBy.OFF
    return find_leads(survey, context, terms, deps) if is_planned else survey


def _remove_hosts(group: Group, terms: Terms) -> Group:
    """Return the group without foreign hosts in what GitLab says of a broken configuration. Other
    rules name hosts too, of plain characters between backticks, which are no links."""
    match = group.rule_match
    if match is None or group.jobs:
        return group
    cause = remove_foreign_hosts(match.cause, terms.hosts)
    to_do = remove_foreign_hosts(match.to_do, terms.hosts)
    return replace(group, rule_match=replace(match, cause=cause, to_do=to_do))


def answer_without_model(context: Context, deps: Deps, *, by_known: bool) -> Context | None:
    """Return `context` with its outcome if no model is needed, else None.

    `by_known` says that an earlier finding may answer, as nobody has asked for an analysis.
    """
    survey = context.survey
    is_begun = not context.is_look or len(context.messages) != context.turn_start + 1
    if survey is None or is_begun or not survey.groups:
        return None
    if survey.is_explained:
        return _conclude_by_branch(context, survey)
    if rulings := _list_rulings(survey):
        rules = ", ".join(dict.fromkeys(ruled.rule for ruled in rulings))
        quotes = [
            f"- job {group.jobs[0].job_id} line {ruled.line}: {ruled.text}"
            for group, ruled in zip(survey.groups, rulings, strict=True)
            if group.jobs and ruled.line
        ]
        return _conclude(
            context,
            RULE,
            list(zip(survey.groups, rulings, strict=True)),
            verdict=min((Verdict(ruled.verdict) for ruled in rulings), key=ORDER.index),
            evidence="\n".join(quotes),
            details=f"Recognised by rule: {rules}.",
        )
    now = deps.runtime.clock.now()
    hits = known.find_answers(survey, context.subject.project, now, deps.options.known_settings)
    if by_known and hits:
        return _conclude(
            context,
            KNOWN,
            list(zip(survey.groups, hits, strict=True)),
            verdict=hits[0].verdict,
            details="A known failure, as it was found in earlier pipelines; no model was asked and "
            "nothing was looked into this time.",
        )
    return None


_EXPLAINED_BY = {
    INCIDENT: "the target branch, which fails in the same way",
    TRAIN: "another merge request in front of it in the merge train, which fails in the same way",
}


def _conclude_by_branch(context: Context, survey: Survey) -> Context:
    """Return `context` with an answer that says what the note does. What another car of a merge
    train has broken counts as the target branch's, which it would have been part of."""
    *facts, to_do = survey.branch_lines.split("\n\n")
    found_by = INCIDENT if survey.incidents else TRAIN
    return _end(
        context,
        found_by,
        {
            "Verdict": Verdict.TARGET,
            "Failed": "; ".join(group.job_names for group in survey.groups),
            "Cause": " ".join(facts),
            "What to do": to_do.partition(":** ")[2],
            "Details": f"Explained by {_EXPLAINED_BY[found_by]}; no model was asked and nothing "
            "was looked into.",
        },
    )


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


def _conclude(
    context: Context,
    found_by: str,
    found: Sequence[tuple[Group, RuleMatch | Hit]],
    *,
    verdict: str,
    evidence: str = "",
    details: str,
) -> Context:
    """Return `context` with an answer about each of the groups."""
    parts = {
        "Verdict": verdict,
        "Failed": "; ".join(group.job_names for group, _ in found),
        "Cause": _list_groups([(group, each.cause) for group, each in found]),
        "Evidence": evidence,
        "What to do": _list_groups([(group, each.to_do) for group, each in found]),
        "Details": details,
    }
    return _end(context, found_by, parts)


def _end(context: Context, found_by: str, parts: Mapping[str, str]) -> Context:
    """Return `context` with an answer in the workflow's form, which is parsed like a model's, and
    read by a model that resumes the session.

    A `#` at the start of a text is escaped, so that no job's name counts as a heading.
    """
    sections = {title: re.sub(r"^#", r"\\#", text) for title, text in parts.items() if text}
    text = "\n\n".join(f"## {title}\n{text}" for title, text in sections.items()) + "\n"
    answered = context.add(Assistant(text))
    return replace(answered, found_by=found_by, outcome=Outcome(Status.DONE, text))


def _list_groups(groups: Sequence[tuple[Group, str]]) -> str:
    """Return one text if it is the same for all groups, else each text with its jobs."""
    texts = list(dict.fromkeys(text for _, text in groups))
    if len(texts) == 1:
        return texts[0]
    about = ((text, [group.job_names for group, each in groups if each == text]) for text in texts)
    return "\n".join(f"- {', '.join(jobs)}: {text}" for text, jobs in about)


def read_error_text(context: Context) -> str:
    """Return the log excerpts in the survey, from one failing job of each group."""
    groups = context.survey.groups if context.survey else ()
    return "\n".join(group.jobs[0].excerpt for group in groups if group.jobs)


def complete_first_message(
    context: Context, sandbox: Sandbox | None, terms: Terms, deps: Deps
) -> Context:
    """Return the context whose first message lists the interpreters and tools of `sandbox`,
    announces files and proposes steps.

    It changes only a session whose model is about to be asked for the first time. A helper's cost
    is charged.
    """
    first, survey, workflow = context.messages[0], context.survey, terms.workflow
    if context.outcome or len(context.messages) > 1 or not isinstance(first, User):
        return context
    tools = "" if workflow.compact else deps.runtime.describe_tools(sandbox)
    if tools:
        first = User(f"{first.text}\n\n{prompts.tell_tools(tools)}")
        context = replace(context, messages=(first,))
    by, helper = workflow.plan or deps.runtime.plan, deps.runtime.helper
    if by is PlanBy.OFF or survey is None:
        return context
    files = list_planned_files(survey, workflow.allows, context.subject)
    if not files:
        return context
    steps: Sequence[str] = ()
    if by is PlanBy.MODEL and helper:
        names = [tool.name for tool in context.tools]
        answer = helper.ask(TASK, f"{first.text}\n\nTools: {', '.join(names)}", MOST_TOKENS)
        if answer:
            context = charge_helper(context, "plan", [answer])
            steps = read_steps(answer.text, names)
    plan = deps.runtime.redact(tell_plan(survey, files, steps or propose_steps(survey, files)))
    planned = replace(context, messages=(User(f"{first.text}\n\n{plan}"),))
    first_call = make_planned_call(files) if workflow.leads and workflow.allows(EXEC) else None
    return planned.add(first_call) if first_call else planned
