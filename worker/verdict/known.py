"""Known failures: earlier findings about an error, by its signature or by its words. Pure.

Entries are made from members' merge requests only and are marked so; an entry without the mark is
ignored. They are read back as untrusted data: parsed and capped. An entry is used instead of asking
a model only if nothing contradicts it (`find_answers`). An error with an unknown signature that
shares most of its rare words with a known one is a lead, never an answer (`find_similar`).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from worker.safety.untrusted import one_line, parse_object, remove_foreign_hosts
from worker.settings.runs import KnownSettings
from worker.stored_keys import KEY, from_stored, pick_known, to_stored
from worker.verdict.changed_files import find_touches
from worker.verdict.diffs import FileChange, is_ci
from worker.verdict.jobs import FailingJob, Group, Hit, Survey
from worker.verdict.verdict import Verdict

MAX_ENTRY = 16 * 1024
"""The most bytes of one entry."""

_MOST_SIGHTINGS = 20
_ENOUGH = 2
"""How many other merge requests must have seen an error, and how many investigations in a row must
have agreed on it, before its entry is used instead of asking a model."""

_TARGET_DAYS = 1.0
"""Days after which "already failing on the target branch" is investigated again: it gets fixed."""

DAY = 86_400.0

_BY = "members"
_CAUSE, _TO_DO, _NAME = 600, 400, 160
_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_WEB = re.compile(r"https?://[^\s<>()\[\]\"'`]{1,390}")
_HEX = re.compile(r"[0-9a-f]{0,64}", re.ASCII)
T = TypeVar("T")


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
    """What an investigation of an error found, in the note `url` on merge request `mr_iid`."""

    verdict: str
    cause: str
    to_do: str
    url: str
    mr_iid: int
    found_at: float = field(metadata={KEY: "at"})
    job_url: str = ""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """One error of one project."""

    key: str
    first: float
    last: float
    count: int
    sightings: tuple[Sighting, ...]
    finding: PastFinding | None
    """The newest one, None if there is none or it was forgotten."""
    agreements: int = field(default=1, metadata={KEY: "agreed"})
    """How many investigations in a row gave its verdict."""
    resolution: str = field(default="", metadata={KEY: "ended"})
    """How the newest sighting was resolved, "" if that is not known."""


def add_sighting(
    known: KnownFailure | None, key: str, sighting: Sighting, finding: PastFinding | None
) -> KnownFailure:
    """Return `known` with one more sighting, and with the `finding` if there was an investigation.

    A pipeline that is seen again counts once.
    """
    if known is None:
        return KnownFailure(key, sighting.seen_at, sighting.seen_at, 1, (sighting,), finding)
    before = [each for each in known.sightings if each.pipeline_id != sighting.pipeline_id]
    again = len(before) < len(known.sightings)
    entry = replace(
        known,
        last=max(known.last, sighting.seen_at),
        count=known.count if again else known.count + 1,
        sightings=(*before, sighting)[-_MOST_SIGHTINGS:],
        resolution=known.resolution if again else "",
    )
    if finding is None:
        return entry
    same = known.finding is not None and known.finding.verdict == finding.verdict
    return replace(entry, finding=finding, agreements=known.agreements + (not again) if same else 1)


RESOLUTIONS = {
    "fixed": "a later commit fixed it (pipeline {})",
    "passed_again": "it passed when run again, without a change (pipeline {})",
}
"""The texts of `resolution`, by what became of the pipeline."""


def record_resolution(known: KnownFailure, of: int, became: str, by: int) -> KnownFailure:
    """Return `known` after pipeline `by` has resolved pipeline `of`; `became` says how.

    It changes nothing if `of` is not the pipeline of the newest sighting, or if `became` is not one
    of `RESOLUTIONS`.
    """
    newest = known.sightings[-1].pipeline_id if known.sightings else 0
    if newest != of or became not in RESOLUTIONS:
        return known
    return replace(known, resolution=RESOLUTIONS[became].format(by))


def forget_merge_request(known: KnownFailure, mr_iid: int) -> KnownFailure | None:
    """Return `known` without a merge request's sightings and finding; None if none is left."""
    kept = tuple(each for each in known.sightings if each.mr_iid != mr_iid)
    if not kept:
        return None
    own = known.finding is not None and known.finding.mr_iid == mr_iid
    finding, count = None if own else known.finding, min(known.count, len(kept))
    return replace(known, sightings=kept, count=count, finding=finding, resolution="")


