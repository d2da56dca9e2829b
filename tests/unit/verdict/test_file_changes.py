"""Lines that a change adds, held against the places that tools print: in messages and in stacks."""

import pytest

from worker.logs.error_lines import select_error_lines
from worker.verdict.changed_files import find_touches
from worker.verdict.diffs import FileChange, find_removed_names

PROJECT = "team/service"
HOME = f"/builds/{PROJECT}"
LINE = 41

RACE = f"""\
WARNING: DATA RACE
Write at 0x00c00012e0a8 by goroutine 9:
  example.com/{PROJECT}/cart.(*Cart).Add()
      {HOME}/cart/cart.go:41 +0x9d
  example.com/{PROJECT}/cart.TestParallel.func1()
      {HOME}/cart/cart_test.go:20 +0x44

Previous read at 0x00c00012e0a8 by goroutine 8:
  example.com/{PROJECT}/cart.(*Cart).Len()
      {HOME}/cart/len.go:7 +0x9d

Goroutine 9 (running) created at:
  example.com/{PROJECT}/cart.TestParallel()
      {HOME}/cart/spawn_test.go:18 +0x84
  testing.tRunner()
      /usr/local/go/src/testing/testing.go:1689 +0x21e
==================
--- FAIL: TestParallel (0.00s)
    testing.go:1398: race detected during execution of test"""
SANITIZER = f"""\
  Write of size 4 at 0x7b04 by thread T1:
    #0 bump {HOME}/src/x.cc:41:3 (t+0x1)
    #1 main::$_0 {HOME}/src/main.cc:9:5 (t+0x2)

  Previous write of size 4 at 0x7b04 by main thread:
    #0 main {HOME}/src/main.cc:12:5 (t+0x3)

SUMMARY: ThreadSanitizer: data race {HOME}/src/x.cc:41:3 in bump"""
PANIC = f"""\
panic: runtime error: index out of range [3] with length 3 [recovered]
goroutine 18 [running]:
testing.tRunner.func1.2({{0x1, 0x2}})
\t/usr/local/go/src/testing/testing.go:1545 +0x238
panic({{0x50e2a0?, 0xc0000b2018?}})
\t/usr/local/go/src/runtime/panic.go:914 +0x21f
example.com/{PROJECT}/x.Pick(...)
\t{HOME}/x/x.go:41 +0x9d
example.com/{PROJECT}/x.TestX(0xc000007860)
\t{HOME}/x/x_test.go:9 +0x1d"""
PYTHON = f"""\
Traceback (most recent call last):
  File "{HOME}/app/run.py", line 4, in <module>
    main()
  File "{HOME}/app/x.py", line 41, in main
    return json.loads(text)
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"""
PYTEST = """\
tests/test_sum.py:5:
_ _ _ _ _ _ _ _ _ _
    def total(xs):
>       return 1 / 0
E       ZeroDivisionError: division by zero
app/x.py:41: ZeroDivisionError"""
JAVA = """\
java.lang.IndexOutOfBoundsException: Index 3 out of bounds for length 3
\tat java.base/java.util.ArrayList.get(ArrayList.java:427)
\tat com.acme.cart.Cart$Inner.lambda$get$0(Cart.java:41)
\tat com.acme.cart.CartTest.gets(CartTest.java:12)"""
SCRIPT = """\
    TypeError: Cannot read properties of undefined (reading 'a')
      at f (src/x.ts:41:7)
      at Object.<anonymous> (test/x.test.ts:5:10)"""
RUBY = f"""\
{HOME}/lib/x.rb:41:in `call': undefined method `foo' for nil:NilClass (NoMethodError)
\tfrom {HOME}/lib/y.rb:3:in `run'
\tfrom bin/run:5:in `<main>'"""
RSPEC = """\
     RuntimeError:
     # ./lib/x.rb:41:in `add'
     # ./spec/x_spec.rb:5:in `block (2 levels) in <top (required)>'
rspec ./spec/x_spec.rb:4 # X adds"""
NINJA = """\
FAILED: obj/x.o
clang++ -c ../src/x.cc -o obj/x.o
In file included from ../src/main.cc:1:
../src/x.cc:41:3: error: use of undeclared identifier 'foo'
ninja: build stopped: subcommand failed."""
CMAKE = """\
CMake Error at lib/CMakeLists.txt:41 (target_link_libraries):
  Target "a" links to: B::b but the target was not found.
Call Stack (most recent call first):
  CMakeLists.txt:5 (add_subdirectory)"""
