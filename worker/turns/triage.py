"""What the host finds out before the model is asked, and what it can answer without a model.

The survey goes into the session's first message, once. If rules or earlier findings explain all of
it, no model is asked and no sandbox is started.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from sandbox.base import Sandbox
from worker.answer.drift import hold_against_installed
from worker.answer.parse import is_finding, parse_finding
from worker.answer.proof import require_evidence
from worker.answer.retries import advises_retry
from worker.conversation import prompts
from worker.conversation.context import KNOWN, RULE, Context, Outcome, Status
from worker.conversation.messages import Assistant, User
from worker.errors import StoreError
from worker.logs.host_trouble import tells_of_host
from worker.safety.untrusted import remove_foreign_hosts
from worker.settings.runs import PlanBy
from worker.turns import planning
from worker.turns.leads import find_leads, read_hit
from worker.turns.memory import MOST_KEPT
from worker.turns.parts import Deps, Toolset
from worker.turns.project_memory import tell_memory
from worker.verdict import known, verdict
from worker.verdict.finding import FailedJob, Finding
from worker.verdict.jobs import FailingJob, Group, Hit, RuleMatch, Survey
from worker.verdict.remarks import plain
from worker.verdict.survey_text import MOST_TOLD, tell_diff, tell_leads, tell_survey, tell_time
from worker.verdict.verdict import Ruling, Verdict

log = logging.getLogger("sandpiper.survey")


def add_survey(context: Context, toolset: Toolset, deps: Deps) -> Context:
    """Return `context` with the survey in its first message, unless it has begun or has one."""
    if context.turn or context.survey is not None or len(context.messages) != 1:
        return context
    shown = planning.count_shown_bytes(context, deps)
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
    is_planned = planning.find_planner(context, deps) is not PlanBy.OFF
    return find_leads(survey, context, deps) if is_planned else survey


def read_error_text(context: Context) -> str:
    """Return the log excerpts in the survey, from one failing job of each group."""
    groups = context.survey.groups if context.survey else ()
    return "\n".join(group.jobs[0].excerpt for group in groups if group.jobs)


# ----------------------------------------------------------------------------------- in the note


def list_failed_jobs(survey: Survey | None) -> tuple[FailedJob, ...]:
    """List a job of each of the first five groups, for a note without a finding."""
    groups = survey.groups if survey else ()
    return tuple(_make_failed_job(group, group.jobs[0]) for group in groups[:5] if group.jobs)


def _make_failed_job(group: Group, job: FailingJob) -> FailedJob:
    if group.rule_match:
        reason = group.rule_match.cause
    elif group.hard_verdict and group.ruling:
        reason = group.ruling.describe()[0]
    elif group.hit:
        reason = f"seen before, {group.hit.verdict}: {group.hit.cause}"
    else:
        reason = job.reason
    return FailedJob(job.job_id, group.job_names, reason, job.url, job.excerpt)


def settle_verdict(finding: Finding, survey: Survey | None) -> Finding:
    """Return `finding` with the model's verdict as GitLab's record confirms or corrects it."""
    if survey is None or not any(group.ruling for group in survey.groups):
        return finding
    rulings = [
        hold_against_installed(group.ruling, finding.verdict, finding.cause)
        if group.ruling
        else _make_empty_ruling(group.job_names, group.jobs)
        for group in survey.groups
    ]
    if not survey.whole:  # for jobs that were not seen, the model's verdict counts
        rulings.append(_make_empty_ruling("other jobs"))
    judged = verdict.decide_headline(rulings, finding.verdict)
    return replace(
        finding,
        verdict=judged.verdict,
        final_verdict=judged,
        rulings=tuple(rulings),
        doubt=finding.doubt if judged.verdict is finding.verdict else "",
    )


def mark_view(finding: Finding, survey: Survey | None) -> Finding:
    """Return `finding`, marked as the model's view if it says that the failure comes from outside
    and nothing speaks for that: not GitLab's record, a rule or the same failure before, nor, for
    "infrastructure", what is installed, the runner or a proven quote of what the job has not done
    itself."""
    if finding.verdict not in _FROM_OUTSIDE:
        return finding
    groups = survey.groups if survey else ()
    proven = (quote.text for quote in finding.evidence if not quote.lacks)
    is_told = finding.verdict is Verdict.INFRASTRUCTURE and tells_of_host(proven)
    is_known = is_told or any(_speaks_for(group, finding.verdict) for group in groups)
    return replace(finding, is_view=not is_known)


_FROM_OUTSIDE = (Verdict.FLAKY, Verdict.INFRASTRUCTURE)


def _speaks_for(group: Group, verdict: Verdict) -> bool:
    ruling = group.ruling
    said = (group.rule_match and group.rule_match.verdict, group.hit and group.hit.verdict)
    if verdict in (*said, ruling and ruling.hard):
        return True
    if verdict is Verdict.FLAKY:
        return bool(ruling and ruling.recovery)
    by_itself = all(job.reason in ("", "script_failure") for job in group.jobs)
    return not by_itself or bool(ruling and ruling.differs)


def find_refutation(text: str, context: Context) -> tuple[str, str] | None:
    """Return the verdict of an answer and why GitLab's record rules it out or proves another one;
    None if it does neither, or if a reply has no finding."""
    if not context.investigates and not is_finding(text):
        return None
    judged = settle_verdict(parse_finding(text), context.survey).final_verdict
    if judged is None or not judged.because:
        return None
    proves = "" if judged.is_refuted else f', so it is "{judged.verdict}"'
    return str(judged.model), f"{plain(judged.because)}{proves}"


def find_retried_verdict(text: str, context: Context) -> str:
    """Return the verdict that a note on an answer would have, if a retry mends nothing under it and
    the answer advises one; "" otherwise."""
    said = parse_finding(text)
    finding = settle_verdict(said, context.survey)
    comes_and_goes = any(ruling.recovery for ruling in finding.rulings)
    is_steady = finding.verdict in (Verdict.TARGET, Verdict.CHANGE) and not comes_and_goes
    return str(finding.verdict) if is_steady and advises_retry(said.to_do) else ""


def doubt_old_cause(finding: Finding, answer: str, first: str, context: Context) -> Finding:
    """Return the `finding` of an answer with a doubt if the cause is still that of the `first`
    answer, whose other verdict GitLab's record rules out: it explains that verdict, not the one
    that it comes with."""
    judged = finding.final_verdict
    stands = not finding.doubt and (judged is None or not judged.because)
    refuted = find_refutation(first, context) if first and stands else None
    if refuted is None or parse_finding(answer).cause != parse_finding(first).cause:
        return finding
    doubt = f"The model gave this cause for “{refuted[0]}” first, which GitLab's record rules out."
    return replace(finding, doubt=doubt)


def require_proof(finding: Finding, context: Context) -> Finding:
    """Return `finding`; its verdict needs a quote unless the host gave it or the rules agree."""
    if context.found_by in (RULE, KNOWN):
        return finding
    groups = context.survey.groups if context.survey else ()
    return require_evidence(finding, [_get_ruled_verdict(group) for group in groups])


def _get_ruled_verdict(group: Group) -> str:
    """Return the verdict of which a rule is certain, or ""."""
    return group.rule_match.verdict if group.rule_match and group.rule_match.certain else ""


def _make_empty_ruling(name: str, jobs: Sequence[FailingJob] = ()) -> Ruling:
    return Ruling(name, tuple(job.job_id for job in jobs if not job.external), None, (), ())


def list_all_jobs(finding: Finding, survey: Survey | None) -> Finding:
    """Return `finding` with the failing jobs by cause in its details, if one cause has several."""
    if survey is None or not any(len(group.jobs) > 1 for group in survey.groups):
        return finding
    lines = ["**Failing jobs by cause**", "", *map(_write_line, survey.groups)]
    return replace(finding, details="\n\n".join(filter(None, [finding.details, "\n".join(lines)])))


def _write_line(group: Group) -> str:
    jobs = ", ".join(_link_job(job) for job in group.jobs)
    return f"- {group.job_names}: {jobs}" if jobs else f"- {group.job_names}"


def _link_job(job: FailingJob) -> str:
    name = job.name.removeprefix(f"{job.family}: ").strip("[]") if job.name != job.family else ""
    label = f"{job.job_id or job.name} {name}".replace("[", "(").replace("]", ")").strip()
    return f"[{label}]({job.url})" if job.url else label
