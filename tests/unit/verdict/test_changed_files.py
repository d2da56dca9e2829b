"""Changed paths held against the words of an error, in the shapes that tools print."""

import pytest

from worker.verdict.changed_files import MAX_TOUCHES, count_tests, find_touches
from worker.verdict.diffs import FileChange

PROJECT = "team/service"

SURE = [
    ("pytest", "app/sum.py", "app/sum.py:12: AssertionError"),
    ("pytest id", "tests/test_sum.py", "FAILED tests/test_sum.py::test_sum - assert 3 == 4"),
    ("container", "app/sum.py", 'File "/builds/team/service/app/sum.py", line 3, in total'),
    ("other case", "app/sum.py", 'File "/builds/Team/Service/app/sum.py", line 3'),
    ("top level file", "setup.py", "/builds/team/service/setup.py:4: error"),
    ("own workdir", "app/sum.py", "/srv/checkout/app/sum.py:3: E501 line too long"),
    ("windows", "src/Sum.cs", r"C:\builds\team\service\src\Sum.cs:line 12"),
    ("python module", "app/sum.py", "ModuleNotFoundError: No module named 'app.sum'"),
    ("python in src", "src/app/sum.py", "app.sum.Total.run raised ValueError"),
    ("python package", "app/sums/__init__.py", "ImportError: cannot import x from app.sums.y"),
    ("unittest", "tests/test_sum.py", "ERROR: test_a (tests.test_sum.TestSum.test_a)"),
    ("java frame", "src/main/java/com/x/Y.java", "\tat com.x.Y.run(Y.java:12)"),
    ("java inner", "src/test/java/com/x/Y.java", "at com.x.Y$Inner.lambda$run$0(Y.java:9)"),
    ("kotlin", "src/main/kotlin/com/x/Y.kt", "e: com.x.Y.Companion failed"),
    ("go package", "pkg/sum/sum.go", "FAIL\tgitlab.example.com/team/service/pkg/sum\t0.01s"),
    ("go vet", "pkg/sum/sum.go", "# gitlab.example.com/team/service/pkg/sum"),
    ("go relative", "pkg/sum/sum.go", "./pkg/sum/sum.go:12:3: undefined: total"),
    ("typescript", "src/sum.ts", "src/sum.ts(12,5): error TS2322: Type"),
    ("webpack", "src/sum.js", "ERROR in webpack:///./src/sum.js 3:4"),
    ("import", "src/utils/sum.ts", "Cannot find module './src/utils/sum'"),
    ("file url", "src/sum.mjs", "at file:///builds/team/service/src/sum.mjs:3:1"),
    ("node frame", "src/sum.test.js", "at Object.<anonymous> (src/sum.test.js:3:5)"),
    ("rust", "src/sum.rs", "  --> src/sum.rs:4:9"),
    ("make", "Makefile", "make: *** [Makefile:12: test] Error 1"),
]
PERHAPS = [
    ("bare name", "app/sum.py", "sum.py:12: AssertionError"),
    ("go test line", "pkg/sum/sum_test.go", "    sum_test.go:12: expected 3, got 4"),
    ("from a subfolder", "backend/tests/test_sum.py", "tests/test_sum.py:3: Failed"),
    ("module in a subfolder", "backend/app/sum.py", "app.sum.total raised"),
    ("import upwards", "src/lib/sum.ts", "Cannot find module '../lib/sum' from 'src/app.test.js'"),
    ("test class", "src/test/java/com/x/SumTest.java", "SumTest > adds() FAILED"),
    ("ambiguous root", "app/sum.py", "/app/sum.py:3: error"),
]
NOT = [
    ("other folder", "app/sum.py", "lib/sum.py:12: AssertionError"),
    ("other folder, absolute", "sum.py", "/builds/team/service/lib/sum.py:12: error"),
    ("other class of that name", "src/main/java/com/other/Y.java", "at com.x.Y.run(Y.java:12)"),
    ("installed package", "app/sum.py", "/usr/lib/python3/site-packages/app/sum.py:1: x"),
    ("system library", "json/decoder.py", "/usr/lib/python3.11/json/decoder.py:3: x"),
    ("node_modules", "lib/sum.js", "at x (/builds/team/service/node_modules/a/lib/sum.js:1:1)"),
    ("go cache", "pkg/sum/sum.go", "/go/pkg/mod/host.example/x@v1/pkg/sum/sum.go:3: x"),
    ("longer name", "app/sum.py", "app/checksum.py:3: error"),
    ("longer name, bare", "app/sum.py", "checksum.py:3: error"),
    ("other package", "pkg/sum/sum.go", "FAIL\tgitlab.example.com/team/service/pkg/sums"),
    ("the checkout itself", "main.go", "Initialized empty Git repository in /builds/team/service/"),
    ("plain words", "app/index.ts", "error: index out of range in main"),
    ("prefix of a module", "app/sum.py", "No module named 'app.summary'"),
    ("another file type", "app/sum.md", "app.sum.total raised"),
    ("nothing", "app/sum.py", ""),
]


