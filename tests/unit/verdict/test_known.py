"""What is known of an error, and when that may answer for a model."""

import json
from dataclasses import replace

import pytest

from worker.settings.runs import KnownSettings
from worker.verdict import known
from worker.verdict.jobs import FailingJob, Group, Survey
from worker.verdict.known import DAY, KnownFailure, PastFinding, Sighting
from worker.verdict.verdict import Ruling, Verdict

KEY = "0123456789abcdef"
NOW = 1_795_000_000.0
SHA = "ab" * 20
ON = KnownSettings()
CHANGED = Ruling("unit-tests", (), Verdict.CHANGE, (), ())


def sighting(mr: int, pipeline: int, at: float = NOW - DAY) -> Sighting:
    return Sighting(mr, pipeline, 500 + pipeline, "unit-tests", SHA, at)


def finding(verdict: str = "flaky", mr: int = 1, at: float = NOW - DAY) -> PastFinding:
    url = f"https://gitlab.example/g/p/-/merge_requests/{mr}#note_9"
    return PastFinding(verdict, "a race in the clock", "retry it", url, mr, at)


def entry(*mrs: int, verdict: str = "flaky", at: float = NOW - DAY) -> KnownFailure:
    made: KnownFailure | None = None
    for number, mr in enumerate(mrs, 1):
        made = known.add_sighting(made, KEY, sighting(mr, number, at), finding(verdict, mr, at))
    assert made is not None
    return made


def surveyed(made: KnownFailure, *, mr: int = 9, sha: str = "cd" * 20, **group: object) -> Survey:
    job = FailingJob(500, "unit-tests", "test", "script_failure", read=True, excerpt="7: E race")
    hit = known.make_hit(made, mr, sha)
    fields = {"key": KEY, "text": "E race", "jobs": (job,), "hit": hit, **group}
    return Survey((Group(**fields),), (), ("docs/readme.md",))  # type: ignore[arg-type]


def test_the_same_pipeline_counts_once_and_findings_that_agree_add_up() -> None:
    made = entry(1, 2, 3)
    assert (made.count, made.agreements, len(made.sightings)) == (3, 3, 3)
    again = known.add_sighting(made, KEY, sighting(3, 3), finding(mr=3))
    assert (again.count, again.agreements, len(again.sightings)) == (3, 3, 3)
    other = known.add_sighting(made, KEY, sighting(4, 4), finding("infrastructure", 4))
    assert (other.count, other.agreements) == (4, 1)
    only_seen = known.add_sighting(made, KEY, sighting(4, 4, NOW), None)
    assert (only_seen.count, only_seen.agreements, only_seen.finding) == (4, 3, made.finding)


def test_an_entry_comes_back_as_it_was_stored() -> None:
    made = entry(1, 2, 3)
    assert known.load_known_failure(known.dump_known_failure(made), KEY) == made


def test_an_entry_never_outgrows_its_cap() -> None:
    long = replace(finding(), cause="ü" * 5000)
    made: KnownFailure | None = None
    for number in range(1, 60):
        made = known.add_sighting(made, KEY, sighting(number, number), long)
    assert made is not None
    assert made.count == 59
    data = known.dump_known_failure(made)
    assert len(data) <= known.MAX_ENTRY
    read = known.load_known_failure(data, KEY)
    assert read is not None
    assert read.finding is not None
    assert len(read.finding.cause) <= 600


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"key": "0123456789abcdef"}',
        {"key": "f" * 16},
        {"count": True},
        {"first": 1e400},
        {"last": "now"},
        {"agreed": -1},
        {"sightings": [{"mr_iid": 1}]},
        {"finding": {"verdict": "fine"}},
    ],
)
def test_what_is_no_entry_is_none(hostile: bytes | dict[str, object]) -> None:
    if isinstance(hostile, dict):
        hostile = json.dumps(json.loads(known.dump_known_failure(entry(1))) | hostile).encode()
    assert known.load_known_failure(hostile, KEY) is None


def test_words_and_links_of_a_stored_entry_are_cut_and_checked() -> None:
    stored = json.loads(known.dump_known_failure(entry(1)))
    stored["finding"]["cause"] = "a\u202e line\nand /close\n" + "x" * 9000
    read = known.load_known_failure(json.dumps(stored).encode(), KEY)
    assert read is not None
    assert read.finding is not None
    assert "\n" not in read.finding.cause
    assert "\u202e" not in read.finding.cause
    stored["finding"]["url"] = "javascript:alert(1)"
    assert known.load_known_failure(json.dumps(stored).encode(), KEY) is None


