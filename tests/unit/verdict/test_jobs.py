"""Failing jobs by cause, as the model is told of them."""

import json
from dataclasses import replace

import pytest

from worker.verdict import jobs
from worker.verdict.grouping import group_jobs
from worker.verdict.jobs import FailingJob, Group, Hit, RuleMatch, Survey
from worker.verdict.remarks import remark
from worker.verdict.survey_text import MOST_TOLD, tell_survey, tell_time
from worker.verdict.verdict import Ruling, Verdict

RACE = "12: E   KeyError: 'tide'\n13: FAILED tests/test_tide.py::test_high - KeyError: 'tide'"
LINT = "3: src/app.py:9:1: error: F401 'os' imported but unused"


def job(number: int, name: str, excerpt: str = RACE, **fields: object) -> FailingJob:
    made = FailingJob(number, name, "test", "script_failure", f"https://g/-/jobs/{number}", name)
    return replace(made, **{"excerpt": excerpt, "read": True, **fields})  # type: ignore[arg-type]


def variant(number: int, **fields: object) -> FailingJob:
    wanted = {
        "excerpt": RACE.replace("12:", f"{number}:"),
        "family": "unit",
        "family_size": 12,
    } | fields
    return replace(job(number, f"unit: [3.{number}]"), **wanted)  # type: ignore[arg-type]


def nothing(failing: FailingJob) -> RuleMatch | None:
    return None


def test_jobs_with_one_error_are_one_group_and_the_largest_comes_first() -> None:
    jobs = [job(1, "lint", LINT), *(variant(number) for number in range(2, 14))]
    groups = group_jobs(jobs, nothing)
    assert [group.job_names for group in groups] == ["unit (12 of 12 variants)", "lint"]
    assert [each.job_id for each in groups[0].jobs] == list(range(2, 14))
    assert groups[0].key != groups[1].key


def test_groups_that_lead_with_one_error_are_told_to_share_it() -> None:
    both = RACE + "\n14: FAILED tests/test_tide.py::test_low - ValueError: 'ebb'"
    groups = group_jobs([job(1, "unit"), job(2, "slow", both)], nothing)
    assert groups[0].text == groups[1].text
    first, second = tell_survey(Survey(groups)).split("\nGroup 2: ")
    assert "group 1 has it too" in second
    assert "has it too" not in first


GETS = "curl -sS https://api.example.org/releases/latest | tee"


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (["$ npm audit", "# audit report", "1 high severity vulnerability"], "1 high severity"),
        (["added 31 packages", "1 high severity vulnerability"], "1 high severity"),
        (["$ grep -rn TODO src | wc -l", "0"], "ERROR: Job failed: exit code 1"),
        (["$ ./check", "it is not what it was", "Running after_script", "$ rm -r out", "out gone"],
         "it is not what it was"),
        ([f"$ {GETS} latest.json", "API rate limit exceeded", "$ jq -re .tag latest.json", "null"],
         "API rate limit exceeded"),
        ([f"$ {GETS} latest.json", "saved in 3 s", "$ jq -re .tag latest.json", "null"],
         "ERROR: Job failed: exit code 1"),
        ([f"$ {GETS} other.json", "API rate limit exceeded", "$ jq -re .tag latest.json", "null"],
         "ERROR: Job failed: exit code 1"),
    ],
)  # fmt: skip
def test_a_group_without_an_error_shows_last_words_and_has_no_key(
    end: list[str], shown: str
) -> None:
    lines = [*end, "Cleaning up project directory and file based variables", ENDED]
    (group,) = group_jobs([job(1, "audit", "", end=tuple(enumerate(lines, 900)))], nothing)
    assert (group.text[: len(shown)], group.key) == (shown, "")