def _found(path: str, text: str) -> list[bool]:
    return [touch.is_certain for touch in find_touches(text, [FileChange(path)], PROJECT)]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        *(pytest.param(path, text, [True], id=f"sure: {name}") for name, path, text in SURE),
        *(pytest.param(path, text, [False], id=f"maybe: {name}") for name, path, text in PERHAPS),
        *(pytest.param(path, text, [], id=f"not: {name}") for name, path, text in NOT),
    ],
)
def test_an_error_names_a_changed_file(path: str, text: str, expected: list[bool]) -> None:
    assert _found(path, text) == expected


def test_a_renamed_file_is_named_by_its_former_path_too() -> None:
    (touch,) = find_touches(
        "ModuleNotFoundError: No module named 'app.sum'",
        [FileChange("app/totals.py", "app/sum.py")],
        PROJECT,
    )
    assert (touch.path, touch.words, touch.is_certain) == ("app/totals.py", "app.sum", True)


def test_a_test_that_the_diff_defines_is_perhaps_touched() -> None:
    diff = (
        "@@ -1,2 +1,3 @@ class TestSum:\n+def test_adds_numbers():\n     assert x\n def old_one():"
    )
    assert FileChange.read("a", diff).defines == {"TestSum", "test_adds_numbers"}
    changed = FileChange("checks/sums.txt", defines=FileChange.read("a", diff).defines)
    assert [t.words for t in find_touches("FAILED test_adds_numbers", [changed], PROJECT)] == [
        "test_adds_numbers"
    ]
    assert find_touches("FAILED old_one", [changed], PROJECT) == ()


def test_the_certain_ones_come_first_and_the_list_is_short() -> None:
    changed = [FileChange(f"d{number}/sum.py") for number in range(30)] + [FileChange("app/sum.py")]
    found = find_touches("app/sum.py:3: error\nsum.py:4: error", changed, PROJECT)
    assert len(found) == MAX_TOUCHES
    assert (found[0].path, found[0].is_certain) == ("app/sum.py", True)


def test_hostile_words_and_thousands_of_files_are_held_against_each_other() -> None:
    text = "a/" * 900 + " " + "x.y::" * 300 + " d42/f42.py " + "b." * 3000
    changed = [FileChange(f"d{number}/f{number}.py") for number in range(5000)]
    assert [touch.path for touch in find_touches(text, changed, PROJECT)] == ["d42/f42.py"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/sum.ts", "FAIL src/sum.test.ts"),
        ("app/totals.py", "FAILED tests/test_totals.py::test_a - assert 3"),
        ("src/main/java/com/x/Totals.java", "TotalsTest > adds() FAILED"),
        ("pkg/totals.go", "    totals_test.go:12: expected 3"),
        ("lib/totals.rb", "rspec ./spec/totals_spec.rb:12"),
        ("app/totals.py", "ERROR: test_a (tests.test_totals.Totals.test_a)"),
        ("src/totals.tsx", "FAIL src/totals.test.ts"),
    ],
)
def test_a_failing_test_leads_to_the_changed_file_that_it_is_of(path: str, text: str) -> None:
    (touch,) = find_touches(text, [FileChange(path)], PROJECT)
    assert (touch.path, touch.names_tests, touch.is_certain) == (path, True, False)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("app/sums.py", "FAILED tests/test_totals.py::test_a"),
        ("app/settings.py", "FAILED test_settings"),
        ("app/settings.py", "FAIL: test_settings (tests.test_pool.Pool.test_settings)"),
        ("docs/totals.md", "FAILED tests/test_totals.py::test_a"),
        ("web/totals.js", "FAILED tests/test_totals.py::test_a"),
        ("app/totals.py", "FAILED test_totals.py.d/test_b.py::test_a"),
    ],
)
def test_a_test_of_something_else_leads_nowhere(path: str, text: str) -> None:
    assert find_touches(text, [FileChange(path)], PROJECT) == ()


