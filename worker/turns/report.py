"""The finding of a turn, and the body of its note."""

from dataclasses import replace

from worker.answer import missing_evidence, quote_repair, suggestions
from worker.answer.cause_proof import mark_context
from worker.answer.failed_jobs import list_failed
from worker.answer.note import note
from worker.answer.note.footer import Footer, write_small_print
from worker.answer.note.known import write_known_failure
from worker.answer.note.layout import Layout
from worker.answer.note.revision import put_above, take_text
from worker.answer.note.run_again import write_run_again
from worker.answer.parse import is_finding
from worker.answer.proof import prove_reply
from worker.answer.repair import find_unavailable
from worker.conversation.answer_text import split_lead
from worker.conversation.context import ASKED, KNOWN, NO_OUTCOME, RULE, Context, Outcome, Status
from worker.conversation.digest import write_digest
from worker.safety.marker import Marker
from worker.safety.redacted_values import redact_values
from worker.safety.untrusted import visible
from worker.turns import triage
from worker.turns.parts import Deps, Toolset
from worker.turns.suggestions import expect_changes, offer_changes
from worker.turns.tiers import describe_models, describe_tier
from worker.turns.trials import Trials
from worker.verdict.finding import Finding, HiddenPart
from worker.verdict.verdict import Verdict


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
        quote_repair.make_finding(context, outcome, toolset.captures, deps.runtime.redact),
        toolset.captures,
        (survey and survey.changed_paths) or (),
    )
    complete = missing_evidence.fill_missing_evidence(
        triage.require_proof(proven, context), context
    )
    failed_jobs = list_failed(survey, complete.what_failed)
    # What the host has written itself says no more than the jobs do.
    said = "" if failed_jobs and context.found_by in (RULE, KNOWN) else complete.what_failed
    complete = replace(complete, what_failed=said, failed_jobs=failed_jobs)
    settled = triage.settle_verdict(triage.list_all_jobs(complete, survey), survey)
    if context.found_by not in (RULE, KNOWN):
        settled = triage.mark_view(settled, survey)
    first = quote_repair.find_first_answer(context)
    return triage.doubt_old_cause(settled, outcome.text, first, context)


def read_verdict(toolset: Toolset, deps: Deps, context: Context) -> Verdict | None:
    """Return the verdict that the note would have, None if the answer is no finding."""
    found = read_finding(context, toolset, deps)
    return found.verdict if found else None


def find_hidden(context: Context, found: Finding, deps: Deps) -> tuple[HiddenPart, ...]:
    """Return what the visible lines of a note on `found` have no room for.

    Changes are not on the diff yet: those count that can be put there.
    """
    shown, offers = expect_changes(context, found, deps)
    outcome = context.outcome or NO_OUTCOME
    above = _write_run_again(context)
    layout = Layout(shown, context.subject, outcome, deps.gitlab.hosts, offers, above)
    return layout.list_hidden(write_small_print(_make_footer(context, found, deps), found.unproven))


def write_bodies(
    marker: Marker,
    context: Context,
    found: Finding | None,
    trials: Trials,
    toolset: Toolset,
    deps: Deps,
    *,
    private: bool,
    gives_up: str = "",
) -> tuple[str, str]:
    """Return the note on the turn (its finding, its answer, or why there is neither), and the part
    of it with the finding, "" without one.

    Changes that a finding advises go on the diff as well, unless the turn is `private` or was to
    answer a question; `trials` says which ones the sandbox has run. `gives_up` is `Run.gives_up`.
    """
    outcome = context.outcome or NO_OUTCOME
    footer = _make_footer(context, found, deps)
    # Writing the finding may be what its runs have died of, so a plain reason is posted.
    if gives_up or outcome.status is Status.FAILED:
        jobs = () if gives_up or not context.is_look else triage.list_failed_jobs(context.survey)
        failure = note.write_failure(
            marker, context.subject, outcome.reason, footer, jobs, deps.gitlab.hosts
        )
        return put_above(failure, _write_run_again(context)), ""
    if found is None:
        return _write_answer(marker, context, outcome, outcome.text, footer, toolset, deps), ""
    if footer.found_by == KNOWN and context.survey:
        body = write_known_failure(marker, found, context.survey.groups, footer, deps.gitlab.hosts)
        body = put_above(body, _write_run_again(context))
        return body, body
    hidden = private or not context.investigates
    shown, offers = offer_changes(context, found, trials, toolset.captures, deps, private=hidden)
    above = _write_run_again(context)
    layout = Layout(shown, context.subject, outcome, deps.gitlab.hosts, offers, above)
    body = note.write_finding(marker, layout, footer)
    # What a reply with a finding says above it, for the person who asked.
    lead = "" if context.investigates else split_lead(outcome.text)[0]
    if not lead:
        return body, body
    done = Outcome(Status.DONE, lead)
    answer = _write_answer(marker, context, done, lead, None, toolset, deps)
    return put_above(body, take_text(answer)), body


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
            *missing_evidence.select_untold(find_unavailable(context), found),
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
    marker: Marker,
    context: Context,
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
    return note.write_answer(marker, context.subject, parts, outcome, footer, deps.gitlab.hosts)