ENDED = "ERROR: Job failed: exit code 1"
VETTED = "3: # example.com/ferry/cmd\n4: vet: cmd/main.go:34:9: cannot use x as dock.Store value"
BUILT = VETTED.replace("vet: ", "")
TESTED = VETTED + "\n9: # example.com/ferry/dock\n11: dock/dock_test.go:12:45: cannot use y as x"


def test_a_build_error_seen_in_two_jobs_is_one_group_led_by_the_job_with_more() -> None:
    (group,) = group_jobs([job(1, "build", BUILT), job(2, "test", TESTED)], nothing)
    assert [each.name for each in group.jobs] == ["test", "build"]
    (alone,) = group_jobs([job(2, "test", TESTED)], nothing)
    assert group.text == alone.text
    assert group.key != alone.key  # of both jobs, it is another failure to remember


@pytest.mark.parametrize(
    "other",
    [
        TESTED + "\n12: --- FAIL: TestTide (0.00s)",
        TESTED.replace("main.go:34", "other.go:34"),
        TESTED.replace("dock.Store", "dock.Reader"),
    ],
    ids=["a test failed too", "another file", "another error"],
)
def test_a_build_error_is_not_grouped_with_other_failures(other: str) -> None:
    assert len(group_jobs([job(1, "build", BUILT), job(2, "test", other)], nothing)) == 2


def test_what_failed_besides_the_error_is_told_and_stored() -> None:
    lines = [f"{n}: FAILED tests/test_tide.py::test_low{n} - ValueError: 'ebb'" for n in range(9)]
    groups = group_jobs([job(1, "unit", "\n".join(lines)), job(2, "lint", LINT)], nothing)
    unit = next(group for group in groups if group.job_names == "unit")
    names = [f"tests/test_tide.py::test_low{n}" for n in range(1, 9)]
    assert unit.others == tuple(names)
    text = tell_survey(Survey(groups))
    assert f"\nfailed too: {'; '.join(names[:4])}; and at least 4 more\n" in text
    assert text.count("failed too") == 1
    assert jobs.load_survey(jobs.dump_survey(Survey(groups))) == Survey(groups)
    older = jobs.dump_survey(Survey(groups))
    for group in older["groups"]:
        del group["others"]
    assert jobs.load_survey(older).groups[0].others == ()


def test_artifacts_that_the_failed_job_kept_are_named() -> None:
    text = tell_survey(
        Survey(group_jobs([replace(job(1, "lint", LINT), kept_bytes=12_800)], nothing))
    )
    assert "\nit kept artifacts (12 KB): gitlab_list_artifacts names the files\n" in text
    assert "artifacts" not in tell_survey(Survey(group_jobs([job(1, "lint", LINT)], nothing)))


def test_an_unread_variant_stands_with_its_family_if_that_has_one_cause() -> None:
    unread = variant(9, read=False, excerpt="")
    (group,) = group_jobs([variant(2), variant(3), unread], nothing)
    assert len(group.jobs) == 3
    assert "logs not read: 1 of 3" in tell_survey(Survey((group,)))
    apart = group_jobs([variant(2), variant(3, excerpt=LINT), unread], nothing)
    assert len(apart) == 3


def test_jobs_whose_logs_tell_nothing_are_not_thrown_together() -> None:
    mere = "1: ERROR: Job failed: exit code 1"
    groups = group_jobs([job(1, "build", mere), job(2, "deploy", mere)], nothing)
    assert len(groups) == 2
    assert {group.key for group in groups} == {""}


def test_the_test_that_a_time_limit_ended_is_the_error() -> None:
    said = [
        "tests/test_pool.py::test_an_error PASSED [ 35%]",
        "tests/test_pool.py::test_drain ",
        "WARNING: step_script could not run to completion because the timeout was exceeded",
    ]
    end = tuple(enumerate(said, 1))
    excerpt = "\n".join(f"{number}: {line}" for number, line in end)
    hung = job(1, "unit", excerpt, end=end, reason="job_execution_timeout")
    (group,) = group_jobs([hung], nothing)
    assert group.text == "tests/test_pool.py::test_drain has not ended"
    failed = replace(hung, excerpt=f"{RACE}\n{excerpt}")
    (both,) = group_jobs([failed], nothing)
    assert both.text == group.text
    assert both.others[0].startswith("FAILED tests/test_tide.py::test_high")
    assert both.key != group.key
    assert group_jobs([replace(hung, reason="script_failure")], nothing)[0].text != group.text


