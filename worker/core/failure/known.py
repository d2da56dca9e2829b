"""Known failures: what was found on an error before, by its signature. Pure.

Entries are made of members' merge requests only, and say so: one that does not is none. They are
read back as strangers' data: parsed, capped, and believed only so far as they go. An entry answers
for a model only where nothing speaks against it (`find_answers`).
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from worker.core.failure.changed_files import FileChange, find_touches
from worker.core.failure.file_kinds import is_ci
from worker.core.failure.jobs import FailingJob, Group, Hit, Survey
from worker.core.finding import Verdict
from worker.core.stored_keys import KEY, to_stored
from worker.core.text.foreign_addresses import remove_foreign_hosts
from worker.core.text.untrusted import one_line

MAX_ENTRY = 16 * 1024
"""Bytes of one entry."""

MOST_SIGHTINGS = 20
ENOUGH = 2
"""Other merge requests that must have seen an error before its entry answers for a model."""

TARGET_DAYS = 1.0
"""Days after which "already failing on the target branch" is looked into again: it gets mended."""

DAY = 86_400.0

_BY = "members"
_CAUSE, _TO_DO, _URL, _NAME = 600, 400, 400, 160
_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_WEB = re.compile(r"https?://[^\s<>()\[\]\"'`]{1,390}")
_HEX = re.compile(r"[0-9a-f]{0,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Settings:
    """Whether entries may answer for a model, and for how many days after a look."""

    answer: bool = True
    days: float = 14.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where an error was seen; `seen_at` is in epoch seconds."""

    mr_iid: int
    pipeline_id: int
    job_id: int
    job: str
    sha: str
    seen_at: float = field(metadata={KEY: "at"})


@dataclass(frozen=True, slots=True)
class PastFinding:
    """What a look into an error gave, in the note `url` on merge request `mr_iid`."""

    verdict: str
    cause: str
    to_do: str
    url: str
    mr_iid: int
    found_at: float = field(metadata={KEY: "at"})
    job_url: str = ""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """One error of one project.

    `finding` is the newest, None once it was forgotten; `agreements` counts the investigations in a
    row that gave its verdict. `resolution` says how its newest sighting was resolved, "" if that is
    not known.
    """

    key: str
    first: float
    last: float
    count: int
    sightings: tuple[Sighting, ...]
    finding: PastFinding | None
    agreements: int = field(default=1, metadata={KEY: "agreed"})
    resolution: str = field(default="", metadata={KEY: "ended"})


def add_sighting(
    known: KnownFailure | None, key: str, sighting: Sighting, finding: PastFinding | None
) -> KnownFailure:
    """`known` with one more sighting, and what was found if somebody has looked.

    The same pipeline seen again counts once.
    """
    if known is None:
        return KnownFailure(key, sighting.seen_at, sighting.seen_at, 1, (sighting,), finding)
    before = [each for each in known.sightings if each.pipeline_id != sighting.pipeline_id]
    again = len(before) < len(known.sightings)
    made = replace(
        known,
        last=max(known.last, sighting.seen_at),
        count=known.count if again else known.count + 1,
        sightings=(*before, sighting)[-MOST_SIGHTINGS:],
        resolution=known.resolution if again else "",
    )
    if finding is None:
        return made
    same = known.finding is not None and known.finding.verdict == finding.verdict
    return replace(made, finding=finding, agreements=known.agreements + (not again) if same else 1)


RESOLUTIONS = {
    "fixed": "a later commit fixed it (pipeline {})",
    "passed_again": "it passed when run again, without a change (pipeline {})",
}
"""What `resolution` may say, by what became of the pipeline."""


def record_resolution(known: KnownFailure, of: int, became: str, by: int) -> KnownFailure:
    """Return `known` after pipeline `of` has become one of `RESOLUTIONS` by pipeline `by`.

    Only the newest sighting tells how the error ends; what has become otherwise changes nothing.
    """
    newest = known.sightings[-1].pipeline_id if known.sightings else 0
    if newest != of or became not in RESOLUTIONS:
        return known
    return replace(known, resolution=RESOLUTIONS[became].format(by))


def forget_merge_request(known: KnownFailure, mr_iid: int) -> KnownFailure | None:
    """`known` without a merge request's sightings and words; None if nothing is left."""
    kept = tuple(each for each in known.sightings if each.mr_iid != mr_iid)
    finding = known.finding
    if finding and finding.mr_iid == mr_iid:
        finding = None
    if not kept:
        return None
    left = min(known.count, len(kept))
    return replace(known, sightings=kept, count=left, finding=finding, resolution="")


def make_hit(known: KnownFailure, mr_iid: int, sha: str, hosts: Collection[str] = ()) -> Hit | None:
    """Return what a survey says of an entry, seen from a merge request at a commit.

    Its words name no host but one of `hosts`.
    """
    found = known.finding
    if found is None:
        return None
    others = {each.mr_iid for each in known.sightings} - {mr_iid}
    return Hit(
        count=known.count,
        first=known.first,
        last=known.last,
        found_at=found.found_at,
        verdict=found.verdict,
        cause=remove_foreign_hosts(found.cause, hosts),
        to_do=remove_foreign_hosts(found.to_do, hosts),
        url=found.url,
        job_url=found.job_url,
        mr_iid=found.mr_iid,
        others=tuple(sorted(others)),
        same=any(each.mr_iid == mr_iid and each.sha == sha for each in known.sightings),
        agreements=known.agreements,
        resolution=remove_foreign_hosts(known.resolution, hosts),
    )