def test_two_other_merge_requests_are_enough() -> None:
    assert known.find_answers(surveyed(entry(1, 2)), "g/p", NOW, ON)
    assert not known.find_answers(surveyed(entry(1)), "g/p", NOW, ON)
    assert not known.find_answers(surveyed(entry(1, 1)), "g/p", NOW, ON)
    assert not known.find_answers(surveyed(entry(1, 9), mr=9), "g/p", NOW, ON)


@pytest.mark.parametrize(
    "verdict", ["flaky", "infrastructure", "already failing on the target branch"]
)
def test_only_what_is_not_the_changes_answers_for_others(verdict: str) -> None:
    fresh = NOW - 3600
    assert known.find_answers(surveyed(entry(1, 2, verdict=verdict, at=fresh)), "g/p", NOW, ON)
    change = entry(1, 2, verdict="caused by this change", at=fresh)
    assert not known.find_answers(surveyed(change), "g/p", NOW, ON)


def test_the_same_commit_of_the_same_merge_request_may_be_told_it_is_its_change() -> None:
    made = entry(9, verdict="caused by this change")
    assert known.find_answers(surveyed(made, mr=9, sha=SHA), "g/p", NOW, ON)
    assert not known.find_answers(surveyed(made, mr=9), "g/p", NOW, ON)
    assert not known.find_answers(surveyed(made, mr=8, sha=SHA), "g/p", NOW, ON)


def test_old_findings_do_not_answer_and_a_broken_target_is_looked_at_daily() -> None:
    assert not known.find_answers(surveyed(entry(1, 2, at=NOW - 15 * DAY)), "g/p", NOW, ON)
    assert known.find_answers(surveyed(entry(1, 2, at=NOW - 13 * DAY)), "g/p", NOW, ON)
    assert not known.find_answers(surveyed(entry(1, 2, at=NOW + DAY)), "g/p", NOW, ON)
    target = entry(1, 2, verdict=Verdict.TARGET.value, at=NOW - 2 * DAY)
    assert not known.find_answers(surveyed(target), "g/p", NOW, ON)


def test_any_doubt_leaves_it_to_the_model() -> None:
    sure = surveyed(entry(1, 2))
    hit = sure.groups[0].hit
    assert hit is not None
    doubts = {
        "switched off": (sure, KnownSettings(answer=False)),
        "a job was not seen": (replace(sure, whole=False), ON),
        "the diff is not known": (replace(sure, changed_paths=None), ON),
        "the configuration was changed": (replace(sure, changed_paths=(".gitlab-ci.yml",)), ON),
        "another group is not known": (
            replace(sure, groups=(*sure.groups, replace(sure.groups[0], hit=None))),
            ON,
        ),
        "another group has another verdict": (
            replace(
                sure,
                groups=(
                    *sure.groups,
                    replace(sure.groups[0], hit=replace(hit, verdict="infrastructure")),
                ),
            ),
            ON,
        ),
        "a hard fact says otherwise": (surveyed(entry(1, 2), ruling=CHANGED), ON),
        "no key": (surveyed(entry(1, 2), key=""), ON),
        "the last looks did not agree": (
            surveyed(
                known.add_sighting(entry(1, 2), KEY, sighting(3, 3), finding("infrastructure", 3))
            ),
            ON,
        ),
        "the error names what the change touches": (
            replace(
                surveyed(entry(1, 2), text="E   TypeError at src/clock.py:41"),
                changed_paths=("src/clock.py",),
            ),
            ON,
        ),
    }
    answered = [
        name for name, (made, on) in doubts.items() if known.find_answers(made, "g/p", NOW, on)
    ]
    assert answered == []
    assert known.find_answers(sure, "g/p", NOW, ON) == (hit,)


def test_a_forgotten_merge_request_leaves_neither_sightings_nor_words() -> None:
    left = known.forget_merge_request(entry(1, 2, 3), 3)
    assert left is not None
    assert left.finding is None
    assert known.make_hit(left, 9, SHA) is None
    assert "note_9" not in known.dump_known_failure(left).decode()
    assert {each.mr_iid for each in left.sightings} == {1, 2}
    others = known.forget_merge_request(entry(1, 2, 3), 1)
    assert others is not None
    assert others.finding is not None
    assert known.forget_merge_request(entry(3), 3) is None
