"""From when until when a job of a branch failed with one error: what is red and green. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from worker.incidents.record import JobOutcome, Landing
from worker.incidents.sightings import SILENT_TEXT, History, Sight, Sighting


@dataclass(frozen=True)
class Span:
    """The time in which one job failed with one error, between two passes of that job."""

    key: str
    names: frozenset[str]
    """The names that the job has had."""
    reds: Sequence[Sighting]
    """The runs that showed the error, at least one, in the order of the branch."""
    green: Sighting | None
    """The last pass before, None if the job had never passed."""
    landings: tuple[Landing, ...] | None
    """What landed between that pass and the first failure, the oldest first; None if that is not
    known."""
    is_explained: bool
    """Whether a commit lies between them, or there is no pass before."""
    last_failure: Sighting
    """The last run before the end that did not pass; it may have failed with another error."""
    passes: Sequence[Sighting] = ()
    """The passes after it, up to the next failure: the end."""
    mended_by: tuple[Landing, ...] | None = ()
    """What landed between the last failure and the pass after it; None if that is not known."""
    late_passes: Sequence[Sighting] = ()
    """Passes at commits of the span that came when a newer commit had failed: they end nothing."""
    has_gone_before: bool = False
    """Whether the error had come and gone at one commit before."""
    is_unsteady: bool = False
    """Whether it has come or gone at one commit, before the end: no landing is proven to bring
    it."""

    @cached_property
    def first(self) -> Sighting:
        """The run that first showed it.

        That is the one of the oldest commit, unless this commit's job had passed and only ran again
        when a newer one had failed.
        """
        late = [each for each in self.reds if _has_passed_before(each)]
        plain = [each for each in self.reds if each not in late]
        first = min(plain, key=_get_place) if plain else None
        return min(
            [each for each in late if first is None or each.ended_at < first.ended_at]
            or [first or late[0]],
            key=lambda each: each.ended_at,
        )

    @property
    def text(self) -> str:
        """The line that said it first."""
        return dict(self.first.job.errors).get(self.key, SILENT_TEXT)

    @cached_property
    def end(self) -> Sighting | None:
        """The pass that ended it: the first to be seen; None while the branch is red."""
        return min(self.passes, key=lambda each: each.ended_at, default=None)

    @property
    def first_rank(self) -> int:
        """The place of the oldest commit that is red."""
        return self.reds[0].rank

    @property
    def end_rank(self) -> int | None:
        """The place of the oldest commit that is green again; None while the branch is red."""
        return self.passes[0].rank if self.passes else None

    @property
    def is_seen_once(self) -> bool:
        """Whether one run alone showed the error; the parts of a job are one."""
        names = [each.job.name for each in self.reds]
        return len(self.pipelines) == 1 and len(set(names)) == len(names)

    @property
    def is_at_one_commit(self) -> bool:
        """Whether it has come and gone at one commit."""
        return self.end_rank == self.first_rank

    @property
    def went_away(self) -> bool:
        """Whether a commit that was red had passed by the end: no code mended it."""
        ranks = {each.rank for each in self.reds}
        return self.end is not None and any(
            each.rank in ranks and each.ended_at <= self.end.ended_at
            for each in (*self.passes, *self.late_passes)
        )

    @cached_property
    def pipelines(self) -> frozenset[int]:
        """The pipelines that showed the error."""
        return frozenset(each.pipeline.pipeline_id for each in self.reds)

    def contains(self, other: "Span") -> bool:
        """Whether another error of the same job has come while this one was there, or with it."""
        return (
            self.names == other.names
            and _get_place(self.first)[:2] <= _get_place(other.first)[:2]
            and (self.end_rank is None or other.first.rank < self.end_rank)
        )

    def covers(self, rank: int) -> bool:
        """Whether the code of a commit's place contains what was broken and not what mended it."""
        return self.first_rank <= rank and (self.end_rank is None or rank < self.end_rank)


@dataclass(slots=True)
class _Draft:
    green: Sighting | None
    reds: list[Sighting]
    last: Sighting
    passes: list[Sighting] = field(default_factory=list)
    late: list[Sighting] = field(default_factory=list)