# ------------------------------------------------------------------------------ may it answer?

_OTHERS = frozenset({Verdict.FLAKY, Verdict.INFRASTRUCTURE, Verdict.TARGET})


def find_answers(survey: Survey, project: str, now: float, settings: Settings) -> tuple[Hit, ...]:
    """The hits that answer for a model, one for each group; none if there is any doubt.

    Every failing job must be seen, every error known with the same verdict, none of them settled
    otherwise by a hard fact, and none may name what the merge request touches.
    """
    hits = [group.hit for group in survey.groups if group.hit]
    if not settings.answer or not survey.whole or survey.changed_paths is None or not hits:
        return ()
    if len(hits) < len(survey.groups) or len({each.verdict for each in hits}) > 1:
        return ()
    sure = all(_sure(group, now, settings.days) for group in survey.groups)
    return tuple(hits) if sure and not _named(survey, survey.changed_paths, project) else ()


def _sure(group: Group, now: float, days: float) -> bool:
    found = group.hit
    if found is None or not group.key or group.hard_verdict not in ("", found.verdict):
        return False
    if found.verdict == Verdict.CHANGE:
        return found.same and not found.resolution and now - found.found_at <= days * DAY
    most = min(days, TARGET_DAYS) if found.verdict == Verdict.TARGET else days
    fresh = 0 <= now - found.found_at <= most * DAY
    return found.verdict in _OTHERS and fresh and len(found.others) >= ENOUGH <= found.agreements


def _named(survey: Survey, changed: Iterable[str], project: str) -> bool:
    """Whether an error names what the merge request touches, or its jobs may be others now."""
    same = all(group.hit and group.hit.same for group in survey.groups)
    if same:
        return False
    paths = [FileChange(path) for path in changed]
    if any(is_ci(each.path) for each in paths):
        return True
    return any(
        find_touches(f"{group.text}\n{job.excerpt}", paths, project)
        for group in survey.groups
        for job in group.jobs
    )


# ------------------------------------------------------------------------------------- as stored


def dump_known_failure(known: KnownFailure) -> bytes:
    """The bytes of an entry, at most `MAX_ENTRY`: the oldest sightings go first."""
    while len(data := _json(known)) > MAX_ENTRY and known.sightings:
        known = replace(known, sightings=known.sightings[1:])
    return data


def _json(known: KnownFailure) -> bytes:
    fields = to_stored(known) | {
        "sightings": [to_stored(each) for each in known.sightings],
        "finding": to_stored(known.finding) if known.finding else None,
        "by": _BY,
    }
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def load_known_failure(data: bytes, key: str) -> KnownFailure | None:
    """The entry of an error, or None if the bytes are no entry of it."""
    try:
        return _load_fields(json.loads(data), key)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def _load_fields(fields: dict[str, Any], key: str) -> KnownFailure | None:
    if not _KEY.fullmatch(key) or fields["key"] != key or fields["by"] != _BY:
        return None
    stored = fields["finding"]
    return KnownFailure(
        key=key,
        first=_time(fields["first"]),
        last=_time(fields["last"]),
        count=_number(fields["count"]),
        sightings=tuple(_sighting(each) for each in fields["sightings"][-MOST_SIGHTINGS:]),
        finding=_finding(stored) if stored else None,
        agreements=_number(fields["agreed"]),
        resolution=one_line(str(fields["ended"]), _NAME),
    )


def _sighting(fields: dict[str, Any]) -> Sighting:
    return Sighting(
        mr_iid=_number(fields["mr_iid"]),
        pipeline_id=_number(fields["pipeline_id"]),
        job_id=_number(fields["job_id"]),
        job=one_line(str(fields["job"]), _NAME),
        sha=_matching(_HEX, fields["sha"]),
        seen_at=_time(fields["at"]),
    )


def _finding(fields: dict[str, Any]) -> PastFinding:
    return PastFinding(
        verdict=Verdict(fields["verdict"]).value,
        cause=one_line(str(fields["cause"]), _CAUSE),
        to_do=one_line(str(fields["to_do"]), _TO_DO),
        url=_matching(_WEB, fields["url"]) if fields["url"] else "",
        job_url=_matching(_WEB, fields["job_url"]) if fields["job_url"] else "",
        mr_iid=_number(fields["mr_iid"]),
        found_at=_time(fields["at"]),
    )


def make_past_finding(
    verdict: Verdict, cause: str, to_do: str, url: str, mr_iid: int, at: float
) -> PastFinding:
    """A finding in the form in which it is kept."""
    return PastFinding(
        verdict.value,
        one_line(cause, _CAUSE),
        one_line(to_do, _TO_DO),
        keep_web_url(url),
        mr_iid,
        at,
    )


def keep_web_url(url: str) -> str:
    """`url` if it is a plain web address, else ""."""
    return url if _WEB.fullmatch(url) else ""


def make_sighting(job: FailingJob, mr_iid: int, pipeline_id: int, sha: str, at: float) -> Sighting:
    """Where a group was seen, by the job that stands for it."""
    return Sighting(mr_iid, pipeline_id, job.job_id, one_line(job.name, _NAME), sha, at)


def list_keys(groups: Sequence[Group]) -> tuple[str, ...]:
    """The keys of the groups that have one."""
    return tuple(dict.fromkeys(group.key for group in groups if _KEY.fullmatch(group.key)))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**19:
        raise ValueError(f"{value!r} is no number of ours")
    return value


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no time")
    return float(value)


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{str(value)[:80]!r} is not what was stored")
    return value
