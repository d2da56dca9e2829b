"""The finding of a turn, and the body of its note."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from worker.answer import parse, repair, suggestions
from worker.answer.cause_proof import hold_against_installed, mark_context
from worker.answer.failed_jobs import list_by_cause, list_failed, list_with_reasons
from worker.answer.finish import find_kept_back
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.answer.note.note import Footer, write_known_failure, write_small_print
from worker.answer.note.note_parts import render_template
from worker.answer.note.older_note import put_above, take_text, write_run_again
from worker.answer.parse import advises_retry, find_unavailable, is_finding, parse_finding
from worker.answer.proof import prove_reply, require_evidence
from worker.conversation.answer_text import split_lead
from worker.conversation.context import (
    ASKED,
    KNOWN,
    NO_OUTCOME,
    OF_OTHERS,
    WITHOUT_MODEL,
    Context,
    Outcome,
    Status,
)
from worker.conversation.digest import write_digest
from worker.logs.line_kinds import tells_of_host
from worker.safety.markdown import Marker
from worker.safety.redacted_values import redact_values
from worker.safety.untrusted import visible
from worker.turns.parts import Deps, Terms, Toolset, Turn
from worker.turns.suggestions import expect_changes, offer_changes
from worker.turns.tiers import describe_models, describe_tier
from worker.turns.trials import Trials
from worker.verdict import verdict
from worker.verdict.finding import Finding, HiddenPart
from worker.verdict.jobs import FailingJob, Group, Survey
from worker.verdict.remarks import plain
from worker.verdict.verdict import Ruling, Verdict


def read_finding(context: Context, toolset: Toolset, deps: Deps) -> Finding | None:
    """Return the turn's finding; None if the turn failed or its answer is no finding."""
    outcome = context.outcome
    if outcome is None or outcome.status is Status.FAILED:
        return None
    if not context.investigates:
        if not is_finding(outcome.text):
            return None
        # The text above its sections answers the question, and is posted separately.
        outcome = replace(outcome, text=split_lead(outcome.text)[1])
        context = replace(context, found_by=ASKED)
    survey = context.survey
    proven = mark_context(
        repair.make_finding(context, outcome, toolset.captures, deps.runtime.redact),
        toolset.captures,
        (survey and survey.changed_paths) or (),
    )
    by_host = context.found_by in WITHOUT_MODEL
    if not by_host:  # a quote is needed, unless a rule is certain
        ruled = [
            group.rule_match.verdict if group.rule_match and group.rule_match.certain else ""
            for group in (survey.groups if survey else ())
        ]
        proven = require_evidence(proven, ruled)
    complete = parse.fill_missing_evidence(proven, context)
    failed_jobs = list_failed(survey, complete.what_failed)
    # What the host has written itself says no more than the jobs do.
    said = "" if failed_jobs and by_host else complete.what_failed
    details = "\n\n".join(filter(None, [complete.details, list_by_cause(survey)]))
    complete = replace(complete, what_failed=said, failed_jobs=failed_jobs, details=details)
    settled = settle_verdict(complete, survey)
    if not by_host:
        settled = mark_view(settled, survey)
    first = repair.find_first_answer(context)
    return _doubt_old_cause(settled, outcome.text, first, context)


def read_verdict(toolset: Toolset, deps: Deps, context: Context) -> Verdict | None:
    """Return the verdict that the note would have, None if the answer is no finding."""
    found = read_finding(context, toolset, deps)
    return found.verdict if found else None


def find_objections(
    terms: Terms, toolset: Toolset, deps: Deps, context: Context, outcome: Outcome
) -> repair.Objections:
    """Return what is wrong with the text of an outcome that would end the turn."""
    ended, text = replace(context, outcome=outcome), outcome.text
    found = read_finding(ended, toolset, deps)
    objections = repair.find_objections(
        text,
        toolset.captures,
        deps.runtime.redact,
        partial(find_kept_back, terms.hosts, deps.runtime.redact),
        _find_hidden(ended, found, terms, deps) if found else (),
        found.evidence if found and found.doubt else (),
    )
    return replace(
        objections,
        refutation=_find_refutation(text, context),
        retry_verdict=_find_retried_verdict(text, context) if found else "",
    )


def _find_hidden(
    context: Context, found: Finding, terms: Terms, deps: Deps
) -> tuple[HiddenPart, ...]:
    """Return what the visible lines of a note on `found` have no room for.

    Changes are not on the diff yet: those count that can be put there.
    """
    shown, offers = expect_changes(context, found, deps)
    outcome = context.outcome or NO_OUTCOME
    above = _write_run_again(context)
    layout = Layout(shown, context.subject, outcome, terms.hosts, offers, above)
    return layout.list_hidden(write_small_print(_make_footer(context, found, deps), found.unproven))