def find_spans(history: History) -> tuple[Span, ...]:
    """Return every time in which a job failed with an error, in the order of the branch."""
    sightings = {each: history.list_sightings(*each) for each in history.list_errors()}
    came: dict[str, set[int]] = {}
    gone: dict[str, list[Sighting]] = {}
    for (key, _), seen in sightings.items():
        for turn in _list_turns(seen):
            if turn.sight is Sight.GREEN:
                gone.setdefault(key, []).append(turn)
            else:
                came.setdefault(key, set()).add(turn.rank)
    spans = [
        _finish(history, draft, key, names, came.get(key, set()), gone.get(key, []))
        for (key, names), seen in sightings.items()
        for draft in _draft([each for each in seen if not each.is_past])
    ]
    return tuple(sorted(spans, key=lambda each: (_get_place(each.first), each.key)))


def _draft(sightings: Sequence[Sighting]) -> Iterator[_Draft]:
    green: Sighting | None = None
    draft: _Draft | None = None
    for each in sightings:
        if each.sight is Sight.GREEN:
            if draft and not draft.passes and _is_late(each, draft, sightings):
                draft.late.append(each)
                continue
            if draft:
                draft.passes.append(each)
            green = each
        elif draft and not draft.passes:
            draft.last = each
            if each.sight is Sight.RED:
                draft.reds.append(each)
        else:
            if draft:
                yield draft
            draft = _Draft(green, [each], each) if each.sight is Sight.RED else None
    if draft:
        yield draft


def _is_late(passed: Sighting, draft: _Draft, sightings: Sequence[Sighting]) -> bool:
    """Whether a commit passed when a newer one was red, or a red one when a newer one had passed:
    then it ends nothing.

    Another error in the newer one hides the first. That counts if the first was seen twice: one
    failure alone is undone by a pass at its commit.
    """
    counts = {Sight.RED, Sight.MASKED} if len(draft.reds) > 1 else {Sight.RED}
    if any(each.rank == passed.rank for each in draft.reds):
        counts.add(Sight.GREEN)
    return any(
        each.sight in counts and each.rank > passed.rank and each.ended_at < passed.ended_at
        for each in sightings
    )


def _finish(
    history: History,
    draft: _Draft,
    key: str,
    names: frozenset[str],
    came: set[int],
    gone: Sequence[Sighting],
) -> Span:
    first, green, ends = draft.reds[0], draft.green, draft.passes
    last_rank = ends[0].rank if ends else draft.last.rank
    landings = history.find_between(green.pipeline.sha, first.pipeline.sha) if green else None
    mended_by = history.find_between(draft.last.pipeline.sha, ends[0].pipeline.sha) if ends else ()
    return Span(
        key,
        names,
        reds=draft.reds,
        green=green,
        landings=landings,
        is_explained=green is None or green.rank < first.rank,
        last_failure=draft.last,
        passes=ends,
        mended_by=mended_by,
        late_passes=draft.late,
        has_gone_before=any(e.rank <= first.rank and e.ended_at <= first.ended_at for e in gone),
        is_unsteady=any(rank <= last_rank for rank in (*came, *(each.rank for each in gone))),
    )


def _list_turns(sightings: Sequence[Sighting]) -> Iterator[Sighting]:
    """Return where a job passed or failed with the error at a commit at which it had been otherwise
    before."""
    before: Sighting | None = None
    for each in sightings:
        if each.sight is not Sight.MASKED:
            if before and before.rank == each.rank and before.sight is not each.sight:
                yield each
            before = each


def _has_passed_before(failure: Sighting) -> bool:
    """Whether the same job of the same pipeline had passed before it failed."""
    return any(
        job.name == failure.job.name
        and job.job_id < failure.job.job_id
        and job.outcome is JobOutcome.PASSED
        for job in failure.pipeline.jobs
    )


def _get_place(sighting: Sighting) -> tuple[int, int, float]:
    return sighting.rank, sighting.pipeline.pipeline_id, sighting.ended_at


def join_spans(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Return the spans by their errors; those of several jobs belong together if they overlap, or
    begin in one pipeline. An error that moves from one job to another has not gone."""
    joined: dict[str, list[list[Span]]] = {}
    for span in spans:
        groups = joined.setdefault(span.key, [])
        if groups and any(_overlap(each, span) for each in groups[-1]):
            groups[-1].append(span)
        else:
            groups.append([span])
    for groups in joined.values():
        yield from groups


def _overlap(before: Span, span: Span) -> bool:
    begun, ended = span.first, before.passes[0] if before.passes else None
    return (
        ended is None
        or begun.pipeline.pipeline_id == before.first.pipeline.pipeline_id
        or (begun.rank, begun.pipeline.pipeline_id) <= (ended.rank, ended.pipeline.pipeline_id)
    )
