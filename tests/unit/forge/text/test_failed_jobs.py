"""What failed is told on one line: every job that blocks, and as much about each as fits."""

import pytest

from worker.forge.text.failed_jobs import Detail, shorten_jobs

T = "`tests/integration/test_of_the_storefront.py::test_{}`".format
CPP = "`linking of build/release/bin/{} with everything it needs`".format
ERRORS = "unit (504): 8 errors at setup in tests/test_index.py and tests/test_scans.py"
JOBS = [
    ("`unit` (50): test \"a b\" in `t.js` (1 of 407).",
     "`unit` (50): test \"a b\" in `t.js` (1 of 407)",
     "`unit` (50): test \"a b\" in `t.js` (1 of 407)"),
    ("`ruff` (500005): F401, UP035 and B006 in `a.py`; `mypy` (500007): two errors there. `format` "
     "(500006) failed too, but is allowed to.",
     "`ruff` (500005): F401, UP035 and B006 in `a.py`; `mypy` (500007): two errors there",
     "`ruff` (500005): F401, UP035 and B006 in `a.py`; `mypy` (500007): two errors there"),
    (f"`build` (503): {CPP('a')}, {CPP('b')}. `smoke` (504): `./x` is not there, because it was "
     "not built.",
     f"`build` (503): {CPP('a')} and 1 more; `smoke` (504): `./x` is not there",
     f"`build` (503): {CPP('a')} and 1 more; `smoke` (504)"),
    (f"`build` (503): {CPP('a and debug')}, {CPP('b')}. `smoke` (504): `./x` is not there.",
     f"`build` (503): {CPP('a and debug')} and 1 more; `smoke` (504): `./x` is not there",
     "`build` (503): 2 failures; `smoke` (504): `./x` is not there"),
    (f"`unit` (507, and its first attempt 506): {T('a')} and {T('b')}",
     f"`unit` (507): {T('a')} and 1 more test", f"`unit` (507): {T('a')} and 1 more test"),
    (f"`test: [3.10]` (501), `test: [3.12]` (502) and `lint` (503): {T('a')}; it never ended.",
     f"`test: [3.10]` (501), `test: [3.12]` (502) and `lint` (503): {T('a')}",
     "`test: [3.10]` (501), `test: [3.12]` (502) and `lint` (503)"),
    ("`ci` (502): `make unit` (264 tests of `t/10.t`, 3 of `t/20.t`) and, alone, `make functional "
     "and slow` (no)",
     "`ci` (502): `make unit` (264 tests of `t/10.t`, 3 of `t/20.t`) …",
     "`ci` (502): `make unit` (264 tests of `t/10.t`, 3 of `t/20.t`) …"),
    (f"`unit` (502): five tests in `t.py`: {T('low')}, {T('help')}",
     f"`unit` (502): five tests in `t.py`: {T('low')} …",
     f"`unit` (502): five tests in `t.py`: {T('low')} …"),
    ("unit (504): 11 of 39 tests, in `tests/test_cli.py`, `tests/test_b.py` and "
     "`tests/test_c_and_d.py`",
     "unit (504): 11 of 39 tests, in `tests/test_cli.py`, `tests/test_b.py` and "
     "`tests/test_c_and_d.py`",
     "unit (504): 11 of 39 tests, in `tests/test_cli.py`, `tests/test_b.py` and "
     "`tests/test_c_and_d.py`"),
    ("lint (503): eslint, 2 errors in src/a.js; unit (504): 1 of 12 tests, `the last seats of a "
     "row are filled` in test/s.js",
     "lint (503): eslint, 2 errors in src/a.js; unit (504): 1 of 12 tests, `the last seats of a "
     "row are filled` in test/s.js",
     "lint (503): eslint, 2 errors in src/a.js; unit (504): 1 of 12 tests …"),
    ("build (501): step `make`; smoke (502): step `run`.",
     "build (501): step `make`; smoke (502): step `run`",
     "build (501): step `make`; smoke (502): step `run`"),
    (f"`test` (508): {T('a')}, {T('b')} and {T('c')} in `internal/s`.",
     f"`test` (508): {T('a')} and 2 more tests", f"`test` (508): {T('a')} and 2 more tests"),
    (f"`test` (508): {T('a_b_c_d_e_f_g_h_i_j_k')}, {T('b')} and {T('c')} in `internal/s`.",
     f"`test` (508): {T('a_b_c_d_e_f_g_h_i_j_k')} and 2 more tests", "`test` (508): 3 tests"),
    ("test (502): TestOnSegment never ended in five minutes, and the job was stopped at its limit, "
     "so no test after it ran",
     "test (502): TestOnSegment never ended in five minutes …",
     "test (502): TestOnSegment never ended in five minutes …"),
    ("unit (504): timed out after 5 minutes in `tests/test_pool.py::test_draining_runs_what_waits_"
     "in_it`, new",
     "unit (504): timed out after 5 minutes in `tests/test_pool.py::test_draining_runs_what_waits_"
     "in_it`",
     "unit (504): timed out after 5 minutes …"),
    (ERRORS + " (`test_count`, new in this change, among them); 5 tests passed",
     ERRORS + " (`test_count`, new in this change, among them) …", ERRORS + " …"),
    ("`test` (506): packages `cmd/manifestd` and `internal/store` do not compile; `build` (505) "
     "has the same error.",
     "`test` (506): packages `cmd/manifestd` and `internal/store` do not compile; `build` (505) "
     "has the same error",
     "`test` (506): packages `cmd/manifestd` and `internal/store` do not compile; `build` (505)"),
    ("`unit` (500004): the test `the last seats of a row are filled`; `lint` (500003): two ESLint "
     "errors in `src/aisle.js`.",
     "`unit` (500004): the test `the last seats of a row are filled`; `lint` (500003): two ESLint "
     "errors in `src/aisle.js`",
     "`unit` (500004): the test `the last seats of a row are filled`; `lint` (500003): two ESLint "
     "…"),
    ("`build` (502): linking `build/wiretest`, `build/wirecat` and `build/wirebench`; `make check` "
     "did not run.",
     "`build` (502): linking `build/wiretest`, `build/wirecat` and `build/wirebench`",
     "`build` (502): linking `build/wiretest`, `build/wirecat` and `build/wirebench`"),
    ('`test` (506): 1 of 16 tests, "gives clients that do not follow a link to click" in '
     "`test/redirect.test.ts`",
     '`test` (506): 1 of 16 tests, "gives clients that do not follow a link to click" in '
     "`test/redirect.test.ts`",
     '`test` (506): 1 of 16 tests, "gives clients that do not follow a link to click" …'),
    ("`a` (501), `b` (502)", "`a` (501), `b` (502)", "`a` (501), `b` (502)"),
    ("Every job, for want of a runner. Nothing ran.", "Every job, for want of a runner",
     "Every job, for want of a runner"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "with_first", "line"), JOBS)
