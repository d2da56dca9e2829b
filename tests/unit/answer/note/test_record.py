"""GitLab's record in a note: said plainly, linked, and harmless whatever names it holds."""

import json
import re
from dataclasses import replace

import pytest

from tests.unit.answer.note.test_note import DONE, FOOTER, MARKER, SUBJECT
from tests.unit.verdict.verdict_cases import (
    BASE,
    CHANGE,
    FLAKY,
    NEW,
    OLD,
    PASSED_LATER,
    TARGET,
    facts,
    run,
    target,
)
from worker.answer.note import facts as note_facts
from worker.answer.note import note
from worker.answer.note.layout import Layout
from worker.verdict.changed_files import Touch
from worker.verdict.fact_sentences import describe_facts
from worker.verdict.facts import Change, Facts, LastPass, Target
from worker.verdict.finding import Finding
from worker.verdict.remarks import Link, Name, remark
from worker.verdict.verdict import (
    Ruling,
    Verdict,
    decide_headline,
    dump_ruling,
    load_ruling,
    make_ruling,
)

HOSTS = frozenset({"gitlab.example.com"})
PAGES = "https://gitlab.example.com/team/service/-"


def _judged(model: Verdict, *errors: Facts) -> Finding:
    rulings = tuple(
        make_ruling(each, describe_facts(each, make_ruling(each).hard)) for each in errors
    )
    judged = decide_headline(rulings, model)
    return Finding(verdict=judged.verdict, rulings=rulings, final_verdict=judged)


def test_the_proof_comes_first_with_its_links() -> None:
    lines = note_facts.write_record(
        _judged(CHANGE, facts(target=target((NEW, "same"), (BASE, "same")))), HOSTS
    )
    pages = "https://gitlab.example.com/team/service/-"
    assert lines[0] == (
        "already failing on the target branch: same failure on `main`: "
        f"[pipeline 4000]({pages}/pipelines/4000), [job 400]({pages}/jobs/400), "
        "without this change"
    )
    assert (
        "this job on `main`, newest 2 pipelines: 2 failed in the same way "
        f"([job 400]({pages}/jobs/400), " in (lines[1])
    )


def test_the_job_for_which_the_record_proves_another_verdict_is_named_beside_the_headline() -> None:
    image = Ruling("image", (501,), Verdict.FLAKY, (), ())
    unit = Ruling("unit", (500,), None, (), ())
    found = Finding(verdict=CHANGE, rulings=(unit, image))
    assert note_facts.write_origin(found, HOSTS) == "`image`: flaky"
    assert note_facts.write_origin(replace(found, rulings=(image,)), HOSTS) == ""
    assert note_facts.write_origin(replace(found, verdict=FLAKY), HOSTS) == ""


def test_a_failure_that_comes_with_a_date_is_not_told_to_be_contradicted() -> None:
    ruling = Ruling("test", (500,), None, (), ((FLAKY, remark("failed 2 times")),))
    for to_do, line in (
        ("Renew it.", "speaks against “flaky”: failed 2 times"),
        ("Renew it; a retry does not help.", "failed 2 times"),
    ):
        found = Finding(verdict=FLAKY, rulings=(ruling,), to_do=to_do)
        assert note_facts.write_record(found, HOSTS) == [line]


def test_an_overruled_model_is_named_on_one_line() -> None:
    told = note_facts.write_doubt(_judged(CHANGE, facts(attempts=(PASSED_LATER,))), HOSTS)
    assert told.startswith(
        "The model said “caused by this change”, but `unit-tests` failed in [job"
    )
    assert "\n" not in told
    assert note_facts.write_doubt(_judged(FLAKY, facts(attempts=(PASSED_LATER,))), HOSTS) == ""
    assert note_facts.write_doubt(Finding(), HOSTS) == ""


def test_what_is_true_of_one_of_several_errors_names_its_job() -> None:
    lines = note_facts.write_record(
        _judged(CHANGE, facts(attempts=(PASSED_LATER,)), facts(name="lint", run=run(507))), HOSTS
    )
    assert lines[0].startswith("`unit-tests`: flaky: `unit-tests` failed in [job 500]")
    assert lines[1].startswith(f"{AGAINST_TARGET}: `lint` passed")


def test_the_models_verdict_is_never_told_as_the_record() -> None:
    lines = note_facts.write_record(
        _judged(CHANGE, facts(attempts=(PASSED_LATER,)), facts(name="lint", run=run(507))), HOSTS
    )
    assert not any("caused by this change" in line for line in lines)