def test_one_certain_rule_is_one_group_whatever_the_logs_say() -> None:
    def stuck(failing: FailingJob) -> RuleMatch | None:
        return RuleMatch("stuck", "infrastructure", "c", "d", certain=failing.job_id != 3)

    groups = group_jobs([job(1, "a"), job(2, "b", LINT), job(3, "c")], stuck)
    assert [[each.job_id for each in group.jobs] for group in groups] == [[1, 2], [3]]


def test_the_model_is_told_causes_jobs_and_what_is_known_in_six_kilobytes() -> None:
    hit = Hit(3, 1.0, 2.0, 2.0, "flaky", "a race", "retry", "https://g/x#note_1", others=(4, 5))
    groups = tuple(
        Group(
            f"{number:016x}",
            f"error {number}",
            tuple(variant(number * 100 + at) for at in range(12)),
            RuleMatch("disk-full", "infrastructure", "The disk was full.", "Retry.", 9, "no space"),
            hit,
        )
        for number in range(1, 30)
    )
    text = tell_survey(Survey(groups, ("the log of job 9: it took too long",)))
    assert len(text.encode()) <= MOST_TOLD
    few = tell_survey(Survey(groups[:1], ("the log of job 9: it took too long",)))
    for part in (
        "unit (12 of 12 variants)",
        "representative: job 100 (unit: [3.100])",
        "job 111 (unit: [3.111])",
        "recognised by rule disk-full, certain: The disk was full. (line 9: no space)",
        "seen before: 3 times, in 2 other merge requests; verdict then: flaky; cause then: a race",
        "    13: FAILED tests/test_tide.py",
        "Not known: the log of job 9",
    ):
        assert part in few
    assert tell_survey(Survey()) == ""


def ruling(hard: Verdict | None, *against: Verdict) -> Ruling:
    return Ruling(
        "unit", (1,), hard, remark("a pass") if hard else (), tuple((v, ()) for v in against)
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, ", certain: The disk"),
        (ruling(None), ", certain: The disk"),
        (ruling(Verdict.INFRASTRUCTURE), ", certain: The disk"),
        (ruling(Verdict.FLAKY), ", likely, to be checked: The disk"),
        (ruling(None, Verdict.INFRASTRUCTURE), ", likely, to be checked: The disk"),
    ],
)
def test_a_rule_is_not_certain_of_what_the_record_speaks_against(
    found: Ruling | None, said: str
) -> None:
    rule = RuleMatch("disk-full", "infrastructure", "The disk was full.", "Retry.")
    assert said in tell_survey(Survey((Group("k", "t", (job(1, "a"),), rule, ruling=found),)))


@pytest.mark.parametrize(
    ("found", "doubted"),
    [
        (ruling(None), False),
        (ruling(Verdict.FLAKY), False),
        (ruling(Verdict.TARGET), True),
        (ruling(None, Verdict.FLAKY), True),
    ],
)
def test_an_earlier_verdict_is_not_told_as_todays(found: Ruling, doubted: bool) -> None:
    hit = Hit(3, 1.0, 2.0, 2.0, "flaky", "a race", "retry", "https://g/x")
    text = tell_survey(Survey((Group("k", "t", (job(1, "a"),), None, hit, found),)))
    assert ("verdict then: flaky, which the facts below speak against now" in text) == doubted


