"""What failed are the jobs that GitLab lists; the model only adds what failed in each."""

from dataclasses import replace

import pytest

from worker.answer.failed_jobs import (
    Detail,
    FailedLine,
    Form,
    list_by_cause,
    list_failed,
    write_label,
)
from worker.verdict.finding import FailedJobs
from worker.verdict.jobs import FailingJob, Group, Survey


def _job(job_id: int, name: str, family: str = "", excerpt: str = "") -> FailingJob:
    url = f"https://gitlab.example.com/g/p/-/jobs/{job_id}"
    of = 3 if family else 1
    return FailingJob(job_id, name, url=url, family=family or name, family_size=of, excerpt=excerpt)


BUILDS = _job(501, "build: [host]", "build"), _job(502, "build: [arm]", "build")
SHOWN = "…\n58: $ pytest -v --cov=app\n…\n60: E   assert 1 == 2"
UNIT = _job(503, "unit", excerpt=SHOWN)
SURVEY = Survey((Group("a", "error", BUILDS), Group("b", "other", (UNIT,))))


@pytest.mark.parametrize(
    ("text", "builds", "units"),
    [
        ("", (), ()),
        ("`build` (2 of 2 variants), `vendor/x`; `unit` (503): `test_a`, `test_b`",
         ("vendor/x",), ("test_a", "test_b")),
        ("unit (job 503): tests/a.py::test_a and TestFoo; build: [arm] (502): linking `x`",
         ("x",), ("tests/a.py::test_a", "TestFoo")),
        ("unit: `test_a` (1 of 407) and `test_a`, \"a b\" in `t.js`",
         (), ("test_a", "a b", "t.js")),
        ("Job 503 fails in `test_a`. `format` (504): `x` fails too, but is allowed to.",
         (), ("test_a",)),
        ("`unit` and `build`: `make`", ("make",), ()),
        ("Two jobs fail.", (), ()),
    ],
)  # fmt: skip
def test_tests_belong_to_the_job_that_they_stand_after(
    text: str, builds: tuple[str, ...], units: tuple[str, ...]
) -> None:
    build, unit = list_failed(SURVEY, text)
    assert (build.tests, unit.tests) == (builds, units)


def test_a_job_has_its_link_its_step_and_how_many_of_its_matrix_failed() -> None:
    build, unit = list_failed(SURVEY, "")
    assert (build, unit) == (FailedJobs(BUILDS), FailedJobs((UNIT,)))
    line = FailedLine((build, unit), "", frozenset({"gitlab.example.com"}))
    assert line.write(Detail.WHOLE) == (
        f"`build` ([2 of 3 variants]({BUILDS[0].url})); `unit` ([503]({UNIT.url})), `pytest`"
    )
    alone = list_failed(Survey((Group("a", "error", BUILDS[:1]),)), "")
    assert FailedLine(alone, "").write(Detail.WHOLE) == "`build: [host]` (501)"


@pytest.mark.parametrize(
    ("form", "jobs", "label"),
    [
        (Form.LINE, BUILDS, f"`build` ([2 of 3 variants]({BUILDS[0].url}))"),
        (Form.LINE, (UNIT,), f"`unit` ([503]({UNIT.url}))"),
        (Form.REPORT, (*BUILDS, UNIT),
         f"`build (2 of 3 variants), unit` ([job 501]({BUILDS[0].url}))"),
        (Form.REPORT, (replace(UNIT, job_id=0),), f"`unit` ([its page]({UNIT.url}))"),
        (Form.REPORT, (replace(UNIT, url="https://evil.example/1"),), "`unit` (job 503)"),
        (Form.KNOWN, (*BUILDS, UNIT), "build (2 of 3 variants), unit"),
        (Form.KNOWN, (), "the pipeline's configuration"),
        (Form.DETAILS, BUILDS[:1], f"[501 host]({BUILDS[0].url})"),
        (Form.DETAILS, (replace(UNIT, url=""),), "503"),
    ],
)  # fmt: skip
def test_each_note_has_its_form_of_the_one_label(
    form: Form, jobs: tuple[FailingJob, ...], label: str
) -> None:
    assert write_label(jobs, form, frozenset({"gitlab.example.com"})) == label


def test_jobs_are_listed_by_cause_if_one_has_several() -> None:
    first, second = (job.url for job in BUILDS)
    assert list_by_cause(SURVEY) == (
        "**Failing jobs by cause**\n\n"
        f"- build (2 of 3 variants): [501 host]({first}), [502 arm]({second})\n"
        f"- unit: [503]({UNIT.url})"
    )
    assert list_by_cause(Survey(SURVEY.groups[1:])) == list_by_cause(None) == ""


@pytest.mark.parametrize(
    ("excerpt", "step"),
    [
        ("7: $ make check && true", "make check"),
        ("7: $ a\n8: $ b", ""),
        ("7: E x", ""),
        ("7:   $ quoted", ""),
    ],
)
def test_a_step_is_told_only_where_one_command_is_shown(excerpt: str, step: str) -> None:
    failed = FailedJobs((_job(1, "unit", excerpt=excerpt),))
    told = f", `{step}`" if step else ""
    assert FailedLine([failed], "").write(Detail.WHOLE) == f"`unit` (1){told}"


def test_without_a_job_of_the_survey_nothing_is_listed() -> None:
    assert list_failed(None, "unit (503): test_a") == ()
    assert list_failed(Survey((Group("", "yaml", ()),)), "unit (503): test_a") == ()


def test_a_hostile_text_is_read_in_linear_time() -> None:
    for part in ("`", '"', "a_", "::", "(", "unit:", "job 5", "[", "Test"):
        list_failed(SURVEY, part * 20_000)
