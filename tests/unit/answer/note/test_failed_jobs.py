"""What failed is told on one line: every job, and as much about each as fits."""

import re

import pytest

from worker.answer.failed_jobs import LINE, Detail, FailedLine
from worker.verdict.finding import FailedJobs
from worker.verdict.jobs import FailingJob

HOST = "gitlab.example.com"
URL = f"https://{HOST}/g/p/-/jobs/"
LINK = "the long linking of build/bin/a with everything in it"
T = "tests/integration/test_of_the_storefront.py::test_{}".format


def _fail(name: str, job_id: int, *tests: str, of: int = 1, step: str = "") -> FailedJobs:
    """A job, or two of a matrix `of` so many."""
    excerpt = f"7: $ {step}" if step else ""
    job = FailingJob(job_id, name, url=f"{URL}{job_id}", family_size=of, excerpt=excerpt)
    return FailedJobs((job,) if of == 1 else (job, job), tests)


def _count_columns(line: str) -> int:
    return len(re.sub(r"\]\([^()]*\)|[`\[]", "", line))


def _write(*jobs: FailedJobs, hosts: frozenset[str] = frozenset()) -> list[str]:
    line = FailedLine(jobs, "", hosts)
    return [line.write(detail) for detail in (Detail.WHOLE, Detail.FIRST_TESTS, Detail.ONE_LINE)]


@pytest.mark.parametrize(
    ("jobs", "whole", "first", "line"),
    [
        ([_fail("unit", 5, "test_a")], *["`unit` (5): `test_a`"] * 3),
        ([_fail("unit", 5)], *["`unit` (5)"] * 3),
        ([_fail("unit", 5, "test_a", step="pytest")], *["`unit` (5), `pytest`: `test_a`"] * 3),
        ([_fail("build", 5, "make", step="make", of=3)],
         *["`build` (2 of 3 variants): `make`"] * 3),
        ([_fail("unit", 5, T("a"), T("b"), T("c"))],
         f"`unit` (5): `{T('a')}`, `{T('b')}` and `{T('c')}`",
         f"`unit` (5): `{T('a')}` and 2 more tests", f"`unit` (5): `{T('a')}` and 2 more tests"),
        ([_fail("build", 5, LINK, "x"), _fail("smoke", 6, "./x is not there")],
         f"`build` (5): `{LINK}` and `x`; `smoke` (6): `./x is not there`",
         f"`build` (5): `{LINK}` and 1 more; `smoke` (6): `./x is not there`",
         f"`build` (5): `{LINK}` and `x`; `smoke` (6)"),
        ([_fail("unit", 5, T("a" * 90))], *[f"`unit` (5): `{T('a' * 90)}`"] * 2, "`unit` (5)"),
    ],
)  # fmt: skip
def test_every_job_is_named_with_as_much_about_it_as_fits_on_a_line(
    jobs: list[FailedJobs], whole: str, first: str, line: str
) -> None:
    assert _write(*jobs) == [whole, first, line]
    assert _count_columns(line) <= LINE


def test_a_job_links_to_its_log_and_the_link_takes_no_room() -> None:
    jobs = [_fail("unit", 5, T("a")), _fail("e2e", 7, of=2)]
    *_, line = _write(*jobs, hosts=frozenset({HOST}))
    unit, e2e = f"`unit` ([5]({URL}5))", f"`e2e` ([2 of 2 variants]({URL}7))"
    assert line == f"{unit}: `{T('a')}`; {e2e}"
    assert _write(*jobs)[-1] == f"`unit` (5): `{T('a')}`; `e2e` (2 of 2 variants)"


def test_of_many_jobs_the_first_are_named_and_the_others_counted() -> None:
    line = FailedLine([_fail(f"job-{number}", number) for number in range(1, 61)], "")
    assert line.write(Detail.NAMES) == "`job-1` (1), `job-2` (2), `job-3` (3) and 57 more"
    shown = line.write(Detail.ONE_LINE)
    assert shown.startswith("`job-1` (1), `job-2` (2), ")
    assert LINE - 15 < _count_columns(shown) <= LINE
    assert line.write(Detail.NOTHING) == ""


def test_a_hostile_name_stays_a_name() -> None:
    (whole, *_) = _write(_fail("`](https://evil.example) **x**\n", 5, "a`b"))
    assert whole == "`` `](https://evil.example) **x** `` (5): ``a`b``"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("unit (504): `test_a`, and so on.", "unit (504): `test_a`, and so on."),
        ("Every job, for want of a runner. Nothing ran.",) * 2,
        ("unit (504): 11 of 39 tests, in `tests/test_cli.py`, `tests/test_b.py`, "
         "`tests/test_c_and_d.py` and others",
         "unit (504): 11 of 39 tests, in `tests/test_cli.py`, `tests/test_b.py` …"),
        ("x" * 200, "x" * 91 + "…"),
    ],
)  # fmt: skip
def test_without_jobs_the_models_text_is_told_as_far_as_it_fits(text: str, line: str) -> None:
    failed = FailedLine((), text)
    assert failed.write(Detail.ONE_LINE) == line
    assert failed.write(Detail.WHOLE) == text
    assert failed.write(Detail.NOTHING) == ""