def make_hit(known: KnownFailure, mr_iid: int, sha: str, hosts: Collection[str] = ()) -> Hit | None:
    """Return what a survey says of an entry, seen from a merge request at a commit.

    Its texts lose the addresses of hosts other than `hosts`. None if the entry has no finding.
    """
    finding = known.finding
    if finding is None:
        return None
    others = {each.mr_iid for each in known.sightings} - {mr_iid}
    return Hit(
        count=known.count,
        first=known.first,
        last=known.last,
        found_at=finding.found_at,
        verdict=finding.verdict,
        cause=remove_foreign_hosts(finding.cause, hosts),
        to_do=remove_foreign_hosts(finding.to_do, hosts),
        url=finding.url,
        job_url=finding.job_url,
        mr_iid=finding.mr_iid,
        others=tuple(sorted(others)),
        same=any(each.mr_iid == mr_iid and each.sha == sha for each in known.sightings),
        agreements=known.agreements,
        resolution=remove_foreign_hosts(known.resolution, hosts),
    )


# ------------------------------------------------------------------------------ may it answer?

_OF_THE_PROJECT = frozenset({Verdict.FLAKY, Verdict.INFRASTRUCTURE, Verdict.TARGET})


def find_answers(
    survey: Survey, project: str, now: float, settings: KnownSettings
) -> tuple[Hit, ...]:
    """Return the hits that can be used instead of asking a model, one for each group.

    In doubt there are none: every failing job must have been seen, every error must be known with
    the same verdict, GitLab's record must not prove another one, and no error may name what the
    merge request changes.
    """
    hits = [group.hit for group in survey.groups if group.hit]
    if not settings.answer or not survey.whole or survey.changed_paths is None or not hits:
        return ()
    if len(hits) < len(survey.groups) or len({each.verdict for each in hits}) > 1:
        return ()
    if not all(_is_sure(group, now, settings.days) for group in survey.groups):
        return ()
    if not all(hit.same for hit in hits):  # this merge request has not seen them on this commit
        paths = [FileChange(path) for path in survey.changed_paths]
        texts = (f"{group.text}\n{job.excerpt}" for group in survey.groups for job in group.jobs)
        if any(is_ci(path) for path in survey.changed_paths):
            return ()
        if any(find_touches(text, paths, project) for text in texts):
            return ()
    return tuple(hits)


def _is_sure(group: Group, now: float, days: float) -> bool:
    hit = group.hit
    if hit is None or not group.key or group.hard_verdict not in ("", hit.verdict):
        return False
    if hit.verdict == Verdict.CHANGE:
        return hit.same and not hit.resolution and now - hit.found_at <= days * DAY
    most = min(days, _TARGET_DAYS) if hit.verdict == Verdict.TARGET else days
    fresh = 0 <= now - hit.found_at <= most * DAY
    return hit.verdict in _OF_THE_PROJECT and fresh and len(hit.others) >= _ENOUGH <= hit.agreements


# ------------------------------------------------------------------------------------- as stored


def dump_known_failure(known: KnownFailure) -> bytes:
    """Return an entry's bytes; the oldest sightings are dropped to keep it within `MAX_ENTRY`."""
    finding = to_stored(known.finding) if known.finding else None
    for dropped in range(len(known.sightings) + 1):
        sightings = [to_stored(each) for each in known.sightings[dropped:]]
        fields = to_stored(known) | {"sightings": sightings, "finding": finding, "by": _BY}
        data = json.dumps(fields, ensure_ascii=False).encode(errors="replace")
        if len(data) <= MAX_ENTRY:
            break
    return data


def load_known_failure(data: bytes | None, key: str) -> KnownFailure | None:
    """Return the entry of the error with this key; None if there is none or it is not valid."""
    try:
        fields = json.loads(data or b"")
        if not _KEY.fullmatch(key) or fields["key"] != key or fields.pop("by") != _BY:
            return None
        inner: dict[str, Any] = {
            "sightings": tuple(
                replace(found, job=one_line(found.job, _NAME), sha=_require_match(_HEX, found.sha))
                for each in fields["sightings"][-_MOST_SIGHTINGS:]
                for found in [_load_counted(Sighting, each)]
            ),
            "finding": None,
        }
        if stored := fields["finding"]:
            found = _load_counted(PastFinding, stored)
            inner["finding"] = replace(
                found,
                verdict=Verdict(found.verdict).value,
                cause=one_line(found.cause, _CAUSE),
                to_do=one_line(found.to_do, _TO_DO),
                url=_require_match(_WEB, found.url) if found.url else "",
                job_url=_require_match(_WEB, found.job_url) if found.job_url else "",
            )
        known = _load_counted(KnownFailure, {**fields, **inner})
        return replace(known, resolution=one_line(known.resolution, _NAME))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def _load_counted(cls: Callable[..., T], fields: dict[str, Any]) -> T:
    """Read a dataclass whose numbers are times, ids and counts: none is negative."""
    for value in fields.values():
        if isinstance(value, int | float) and value < 0:
            raise ValueError(f"{value!r} is no number of ours")
    return from_stored(cls, pick_known(cls, fields))