def test_a_fact_that_is_true_of_all_errors_is_told_once() -> None:
    both = Change(2, ci=(".gitlab-ci.yml",))
    lines = note_facts.write_record(
        _judged(CHANGE, facts(change=both), facts(name="lint", run=run(507), change=both)), HOSTS
    )
    assert lines.count("CI configuration changed: `.gitlab-ci.yml`") == 1


def test_a_fact_speaks_against_a_verdict_and_does_not_deny_it() -> None:
    twice = facts(attempts=(run(498),))
    lines = note_facts.write_record(_judged(FLAKY, twice), HOSTS)
    assert lines[0].startswith(
        "speaks against “flaky”: `unit-tests` failed 2 times in the same way"
    )
    assert note_facts.write_doubt(_judged(FLAKY, twice), HOSTS) == ""
    assert any(each.startswith(f"{AGAINST_TARGET}: ") for each in lines)


def test_a_pass_of_the_commit_before_two_failures_does_not_speak_against_a_flake() -> None:
    twice = facts(attempts=(run(498), run(497, "success")))
    lines = note_facts.write_record(_judged(FLAKY, twice), HOSTS)
    assert not any("speaks against “flaky”" in line or "other runs" in line for line in lines)
    jobs = [f"[job {n}]({PAGES}/jobs/{n})" for n in (497, 498, 500)]
    assert (
        f"on this commit: passed in {jobs[0]}, then failed in the same way in {jobs[1]}, {jobs[2]}"
    ) in lines
    mixed = facts(attempts=(run(499, errors=frozenset({"e2"})), run(498), run(497, "success")))
    assert any(
        line.startswith("other runs on this commit: ")
        for line in note_facts.write_record(_judged(FLAKY, mixed), HOSTS)
    )


@pytest.mark.parametrize(
    ("there", "errors", "origin"),
    [
        (target((NEW, "same"), (BASE, "same")), {"e1"}, 400),
        (target((NEW, "unread"), (BASE, "same")), {"e1"}, 399),
        (target((NEW, "same")), {"e1", "e2"}, 400),
        (target((NEW, "unread")), {"e1"}, None),
    ],
)
def test_the_target_branchs_failure_is_linked_beside_the_verdict(
    there: Target, errors: set[str], origin: int | None
) -> None:
    made = facts(target=there, run=run(500, errors=frozenset(errors)))
    judged = replace(_judged(TARGET, made), verdict=TARGET)
    link = f"on `main`: [job {origin}]({PAGES}/jobs/{origin})" if origin else ""
    assert note_facts.write_origin(judged, HOSTS) == link
    assert note_facts.write_origin(replace(judged, verdict=FLAKY), HOSTS) == ""
    body = note.write_finding(MARKER, Layout(judged, SUBJECT, DONE, HOSTS), FOOTER)
    below = f" ({link})" if link else ""
    assert f"\n\n**Already failing on the target branch**{below}\n\n" in body


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (facts(attempts=(PASSED_LATER,)),
         "passed on the same commit in {501}"),
        (facts(attempts=(run(498), run(497, "success"))), "passed on the same commit in {497}"),
        (facts(recoveries=((run(490), run(491, "success")),)),
         "same error in {490}, which passed on a retry: {491}"),
        (facts(target=target((NEW, "pass"), (BASE, "pass"), (OLD, "same"), (OLD, "other"))),
         "on `main`: {398} failed alike, {399} passed"),
        # A part of the errors proves it together with other runs.
        (facts(run=run(500, errors=frozenset({"e1", "e2"})),
               target=target((OLD, "pass"), (OLD, "same"), (OLD, "other"))),
         "on `main` it failed in the same way and then passed on one commit: "
         "{399}, {400}, {398}, {400}"),
        # A pass before the failure may be what a change of the branch has ended.
        (facts(target=target((NEW, "other"), (BASE, "same"), (OLD, "pass"))), ""),
        (facts(), ""),
    ],
)  # fmt: skip
def test_a_flake_is_linked_to_where_it_came_and_went(made: Facts, told: str) -> None:
    judged = replace(_judged(FLAKY, made), verdict=FLAKY)
    linked = re.sub(r"\{(\d+)\}", rf"[job \1]({PAGES}/jobs/\1)", told)
    assert note_facts.write_origin(judged, HOSTS) == linked
    body = note.write_finding(MARKER, Layout(judged, SUBJECT, DONE, HOSTS), FOOTER)
    beside = f" ({linked})" if linked else ""
    assert f"\n\n**Flaky: not caused by this change**{beside}\n\n" in body
    stored = load_ruling(json.loads(json.dumps(dump_ruling(judged.rulings[0]))))
    assert stored == judged.rulings[0]


