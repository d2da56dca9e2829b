"""The finding of a turn, and the body of its note."""

from worker import suggesting, survey
from worker.core import finding, gaps, recheck
from worker.core.context import Context, Outcome, Status
from worker.core.identity import Marker
from worker.core.repair import unavailable
from worker.deps import Deps, Kit
from worker.forge import note
from worker.forge.known import known_failure
from worker.trials import Trials


def read_finding(context: Context, kit: Kit, deps: Deps) -> finding.Finding | None:
    """What the turn has found, if it was to find something and did."""
    outcome = context.outcome
    if outcome is None or outcome.status is Status.FAILED:
        return None
    if not context.investigates:
        return None
    proven = recheck.finding(context, outcome, kit.captures, deps.redact)
    told = gaps.filled(survey.backed(proven, context), context)
    return survey.settled(survey.listed(told, context.survey), context.survey)


def write_body(
    marker: Marker,
    context: Context,
    found: finding.Finding | None,
    trials: Trials,
    kit: Kit,
    deps: Deps,
    *,
    seconds: float,
    private: bool,
) -> str:
    """The note on the turn: its finding, its answer, or why there is neither.

    What a finding advises goes on the diff as well, unless the turn is `private`; `trials` is what
    the sandbox has run of it.
    """
    outcome = context.outcome or Outcome(Status.FAILED, "", "the run ended without an outcome")
    footer = note.Footer(
        model=context.model,
        iterations=context.spent.iterations,
        usage=context.spent.usage,
        cost_usd=context.spent.cost_usd,
        seconds=seconds,
        missing=(*context.lost, *gaps.untold(unavailable(context), found)),
        gave_way=context.gave_way,
        found_by=context.found_by if context.turn == 0 else "",
        redacted=context.redacted,
        page=deps.page(context.session_id),
    )
    if deps.gives_up:
        return note.failure(marker, context.subject, outcome.reason, footer, ())
    if outcome.status is Status.FAILED:
        jobs = survey.failed_jobs(context.survey) or kit.failures() if context.turn == 0 else ()
        return note.failure(marker, context.subject, outcome.reason, footer, jobs, deps.hosts)
    if found is None:
        said = finding.said(deps.redact(outcome.text), kit.captures)
        return note.answer(marker, context.subject, said, outcome, footer, deps.hosts)
    if footer.found_by == survey.KNOWN and context.survey:
        return known_failure(marker, found, context.survey.groups, footer, deps.hosts)
    told, offers = suggesting.offer_changes(
        context, found, trials, kit.captures, deps, private=private
    )
    return note.finding(marker, context.subject, told, outcome, footer, deps.hosts, offers)