def test_every_failing_job_is_named_however_many_there_are() -> None:
    apart = [
        job(number, f"apart-{number}", f"9: error: E{number} broke") for number in range(1, 30)
    ]
    alike = [variant(number) for number in range(100, 130)]
    text = tell_survey(Survey(group_jobs([*apart, *alike], nothing)))
    assert len(text.encode()) <= MOST_TOLD
    for each in (*apart, *alike):
        assert str(each.job_id) in text


def test_facts_give_way_before_jobs_do() -> None:
    record = tuple(remark(f"fact {number} " + "x" * 280) for number in range(12))
    many = tuple(
        Group(f"{n}", "t", (job(n, f"job-{n}"),), ruling=Ruling("u", (n,), None, (), (), record))
        for n in range(1, 13)
    )
    text = tell_survey(Survey(many, ("the log of job 9: it took too long",)))
    assert len(text.encode()) <= MOST_TOLD
    assert all(f"job {number} (job-{number})" in text for number in range(1, 13))
    assert text.endswith("Not known: the log of job 9: it took too long")
    assert tell_survey(Survey(many[:1])).count("fact: ") == 12


def test_it_says_what_comes_with_a_log_and_how_the_other_jobs_fared() -> None:
    with_green = replace(job(7, "unit"), green=5)
    made = Survey((Group("k", "t", (with_green,)),), others=("Passed: job 6 (lint)",))
    text = tell_survey(made)
    assert "comes with FILE.green, the log of job 5" in text
    assert "\nPassed: job 6 (lint)\n" in text


def test_the_time_is_told() -> None:
    assert tell_time(1763629202.0) == "It is 2025-11-20 09:00 UTC now."


def test_a_survey_comes_back_from_the_store() -> None:
    hit = Hit(3, 1.0, 2.0, 2.0, "flaky", "a race", "retry", "https://g/x", others=(4,), same=True)
    ruled = RuleMatch("disk-full", "infrastructure", "c", "d", 3, "t", False)
    made = Survey(
        (Group("ab" * 8, "t", (job(1, "a"),), ruled, hit), Group("", "", ())),
        ("m",),
        ("a.py",),
        False,
        ("Passed: job 6 (lint)",),
    )
    assert jobs.load_survey(json.loads(json.dumps(jobs.dump_survey(made)))) == made
    assert jobs.load_survey(json.loads(json.dumps(jobs.dump_survey(Survey())))) == Survey()


@pytest.mark.parametrize(
    "broken",
    [
        {"groups": 3},
        {"groups": [{}]},
        {"groups": [{"key": "", "text": "", "jobs": [{"job_id": "1", "name": "x"}]}]},
        {"changed": 5},
        {"missing": None},
    ],
)
def test_what_is_no_survey_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        jobs.load_survey(jobs.dump_survey(Survey()) | broken)


@pytest.mark.parametrize("groups", [1, 6, 12, 60])
@pytest.mark.parametrize("words", ["the total is not rounded ", "错误：测试失败"])
@pytest.mark.parametrize("shown", [0, 1024])
def test_every_failing_job_is_named_and_every_gap_told_however_long_their_texts_are(
    shown: int, words: str, groups: int
) -> None:
    hit = Hit(3, 1.0, 2.0, 2.0, "flaky", words * 40, "retry", "https://g/x#note_1", others=(4, 5))
    made = tuple(
        Group(
            f"k{number}",
            f"{number} {words * 40}",
            tuple(job(1000 + number + at, words * 10) for at in range(0, 60, groups)),
            hit=hit,
            others=tuple(f"{words * 20}{other}" for other in range(5)),
        )
        for number in range(groups)
    )
    gaps = tuple(f"gap {number} {words * 30}" for number in range(8))
    told = tell_survey(Survey(made, gaps, others=(words * 200,) * 9), MOST_TOLD + shown)
    assert len(told.encode()) <= MOST_TOLD + shown
    assert [number for number in range(1000, 1060) if str(number) not in told] == []
    assert told.count("Not known: gap") == 8
