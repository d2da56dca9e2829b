"""Which landing is proven to have broken a job of a branch, and which one mended it. Pure.

Proven is the only landing between the last pass and the first failure, or the only one between that
changed a file which the error names. Code that fails alike without a landing clears it.
"""

from collections.abc import Iterable, Mapping, Sequence

from worker.incidents.record import NOBODY, Landing, RequestRecord
from worker.incidents.sightings import History
from worker.incidents.spans import Span
from worker.incidents.witnesses import contains_landing, is_revert
from worker.verdict.changed_files import find_touches
from worker.verdict.diffs import FileChange


def find_suspect(span: Span, innocent: Iterable[str], project: str) -> str:
    """Return the landing that is proven to have begun a span, "" if none is."""
    if span.green is None or not span.landings or span.is_unsteady or span.first.job.is_timeout:
        return ""
    found = _find_only(span.landings, span.text, project)
    return found if found not in innocent else ""


def find_innocent(
    span: Span,
    spans: Iterable[Span],
    witness: RequestRecord,
    history: History,
    commits: Mapping[int, frozenset[str]],
) -> frozenset[str]:
    """Return the landings before a span that have not begun it, as a merge request shows that fails
    alike without them. `spans` are those of the same error, `commits` those of each merge request.

    That it stands on code that was broken in an earlier span proves nothing.
    """
    rank, landings = history.ranks.get(witness.base), span.landings or ()
    if rank is None or (rank >= span.first_rank and not witness.reverts):
        return frozenset()
    was_red = any(
        each.first_rank < span.first_rank and each.covers(rank)
        for each in spans
        if each.names == span.names
    )
    return frozenset(
        landing.sha
        for landing in landings
        if is_revert(witness.reverts, landing)
        or (
            not was_red
            and rank < history.ranks[landing.sha]
            and not contains_landing(witness, landing)
            and (
                not landing.mr_iid
                or commits.get(landing.mr_iid, frozenset()).isdisjoint(witness.contains)
            )
        )
    )


def find_mender(span: Span, suspect: Landing | None, healers: frozenset[int], project: str) -> str:
    """Return the landing that ended a span, NOBODY if it passed without one, "" if that is not
    proven. `healers` are the merge requests whose own runs passed the job."""
    if span.went_away or span.end_rank == span.last_failure.rank:
        return NOBODY
    landings = span.mended_by or ()
    if len(landings) == 1:
        return landings[0].sha
    for proven in (
        [each.sha for each in landings if suspect and is_revert(each.reverts, suspect)],
        [each.sha for each in landings if each.mr_iid in healers],
    ):
        if len(proven) == 1:
            return proven[0]
    return _find_only(landings, span.text, project)


def _find_only(landings: Sequence[Landing], text: str, project: str) -> str:
    """Return the only landing, or the only one that changed a file which an error's text names."""
    if len(landings) == 1:
        return landings[0].sha
    files = [each.files for each in landings]
    if None in files:
        return ""
    changed = [FileChange(path) for each in files for path in each or ()]
    touches = [
        touch
        for touch in find_touches(text, {each.path: each for each in changed}.values(), project)
        if not touch.names_tests and not touch.names_package
    ]
    named = [
        (each.sha, any(touch.is_certain for touch in touches if touch.path in paths))
        for each in landings
        if (paths := set(each.files or ())) & {touch.path for touch in touches}
    ]
    return named[0][0] if len(named) == 1 and named[0][1] else ""