HUNK = "@@ -1,3 +1,4 @@\n first\n-second\n+other\n+more\n third\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("app/sum.py:3: AssertionError", 3),
        ('File "/builds/team/service/app/sum.py", line 2, in total', 2),
        ("app/sum.py:4: AssertionError", 0),
        ("lib/sum.py:3: AssertionError and app/sum.py", 0),
        ("app/sum.py:2: AssertionError\napp/sum.py:9: AssertionError", 0),
        ("app/sum.py:2: in total\n/usr/lib/python3.11/json/decoder.py:355: JSONDecodeError", 2),
        ("app/sum.py:2: in total\n.venv/lib/site-packages/x/y.py:7: KeyError", 2),
        ("app/sum.py:2: in total\nlib/pool.py:7: KeyError", 0),
    ],
)
def test_a_named_line_is_known_as_one_that_the_change_adds(text: str, line: int) -> None:
    changed = FileChange("app/sum.py", added_lines=FileChange.read("a", HUNK).added_lines)
    (touch,) = find_touches(text, [changed], PROJECT)
    assert touch.line == line


def test_added_lines_are_numbered_as_in_the_new_file() -> None:
    assert FileChange.read("a", HUNK + "@@ -9 +20,2 @@\n+a\n b\n").added_lines == {2, 3, 20}


@pytest.mark.parametrize(
    "line",
    [
        "1717: 0.04s call     app/sum.py::test_total",
        "app/sum.py          25      0      6      0   100%",
        " sum.py   |   85.71 |       50 |   33.33 |   85.71 | 12",
        "/builds/team/service/app/sum.py:49: DeprecationWarning: 'fare' is ignored",
        "app/sum.py::test_total PASSED [ 12%]",
    ],
)
def test_what_stands_beside_an_error_names_nothing(line: str) -> None:
    assert (
        find_touches(f"FAILED tests/test_a.py::test_b\n{line}", [FileChange("app/sum.py")], PROJECT)
        == ()
    )


def test_a_file_that_is_new_is_told_from_one_that_is_edited() -> None:
    changed = [FileChange("app/sum.py", is_new=True), FileChange("app/total.py")]
    found = find_touches("app/sum.py:3: boom\napp/total.py:4: boom", changed, PROJECT)
    assert {touch.path: touch.is_new for touch in found} == {
        "app/sum.py": True,
        "app/total.py": False,
    }


@pytest.mark.parametrize(
    ("path", "text", "package"),
    [
        ("pkg/sum/sum.go", "FAIL\tgitlab.example.com/team/service/pkg/sum\t0.01s", True),
        ("pkg/sum/sum.go", "# gitlab.example.com/team/service/pkg/sum", True),
        ("pkg/sum/sum.go", "# host/team/service/pkg/sum\npkg/sum/sum.go:3:1: undefined: x", False),
        ("pkg/sum/sum.go", "/builds/team/service/pkg/sum/sum.go:12 +0x1f", False),
        ("app/sums/__init__.py", "ImportError: cannot import x from app.sums.y", True),
        ("app/sums/__init__.py", "app/sums/__init__.py:3: NameError", False),
        ("app/sum.py", "ModuleNotFoundError: No module named 'app.sum'", False),
    ],
)
def test_a_packages_name_is_told_from_a_files(path: str, text: str, package: bool) -> None:
    (touch,) = find_touches(text, [FileChange(path)], PROJECT)
    assert (touch.is_certain, touch.names_package) == (True, package)


def test_a_files_tests_say_more_than_its_package() -> None:
    text = "sum_test.go:31: no\nFAIL\tgitlab.example.com/team/service/pkg/sum\t0.01s"
    changed = [FileChange("pkg/sum/sum.go"), FileChange("pkg/sum/total.go")]
    found = {touch.path: touch for touch in find_touches(text, changed, PROJECT)}
    assert found["pkg/sum/sum.go"].names_tests
    assert found["pkg/sum/total.go"].names_package


def test_only_tests_of_the_files_are_counted() -> None:
    failed = ["tests/test_sum.py::test_a", "tests/test_sum.py::test_b", "tests/test_x.py::test_sum"]
    assert count_tests(failed, ["app/sum.py", "app/y.py"], PROJECT) == 2
    assert count_tests(failed, [], PROJECT) == 0