def test_a_link_that_the_doubt_has_already_is_not_told_again() -> None:
    overruled = _judged(CHANGE, facts(target=target((NEW, "same"), (BASE, "same"))))
    assert overruled.verdict is TARGET
    assert f"[job 400]({PAGES}/jobs/400)" in note_facts.write_doubt(overruled, HOSTS)
    assert note_facts.write_origin(overruled, HOSTS) == ""


def test_hostile_names_and_stored_words_do_nothing() -> None:
    sentence = remark(
        "see ![x](https://evil.example/a) <img src=x> @all ",
        Name("`main`\n/close @all"),
        Link("here](https://evil.example)", "https://evil.example/-/jobs/1"),
        Link("job 1", "javascript:alert(1)"),
        Link("job 2", "https://gitlab.example.com/x/-/jobs/2"),
    )
    text = note_facts.render_remark(sentence, HOSTS)
    assert "\n" not in text
    assert "](https://evil.example" not in text.replace("\\]", "")
    assert "javascript" not in text
    assert "[job 2](https://gitlab.example.com/x/-/jobs/2)" in text
    assert "<img" not in text.replace("\\<", "")


def test_a_long_record_is_cut_and_says_so() -> None:
    ruling = Ruling("x", (1,), TARGET, (), (), tuple(remark(f"fact {n}") for n in range(90)))
    lines = note_facts.write_record(replace(_judged(TARGET), rulings=(ruling,)), HOSTS)
    assert len(lines) == note_facts.MAX_LINES + 1
    assert lines[-1] == "50 more facts are left out"


AGAINST_TARGET = "speaks against “already failing on the target branch”"
ON_MAIN = (
    "when it last ran on `main`, on the commit this pipeline is built on: "
    f"[pipeline 4000]({PAGES}/pipelines/4000)"
)


def test_a_pass_on_the_target_branch_is_one_line_for_all_jobs() -> None:
    image = LastPass(run(400, "success"), ("gcc:12 a484f697a661 → b806fe27199d",))
    new = Change(2, touches=(Touch("include/a.h", "a.h", True, 3, is_new=True), _may("src/b.c")))
    both = {"change": new, "target": target((BASE, "pass")), "last_pass": image}
    lines = note_facts.write_record(
        _judged(CHANGE, facts(**both), facts(name="lint", **both)), HOSTS
    )
    job = f"[job 400]({PAGES}/jobs/400)"
    assert lines == [
        f"{AGAINST_TARGET}: `unit-tests` passed {ON_MAIN}, {job}; `lint` passed {ON_MAIN}, {job}",
        "the error names a file that is new in this change: `include/a.h`",
    ]


def _may(path: str) -> Touch:
    return Touch(path, path, False)


DIGEST, CLICK = "gcc:12 a484f697a661 → b806fe27199d", "click 8.1.8 → 8.2.0"
NAMED = Change(1, touches=(Touch("app/sum.py", "app/sum.py", True),))
INSTALLED = [
    ("nothing else explains it", (DIGEST,), Change(1), [DIGEST]),
    ("the change explains it", (DIGEST,), NAMED, []),
    ("a package moved, too", (DIGEST, CLICK), Change(1), [CLICK]),
    ("a package moved and the change may explain it", (DIGEST, CLICK), NAMED, [CLICK]),
]


@pytest.mark.parametrize(("kind", "installed", "change", "told"), INSTALLED)
def test_the_digest_of_an_image_is_told_only_where_nothing_else_explains(
    kind: str, installed: tuple[str, ...], change: Change, told: list[str]
) -> None:
    made = facts(change=change, last_pass=LastPass(run(400, "success"), installed))
    lines = [
        line
        for line in note_facts.write_record(_judged(CHANGE, made), HOSTS)
        if "installed" in line
    ]
    assert [each for each in (DIGEST, CLICK) for line in lines if each in line] == told, kind


def test_what_the_error_may_name_is_not_told_and_a_line_is_told_with_its_file() -> None:
    touches = (Touch("src/frame.c", "frame.c", True, 9), _may("src/b.c"))
    lines = note_facts.write_record(
        _judged(CHANGE, facts(change=Change(2, touches=touches))), HOSTS
    )
    assert "line 9 of `src/frame.c`, which the error names, is one that this change adds" in lines
    assert not any("may name" in line or "b.c" in line for line in lines)
    assert sum("frame.c" in line for line in lines) == 1