LINT = f"""\
{HOME}/src/x.ts
   3:1  warning  Missing JSDoc  require-jsdoc
  41:5  error    'a' is never used  no-unused-vars"""
ADDED = [
    ("a race, where it writes", "cart/cart.go", RACE),
    ("a race, of a sanitizer", "src/x.cc", SANITIZER),
    ("a stack of Go", "x/x.go", PANIC),
    ("a stack of Python, above a library", "app/x.py", PYTHON),
    ("pytest's way to the error", "app/x.py", PYTEST),
    ("a stack of Java, below a library", "src/main/java/com/acme/cart/Cart.java", JAVA),
    ("a stack of JavaScript", "src/x.ts", SCRIPT),
    ("a stack of Ruby", "lib/x.rb", RUBY),
    ("rspec's stack, beside what to run again", "lib/x.rb", RSPEC),
    (".NET", "src/Sum.cs",
     f"InvalidOperationException : no\n at A.B() in {HOME}/src/Sum.cs:line 41"),
    ("PHP", "src/A.php", f"TypeError: A::b()\n\n{HOME}/src/A.php:41\n{HOME}/tests/ATest.php:9"),
    ("PHP, fatal", "src/A.php", f"PHP Fatal error:  Uncaught Error in {HOME}/src/A.php on line 41"),
    ("Elixir", "lib/x.ex",
     "** (ArithmeticError) bad\n (x 0.1.0) lib/x.ex:41: X.add/1\n test/x_test.exs:6: (test)"),
    ("Perl", "lib/A.pm",
     "Can't locate object method \"new\" via package \"B\" at lib/A.pm line 41."),
    ("Rust", "src/lib.rs", "thread 'a' panicked at src/lib.rs:41:9:"),
    ("ShellCheck", "bin/deploy.sh",
     "In bin/deploy.sh line 41:\n  rm -rf $dir\n  ^--^ SC2086 (info): Quote."),
    ("ShellCheck, without a suffix", "bin/deploy", "In bin/deploy line 41:\n  rm -rf $dir"),
    ("a shell", "bin/run", "bin/run: line 41: TOKEN: unbound variable"),
    ("CMake", "lib/CMakeLists.txt", CMAKE),
    ("a compiler behind Ninja", "src/x.cc", NINJA),
    ("Animal Sniffer", "src/main/java/X.java",
     f"[ERROR] {HOME}/src/main/java/X.java:41: Undefined reference: java.util.List.of()"),
    ("javac behind Maven", "src/main/java/X.java",
     f"[ERROR] {HOME}/src/main/java/X.java:[41,5] cannot find symbol"),
    ("RuboCop", "lib/x.rb",
     "lib/x.rb:41:5: C: [Correctable] Style/StringLiterals: Prefer single quotes"),
    ("a path above its errors", "src/x.ts", LINT),
    ("a Dockerfile", "web/Dockerfile",
     "web/Dockerfile:41\n-----\n 41 | >>> RUN make\nERROR: failed to solve"),
    ("OCaml", "bin/main.ml",
     'File "bin/main.ml", line 41, characters 2-5:\nError: Unbound value foo'),
    ("a parser, place last", "src/x.ts", f"SyntaxError: {HOME}/src/x.ts: Unexpected token (41:7)"),
    ("MSVC", "src/a.cpp", r"C:\builds\team\service\src\a.cpp(41,5): error C2065: undeclared"),
]  # fmt: skip
BESIDE = [
    ("where a goroutine was made", "cart/spawn_test.go", 18, RACE),
    ("an outer frame", "app/run.py", 4, PYTHON),
    ("an outer frame of Java", "src/test/java/com/acme/cart/CartTest.java", 12, JAVA),
    ("an outer frame of JavaScript", "test/x.test.ts", 5, SCRIPT),
    ("a library of the same path", "json/__init__.py", 346, PYTHON),
    ("a module of another host", "x/x.go", 41,
     "panic: x\n\t/go/pkg/mod/foo.com/y@v1/x/x.go:41 +0x1"),
    ("a gem", "lib/x.rb", 41, "/usr/bundle/gems/foo-1.0/lib/x.rb:41:in `f': no (NoMethodError)"),
    ("a gem within the project", "lib/x.rb", 41,
     f"{HOME}/vendor/bundle/ruby/3.2.0/gems/foo-1.0/lib/x.rb:41:in `f': no (NoMethodError)"),
    ("another class of that name", "src/main/java/org/other/Cart.java", 41, JAVA),
    ("what to run again", "spec/x_spec.rb", 4, RSPEC),
    ("a note below the error", "app/y.py", 3,
     "app/x.py:7: error: bad\napp/y.py:3: note: defined here"),
    ("another folder", "lib/x.rb", 3,
     "lib/a/x.rb:3:5: C: Style/StringLiterals: Prefer single quotes"),
    ("another line", "bin/deploy", 12, "In bin/deploy line 41:\n  rm -rf $dir"),
    ("an address", "src/x.ts", 5432, "Error: connect ECONNREFUSED db.x.ts:5432"),
]  # fmt: skip