def make_past_finding(
    verdict: Verdict, cause: str, to_do: str, url: str, mr_iid: int, at: float
) -> PastFinding:
    """Make a finding in the form in which it is stored."""
    cause, to_do = one_line(cause, _CAUSE), one_line(to_do, _TO_DO)
    return PastFinding(verdict.value, cause, to_do, keep_web_url(url), mr_iid, at)


def keep_web_url(url: str) -> str:
    """Return `url` if it is a plain web address, else ""."""
    return url if _WEB.fullmatch(url) else ""


def make_sighting(job: FailingJob, mr_iid: int, pipeline_id: int, sha: str, at: float) -> Sighting:
    """Make the sighting of a group from the job that represents it."""
    return Sighting(mr_iid, pipeline_id, job.job_id, one_line(job.name, _NAME), sha, at)


def list_keys(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return the keys of the groups that have one, each once."""
    return tuple(dict.fromkeys(group.key for group in groups if _KEY.fullmatch(group.key)))


def _require_match(pattern: re.Pattern[str], value: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is not what was stored")
    return value


MOST_ENTRIES, _MOST_WORDS, MOST_LEADS = 150, 16, 2
MAX_AGE = 90 * 86_400.0
"""Seconds after which an error's words are dropped from the index."""

_SHARE, _LEAST_SHARED = 0.6, 3
_RARE_IN = 0.1
_WORD = re.compile(r"[a-z_][a-z0-9_]{3,19}")
_COMMON = frozenset(
    ("assertionerror", "error", "errors", "exception", "failed", "failure", "line", "test", "tests")
)


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """The words of a known error, last seen at `seen_at` (epoch seconds)."""

    key: str
    words: frozenset[str]
    seen_at: float


def read_group_words(group: Group) -> frozenset[str]:
    """Return the words by which a group's errors are compared with others."""
    text = " ".join([group.text, *group.others]).lower()
    found = (word for word in _WORD.findall(text) if word not in _COMMON)
    return frozenset(list(dict.fromkeys(found))[:_MOST_WORDS])


def find_similar(words: Collection[str], index: Sequence[ErrorWords]) -> tuple[str, ...]:
    """Return the keys of the errors that share most of their rare words with these, best first."""
    frequent = Counter(word for entry in index for word in entry.words)
    most = max(2, int(_RARE_IN * len(index)))
    own = {word for word in words if frequent[word] <= most}
    scored: list[tuple[float, str]] = []
    for entry in index:
        rare = {word for word in entry.words if frequent[word] <= most}
        shared = len(own & rare)
        smaller = min(len(own), len(rare))
        if shared >= _LEAST_SHARED and shared >= _SHARE * smaller:
            scored.append((shared / smaller, entry.key))
    best = sorted(scored, key=lambda each: (-each[0], each[1]))
    return tuple(key for _, key in best[:MOST_LEADS])


def list_unexplained(survey: Survey) -> tuple[Group, ...]:
    """Return the groups that no rule, no earlier finding and no proof in the record explains."""
    return tuple(
        group
        for group in survey.groups
        if group.key and not (group.hit or group.rule_match or group.hard_verdict)
    )


def add_words(index: Sequence[ErrorWords], groups: Iterable[Group], now: float) -> list[ErrorWords]:
    """Return the index with the groups' errors as seen now, the newest first."""
    seen = [ErrorWords(group.key, read_group_words(group), now) for group in groups]
    keys = {each.key for each in seen}
    others = (each for each in index if each.key not in keys and now - each.seen_at < MAX_AGE)
    return [*(each for each in seen if each.words), *others][:MOST_ENTRIES]


def dump_words(index: Sequence[ErrorWords]) -> bytes | None:
    """Return the bytes of an index, at most 64 KB; None if it is empty."""
    fields = {each.key: [each.seen_at, sorted(each.words)] for each in index}
    return json.dumps(fields, separators=(",", ":")).encode() if fields else None


def load_words(data: bytes | None) -> tuple[ErrorWords, ...]:
    """Return the entries of an index; invalid ones are left out."""
    fields = parse_object(data or b"")
    index: list[ErrorWords] = []
    for key, value in list(fields.items())[:MOST_ENTRIES]:
        match value:
            case [int() | float() as seen_at, list() as words] if abs(seen_at) < 2**53:
                good = [word for word in words if isinstance(word, str) and _WORD.fullmatch(word)]
                if _KEY.fullmatch(key):
                    index.append(ErrorWords(key, frozenset(good[:_MOST_WORDS]), float(seen_at)))
    return tuple(index)