def write_bodies(
    turn: Turn,
    found: Finding | None,
    trials: Trials,
    toolset: Toolset,
    deps: Deps,
    *,
    give_up_reason: str = "",
) -> tuple[str, str]:
    """Return the note on the turn (its finding, its answer, or why there is neither), and the part
    of it with the finding, "" without one.

    Changes that a finding advises go on the diff as well, unless the turn is private or was to
    answer a question; `trials` says which ones the sandbox has run. `give_up_reason` is
    as in `Attempt`.
    """
    context, hosts = turn.context, turn.terms.hosts
    outcome = context.outcome or NO_OUTCOME
    footer = _make_footer(context, found, deps)
    # Writing the finding may be what its runs have died of, so a plain reason is posted.
    if give_up_reason or outcome.status is Status.FAILED:
        failed = () if give_up_reason or not context.is_look else list_with_reasons(context.survey)
        failure = note.write_failure(
            turn.marker, context.subject, outcome.reason, footer, failed, hosts
        )
        return put_above(failure, _write_run_again(context)), ""
    if found is None:
        return _write_answer(turn, outcome, outcome.text, footer, toolset, deps), ""
    if footer.found_by in OF_OTHERS and context.survey:
        body = _write_branch_lines(turn.marker, context.survey.branch_lines, footer)
        body = put_above(body, _write_run_again(context))
        return body, body
    if footer.found_by == KNOWN and context.survey:
        body = write_known_failure(turn.marker, found, context.survey.groups, footer, hosts)
        body = put_above(body, _write_run_again(context))
        return body, body
    hidden = turn.is_private or not context.investigates
    shown, offers = offer_changes(context, found, trials, toolset.captures, deps, private=hidden)
    above = _write_run_again(context)
    layout = Layout(shown, context.subject, outcome, hosts, offers, above)
    body = note.write_finding(turn.marker, layout, footer)
    # What a reply with a finding says above it, for the person who asked.
    lead = "" if context.investigates else split_lead(outcome.text)[0]
    if not lead:
        return body, body
    done = Outcome(Status.DONE, lead)
    answer = _write_answer(turn, done, lead, None, toolset, deps)
    return put_above(body, take_text(answer)), body


def _write_branch_lines(marker: Marker, lines: str, footer: Footer) -> str:
    """Return the note of which the target branch explains everything: harmless lines on that."""
    small = write_small_print(footer, 0)
    values = {"stopped": "", "text": lines, "rest": "", "small": small}
    return render_template("answer", marker=marker.text(), **values)


def _write_run_again(context: Context) -> str:
    """Return the line above a note that stands in the place of an earlier failure's, else ""."""
    is_another = context.is_look and context.turn and not context.on_request
    return write_run_again(context.subject) if is_another else ""


def _make_footer(context: Context, found: Finding | None, deps: Deps) -> Footer:
    return Footer(
        model=context.model,
        cost_usd=context.turn_usage.cost_usd,
        missing_sources=(
            *context.losses,
            *parse.select_untold(find_unavailable(context), found),
        ),
        replaced_model=context.gave_way,
        found_by=context.found_by if context.is_look else "",
        redaction_counts=context.redactions,
        page=deps.options.page(context.session_id),
        tier=describe_tier(context),
        models=describe_models(context),
        digest=redact_values(write_digest(context), deps.runtime.redact),
        takes_replies=not context.dry_run,
    )


def _write_answer(
    turn: Turn,
    outcome: Outcome,
    text: str,
    footer: Footer | None,
    toolset: Toolset,
    deps: Deps,
) -> str:
    parts = redact_values(
        prove_reply(visible(suggestions.write_in_place(text)), toolset.captures),
        deps.runtime.redact,
    )
    return note.write_answer(
        turn.marker, turn.context.subject, parts, outcome, footer, turn.terms.hosts
    )


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


def _find_refutation(text: str, context: Context) -> tuple[str, str] | None:
    """Return the verdict of an answer and why GitLab's record rules it out or proves another one;
    None if it does neither, or if a reply has no finding."""
    if not context.investigates and not is_finding(text):
        return None
    judged = settle_verdict(parse_finding(text), context.survey).final_verdict
    if judged is None or not judged.because:
        return None
    proves = "" if judged.is_refuted else f', so it is "{judged.verdict}"'
    return str(judged.model), f"{plain(judged.because)}{proves}"


def _find_retried_verdict(text: str, context: Context) -> str:
    """Return the verdict that a note on an answer would have, if a retry mends nothing under it and
    the answer advises one; "" otherwise."""
    said = parse_finding(text)
    finding = settle_verdict(said, context.survey)
    comes_and_goes = any(ruling.recovery for ruling in finding.rulings)
    is_steady = finding.verdict in (Verdict.TARGET, Verdict.CHANGE) and not comes_and_goes
    return str(finding.verdict) if is_steady and advises_retry(said.to_do) else ""


def _doubt_old_cause(finding: Finding, answer: str, first: str, context: Context) -> Finding:
    """Return the `finding` of an answer with a doubt if the cause is still that of the `first`
    answer, whose other verdict GitLab's record rules out: it explains that verdict, not the one
    that it comes with."""
    judged = finding.final_verdict
    stands = not finding.doubt and (judged is None or not judged.because)
    refuted = _find_refutation(first, context) if first and stands else None
    if refuted is None or parse_finding(answer).cause != parse_finding(first).cause:
        return finding
    doubt = f"The model gave this cause for “{refuted[0]}” first, which GitLab's record rules out."
    return replace(finding, doubt=doubt)


def _make_empty_ruling(name: str, jobs: Sequence[FailingJob] = ()) -> Ruling:
    return Ruling(name, tuple(job.job_id for job in jobs if not job.external), None, (), ())