def _find_lines(text: str, *changed: FileChange) -> set[tuple[str, int]]:
    found = find_touches(select_error_lines(text), changed, PROJECT)
    return {(touch.path, touch.line) for touch in found if touch.line and touch.is_certain}


@pytest.mark.parametrize(
    ("path", "text"), [pytest.param(*row, id=name) for name, *row in ADDED]
)  # fmt: skip
def test_a_line_that_an_error_is_about_is_known_as_added(path: str, text: str) -> None:
    added = FileChange(path, added_lines=frozenset({LINE}))
    assert _find_lines(text, added) == {(path, LINE)}
    numbered = "\n".join(f"{at}: {line}" for at, line in enumerate(text.split("\n"), 90))
    assert _find_lines(numbered, added) == {(path, LINE)}
    assert not _find_lines(text, FileChange(path, added_lines=frozenset({LINE - 1})))


@pytest.mark.parametrize(
    ("path", "line", "text"), [pytest.param(*row, id=name) for name, *row in BESIDE]
)
def test_a_line_beside_the_error_is_not_what_it_is_about(path: str, line: int, text: str) -> None:
    assert not _find_lines(text, FileChange(path, added_lines=frozenset({line})))


def test_each_access_of_a_race_counts() -> None:
    added = FileChange("cart/len.go", added_lines=frozenset({7}))
    assert _find_lines(RACE, added) == {("cart/len.go", 7)}


def test_a_message_about_another_line_of_the_project_leaves_a_stack_unsaid() -> None:
    added = FileChange("src/x.ts", added_lines=frozenset({LINE}))
    assert not _find_lines(f"{SCRIPT}\ntest/y.test.ts:9: error: expected 3, got 4", added)
    assert _find_lines(f"{SCRIPT}\nnode_modules/a/y.ts:9: error: expected 3", added)


def test_a_place_that_two_changed_files_may_have_is_in_neither() -> None:
    added = frozenset({12})
    text = "--- FAIL: TestX\n    x_test.go:12: expected 3\nFAIL\thost/team/service/a\t0.1s"
    one, other = (FileChange(f"{each}/x_test.go", added_lines=added) for each in "ab")
    assert _find_lines(text, one) == {("a/x_test.go", 12)}
    assert not _find_lines(text, one, other)


def test_names_that_a_change_removes_are_those_it_has_nowhere_else() -> None:
    diffs = {
        ".gitlab-ci.yml": "@@ -1,3 +1,2 @@\n variables:\n-  SHOP_CHANNEL: beta\n"
        "-  SHOP_REGION: eu\n+  SHOP_RING: beta\n",
        "ci/region.sh": "@@ -4,1 +4,2 @@\n echo $SHOP_REGION\n+echo\n",
    }
    for error, removed in {
        "ci/naming.sh: line 7: SHOP_CHANNEL: unbound variable": {"SHOP_CHANNEL": ".gitlab-ci.yml"},
        "ci/naming.sh: line 7: SHOP_REGION: unbound variable": {},
        "ci/naming.sh: line 7: SHOP_RING: unbound variable": {},
        "ci/naming.sh: line 7: channel: unbound variable": {},
    }.items():
        assert find_removed_names(diffs, error) == removed