def test_every_job_that_blocks_is_named_with_as_much_about_it_as_fits_on_a_line(
    text: str, with_first: str, line: str
) -> None:
    assert [shorten_jobs(text, Detail.FIRST_TESTS), shorten_jobs(text, Detail.ONE_LINE)] == [
        with_first,
        line,
    ]
    assert len(line.replace("`", "")) <= 92


def test_of_a_matrix_is_said_how_many_of_its_jobs_failed() -> None:
    jobs = "`build` (2 of 2 variants: `build: [host]` 500005, `build: [arm, 1]` 500006)"
    text = f"{jobs}, cloning the submodule `vendor/calibration-data`, before any script ran"
    short = "`build` (2 of 2 variants)"
    assert shorten_jobs(text, Detail.WHOLE) == text
    assert (
        shorten_jobs(text, Detail.ONE_LINE)
        == f"{short}, cloning the submodule `vendor/calibration-data` …"
    )
    assert shorten_jobs(text, Detail.NAMES) == short
    said = "`unit` (7) `load(data: [object Object])`, data: [object Object]"
    assert shorten_jobs(said, Detail.WHOLE) == said
    assert shorten_jobs("`a` (1), `b` (2), `c` (3)", Detail.NAMES) == "`a` (1), `b` (2), `c` (3)"
