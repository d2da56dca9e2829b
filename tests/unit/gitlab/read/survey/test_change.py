"""What the survey tells of the files that a merge request changes."""

import pytest

from tests.simulators.gitlab import DiffFile, GitLabSim, Scene
from tests.unit.conftest import subject_of
from worker.gitlab.read.api import ReadClient
from worker.gitlab.read.session_reader import Reader
from worker.gitlab.read.survey.reader import read_survey


def _list_facts(sim: GitLabSim, scene: Scene, lines: list[str]) -> tuple[str, ...]:
    scene.job.trace = "\n".join([*lines, "ERROR: Job failed: exit code 1", ""]).encode()
    client = ReadClient(sim.url, scene.read_token, timeout=(2.0, 2.0))
    reader = Reader.open(client, subject_of(sim, scene.mr, scene.pipeline), bytes)
    (group,) = read_survey(reader).groups
    return group.facts


def test_files_of_tests_that_passed_are_not_named_by_the_error(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.mr.diffs[:] = [DiffFile("tests/test_cache.py", ""), DiffFile("app/cache.py", "")]
    lines = [
        "tests/test_cache.py::test_second_read ",
        "DEBUG    app.cache:cache.py:7 read",
        "PASSED                                                     [ 50%]",
        "tests/test_sum.py::test_sum FAILED                         [100%]",
        "tests/test_sum.py:12: AssertionError",
        "FAILED tests/test_sum.py::test_sum - assert 3 == 4",
    ]
    told = _list_facts(sim, scene, lines)
    assert not any("names" in each or "edits" in each for each in told)


def test_files_of_tests_that_passed_when_retried_are_not_named_by_the_error(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.mr.diffs[:] = [DiffFile("ingest/consumer.cc", ""), DiffFile("pricing/curve.cc", "")]
    lines = [
        "pricing/curve.cc:3:10: fatal error: base/join.h: No such file or directory",
        "FAIL: //ingest:consumer_test (attempt 1 of 3) (see /root/.cache/test.log)",
        "==================== Test output for //ingest:consumer_test:",
        "ingest/consumer_test.cc:88: Failure",
        "=" * 80,
        "//ingest:consumer_test        FLAKY, failed in 1 out of 2 in 2.1s",
        "//pricing:curve_test          FAILED TO BUILD",
    ]
    told = [each for each in _list_facts(sim, scene, lines) if "names" in each]
    assert told == ["the error names what this change edits: pricing/curve.cc"]


def test_a_file_of_kotlins_warning_is_not_named_by_the_error(sim: GitLabSim, scene: Scene) -> None:
    scene.mr.diffs[:] = [DiffFile("lib/src/jsMain/Platform.kt", ""), DiffFile("lib/A.kt", "")]
    lines = [
        "w: file:///builds/x/lib/src/jsMain/Platform.kt:3:5 Parameter 'a' is never used",
        f"e: file:///builds/{scene.project.path}/lib/A.kt:7:1 'expect' function has no 'actual'",
    ]
    told = [each for each in _list_facts(sim, scene, lines) if "names" in each]
    assert told == ["the error names what this change edits: lib/A.kt"]


def test_a_file_with_a_few_of_many_failed_tests_is_not_what_the_error_names(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.mr.diffs[:] = [DiffFile("tests/test_labels.py", "", new_file=True)]
    failed = [f"tests/test_{name}.py::test_a" for name in ("labels", "orders", "rates")]
    lines = ["$ pytest", *(f"ERROR {each} - CommandError: several heads" for each in failed)]
    told = _list_facts(sim, scene, lines)
    assert not any("new in this change" in each for each in told)
    told = _list_facts(sim, scene, lines[:2])
    assert "the error names a file that is new in this change: tests/test_labels.py" in told


def test_files_that_have_every_failed_test_together_are_named(sim: GitLabSim, scene: Scene) -> None:
    names = ("labels", "orders", "rates")
    scene.mr.diffs[:] = [DiffFile(f"tests/test_{name}.py", "") for name in names]
    lines = [
        "$ pytest",
        *(f"FAILED tests/test_{each}.py::test_a - assert 1 == 2" for each in names),
    ]
    (told,) = [each for each in _list_facts(sim, scene, lines) if "names" in each]
    assert all(name in told for name in names)


def test_where_the_last_command_names_no_place_the_whole_log_counts(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.mr.diffs[:] = [DiffFile("src/pay.c", "")]
    lines = [
        "$ make build || touch failed",
        "src/pay.c:7:3: error: 'fee' undeclared",
        "$ test ! -e failed",
        "ERROR: the build has failed",
    ]
    assert any("src/pay.c" in each for each in _list_facts(sim, scene, lines))


def test_what_an_earlier_command_of_the_script_printed_is_no_error(
    sim: GitLabSim, scene: Scene
) -> None:
    scene.mr.diffs[:] = [DiffFile("proto/a/money.proto", "", new_file=True)]
    lines = [
        '$ grep -rn "^// " proto',
        "proto/a/money.proto:3:// Amounts are not rounded.",
        "$ buf breaking proto",
        'proto/a/order.proto:11:1:Previously present field "6" was deleted.',
    ]
    assert not any("names" in each for each in _list_facts(sim, scene, lines))
    after = [*lines[2:], "Running after_script", lines[0], lines[1]]
    assert not any("names" in each for each in _list_facts(sim, scene, after))
    named = "the error names a file that is new in this change: proto/a/money.proto"
    assert named in _list_facts(sim, scene, [*lines[2:], lines[1]])


@pytest.mark.parametrize("path", ["Cargo.lock", "web/package-lock.json", "go.sum"])
def test_lines_of_a_lock_file_that_an_error_names_are_the_tools_own(
    sim: GitLabSim, scene: Scene, path: str
) -> None:
    scene.mr.diffs[:] = [DiffFile(path, "@@ -900,1 +900,2 @@\n a\n+b\n")]
    told = _list_facts(sim, scene, [f"{path}:23:1: error: this crate has a security advisory"])
    assert not any("names" in each for each in told)


def test_a_dockerfile_changes_dependencies_in_a_line_that_installs(
    sim: GitLabSim, scene: Scene
) -> None:
    used = DiffFile("web/Dockerfile", "@@ -1,1 +1,2 @@\n FROM a\n+HEALTHCHECK CMD b\n")
    built = DiffFile("Dockerfile", "@@ -1,1 +1,3 @@\n FROM a\n+USER b\n+RUN apt-get install c\n")
    scene.mr.diffs[:] = [used, built, DiffFile("poetry.lock", "@@ -1 +1 @@\n-a\n+b\n")]
    told = _list_facts(sim, scene, ["FAILED tests/test_sum.py::test_sum - assert 3 == 4"])
    assert "dependencies changed: Dockerfile:3, poetry.lock" in told


RSPEC = ["  1) Sheet has a line", "     # ./spec/sheet_spec.rb:5:in `block'",
         "rspec ./spec/sheet_spec.rb:4 # Sheet has a line"]  # fmt: skip
NAMED = "the error names what this change edits: spec/sheet_spec.rb"
LINE = "line 5 of spec/sheet_spec.rb, which the error names, is one that this change adds"
ASIDE = (
    "this change edits a file that the error names, but not at the lines that it names: "
    "spec/sheet_spec.rb"
)


@pytest.mark.parametrize(
    ("hunk", "told"),
    [
        ("@@ -6,6 +6,11 @@\n c\n c\n c\n+  it 'marks'\n c\n c\n c\n", ASIDE),
        ("@@ -40,2 +40,3 @@ def sheet_line\n c\n+x\n c\n", ASIDE),
        ("@@ -3,6 +3,7 @@\n c\n c\n c\n+x\n c\n c\n c\n", NAMED),
        ("@@ -5 +5 @@\n-x\n+y\n", LINE),
        ("@@ -40,2 +40,3 @@ def has_a_line\n c\n+x\n c\n", NAMED),
        ("", NAMED),
    ],
    ids=["another example", "another definition", "near", "the line", "its definition", "unknown"],
)
def test_a_file_that_is_changed_far_from_the_lines_that_the_error_names_is_told_so(
    sim: GitLabSim, scene: Scene, hunk: str, told: str
) -> None:
    scene.mr.diffs[:] = [DiffFile("spec/sheet_spec.rb", hunk)]
    facts = _list_facts(sim, scene, [*RSPEC, "NameError: has_a_line"])
    assert [each for each in facts if "spec/sheet_spec.rb" in each] == [told]


OLD, NEW = "a" * 40, "b83e2d6c15fa907e4d1c8b3a6e5f20917c4d8e02"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Failed to clone 'vendor/data' a second time, aborting",
         "the error names a submodule that this change moves to another commit, but not that "
         "commit: vendor/data"),
        (f"fatal: error: Server does not allow request for {NEW} of vendor/data",
         "the error names what this change edits: vendor/data"),
    ],
)  # fmt: skip
def test_a_submodule_is_what_the_error_is_about_only_with_its_new_commit(
    sim: GitLabSim, scene: Scene, line: str, told: str
) -> None:
    hunk = f"@@ -1 +1 @@\n-Subproject commit {OLD}\n+Subproject commit {NEW}\n"
    scene.mr.diffs[:] = [DiffFile("vendor/data", hunk)]
    facts = _list_facts(sim, scene, [line])
    assert [each for each in facts if "vendor/data" in each] == [told]


GO_FAILED = [
    "    x_test.go:9: expected 3",
    "--- FAIL: TestX (0.00s)",
    "FAIL\texample.com/{}/a\t0.1s",
]
LISTS = {
    "what a passed test logged": ("a/other_test.go", [
        "=== RUN   TestOther", "    other_test.go:12: connecting", "--- PASS: TestOther (0.00s)",
        "=== RUN   TestX", *GO_FAILED]),
    "a test file of the same package": ("a/other_test.go", GO_FAILED),
    "a test that began": ("e2e/b.spec.ts", [
        "[1/9] [chromium] › e2e/b.spec.ts:3:1 › works",
        "  1) [chromium] › e2e/a.spec.ts:5:1 › logs in ─────", "    Error: Timed out 5000ms"]),
    "a test that was skipped": ("e2e/b.spec.ts", [
        "  -  1 [chromium] › e2e/b.spec.ts:3:1 › works",
        "  ✘  2 [chromium] › e2e/a.spec.ts:5:1 › logs in (5.0s)", "    Error: Timed out 5000ms"]),
    "a summary of skips": ("tests/test_b.py", [
        "SKIPPED [1] tests/test_b.py:12: needs docker", "XFAIL tests/test_b.py::test_error - known",
        "FAILED tests/test_a.py::test_x - TimeoutError"]),
    "a command's arguments": ("src/a.ts", [
        "src/b.ts:3:1: error: bad", "error Command failed: eslint src/a.ts src/b.ts src/c.ts"]),
}  # fmt: skip


@pytest.mark.parametrize(("path", "lines"), LISTS.values(), ids=LISTS)
def test_a_file_that_a_runner_only_lists_is_not_named_by_the_error(
    sim: GitLabSim, scene: Scene, path: str, lines: list[str]
) -> None:
    scene.mr.diffs[:] = [DiffFile(path, "")]
    facts = _list_facts(sim, scene, [each.format(scene.project.path) for each in lines])
    assert not any("names" in each for each in facts)


PYTEST = [
    f"FAILED tests/test_{name}.py::test_{name} - assert 7 == 3" for name in ("tide", "ebb", "dock")
]
GO = ["    page_test.go:31: no", "--- FAIL: TestPage (0.00s)", "FAIL\texample.com/{}/render\t0.1s"]


@pytest.mark.parametrize(
    ("lines", "paths", "told"),
    [
        (PYTEST, ["app/tide.py", "app/ebb.py", "app/pier.py"],
         ["2 of the 3 failing tests belong to what this change edits: app/tide.py, app/ebb.py"]),
        (PYTEST[:1], ["app/tide.py"],
         ["the failing tests belong to what this change edits: app/tide.py"]),
        (GO, ["render/escape.go", "render/page.go"],
         ["the error names a package that this change edits: render",
          "the error names tests that belong to what this change edits: render/page.go"]),
        (["# example.com/{}/render", "render/page.go:3:1: undefined: x"],
         ["render/escape.go", "render/page.go"],
         ["the error names what this change edits: render/page.go"]),
        (["FAIL\texample.com/{}/render\t0.1s", *PYTEST[1:2]], ["render/escape.go"],
         ["the error names a package that this change edits: render"]),
        (["FAIL\tgitlab.com/{} [build failed]"], ["main.go", "wire.go"],
         ["the error names the package at the repository's root, which this change edits"]),
    ],
    ids=["some tests", "all tests", "package", "file of a package", "package only", "root"],
)  # fmt: skip
def test_only_what_the_error_names_is_told(
    sim: GitLabSim, scene: Scene, lines: list[str], paths: list[str], told: list[str]
) -> None:
    scene.mr.diffs[:] = [DiffFile(path, "") for path in paths]
    facts = _list_facts(sim, scene, [each.format(scene.project.path) for each in lines])
    assert [each for each in facts if "this change edits" in each] == told


def test_a_name_that_the_error_misses_and_the_change_removes_is_told(
    sim: GitLabSim, scene: Scene
) -> None:
    diff = "@@ -1,2 +1,2 @@\n variables:\n-  SHOP_CHANNEL: beta\n+  SHOP_RING: beta\n"
    scene.mr.diffs[:] = [DiffFile(".gitlab-ci.yml", diff)]
    told = _list_facts(sim, scene, ["ci/naming.sh: line 7: SHOP_CHANNEL: unbound variable"])
    assert "SHOP_CHANNEL, which the error names, is gone from .gitlab-ci.yml" in told
