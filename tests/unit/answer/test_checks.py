"""Of a script only that check is told that has surely run over the change, with its status."""

import pytest

from tests.linear import takes_linear_time
from worker.answer.shell_scripts import MAX_READ, list_arguments
from worker.answer.trials import Checkout, find_checks

SRC = Checkout("/tmp/src", ("/tmp/src/app/sum.py",))
OWN = frozenset({"./scripts/migrate.sh", "python tools/check.py --all", "npm ci"})

RUNS: list[tuple[str, int, tuple[str, ...]]] = [
    ("cd /tmp/src && pytest -q", 0, ("pytest -q",)),
    ("cd /tmp/src && pytest -q", 1, ("pytest -q",)),
    ("cd /tmp/src; pytest -q", 1, ("pytest -q",)),
    ("cd /tmp; cd src\npytest -q", 0, ("pytest -q",)),
    ("cd /tmp/src && ruff check . && pytest", 0, ("ruff check .", "pytest")),
    ("cat > /tmp/x <<'E'\nimport x; y\nE\ncd /tmp/src && pytest", 0, ("pytest",)),
    ("make -C /tmp/src test", 0, ("make -C /tmp/src test",)),
    ("PYTHONPATH=/tmp/src python3 -m pytest /tmp/src/t", 2,
     ("PYTHONPATH=/tmp/src python3 -m pytest /tmp/src/t",)),
    ("set -e\ncd /tmp/src\npytest\necho ok", 0, ("pytest",)),
    ("set -euo pipefail; cd /tmp/src; pytest | tail -3", 0, ("pytest",)),
    ("cd /tmp/src && timeout 60 ./scripts/migrate.sh", 0, ("timeout 60 ./scripts/migrate.sh",)),
    ("cd /tmp/src && python tools/check.py --all", 0, ("python tools/check.py --all",)),
    ("cd /tmp/src && python -m py_compile app/sum.py", 0, ("python -m py_compile app/sum.py",)),
    ("cd /tmp/src/new && pytest", 0, ("pytest",)),
    ("cd /tmp/src && go test \\\n  ./...", 0, ("go test    ./...",)),
]  # fmt: skip


@pytest.mark.parametrize(("script", "code", "checks"), RUNS)
def test_a_check_is_told_with_the_status_that_is_its_own(
    script: str, code: int, checks: tuple[str, ...]
) -> None:
    assert find_checks(script, code, SRC, OWN, makes_change=False) == checks


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("pytest", True),
        ("pytest sum.py", True),
        ("pytest src/t", False),
        ("cd src && pytest", False),
        ("cd /tmp/other && pytest", False),
    ],
)
def test_a_file_in_the_first_folder_is_none_of_the_repositories_below_it(
    script: str, told: bool
) -> None:
    place = Checkout("/tmp", ("/tmp/sum.py",))
    assert bool(find_checks(script, 0, place, OWN, makes_change=False)) == told


PORT = Checkout("/tmp/src", ("/tmp/src/lib/port.rb",))
ALONE = Checkout("", ("/tmp/port.sh",))


@pytest.mark.parametrize(
    ("place", "command"),
    [
        (PORT, "ruby -c lib/port.rb"),
        (PORT, "ruby -wc /tmp/src/lib/port.rb"),
        (PORT, "rubocop lib/port.rb"),
        (PORT, "luacheck --no-color lib/port.rb"),
        (PORT, "ruby -Ilib -Itest test/port_test.rb"),
        (PORT, "ruby -I lib -I test test/port_test.rb"),
        (PORT, "bats test/port.bats"),
        (PORT, "bats -j 4 test"),
        (PORT, "busted spec/port_spec.lua"),
        (PORT, "./script/lint lib/port.rb"),
        (PORT, "bash script/lint.sh --strict lib/port.rb"),
        (PORT, "php -l lib/port.rb"),
        (ALONE, "bash -n /tmp/port.sh"),
        (ALONE, "sh port.sh"),
        (ALONE, "./port.sh --fast"),
        (ALONE, "dash -n port.sh"),
    ],
)
def test_a_program_that_is_given_the_change_or_the_tests_is_a_check(
    place: Checkout, command: str
) -> None:
    script = f"cd {place.root or '/tmp'} && {command}"
    assert find_checks(script, 1, place, (), makes_change=False) == (command,)


@pytest.mark.parametrize(
    "command",
    [
        *("cat lib/port.rb", "sed -n 1,9p lib/port.rb", "git diff lib/port.rb", "ls lib test"),
        *("awk '{print $1}' lib/port.rb", "jq . lib/port.rb", "rg foo lib/port.rb", "ls -l test"),
        *("cp lib/port.rb lib/x.rb", "stat lib/port.rb", "sha256sum lib/port.rb", "find test"),
        *("perl -pi -e 's/a/b/' lib/port.rb", "ruby -pi -e s/a/b/ lib/port.rb"),
        *("python3 -c 'print(1)' lib/port.rb", "python3 - lib/port.rb", "rubocop -a lib/port.rb"),
        *(
            "ruby /tmp/mine.rb lib/port.rb",
            "ruby script/mine.rb lib/port.rb",
            "gofmt -w lib/port.rb",
        ),
        *("ruby test/mine.rb", "ruby -c lib/other.rb", "./script/lint lib/other.rb"),
        *("ruby --version lib/port.rb", "pip install -r test/requirements.txt", "ruby $F"),
    ],
)
def test_to_read_or_to_rewrite_a_change_or_a_script_of_the_model_is_no_check(command: str) -> None:
    script, made = f"cd /tmp/src && {command}", {"mine.rb"}
    assert find_checks(script, 0, PORT, (), makes_change=False, made=made) == ()


HIDES = [
    # Another command's status.
    "cd /tmp/src && pytest; sed -n 125p t.json | cut -c1-40",
    "cd /tmp/src && pytest | tail",
    "cd /tmp/src && pytest || true",
    "cd /tmp/src && pytest &",
    "cd /tmp/src\npytest\necho $?",
    "set -e; cd /tmp/src; pytest && ls; echo ok",
    "set -e; set +e; cd /tmp/src; pytest; echo ok",
    "false && set -e; cd /tmp/src; pytest; echo ok",
    # It may not have run.
    "exit 0\ncd /tmp/src && pytest",
    "cd /tmp/src\nif false\nthen\npytest\nfi",
    "cd /tmp/src && f() { pytest; }",
    "pytest() { true; }; cd /tmp/src && pytest",
    "cd /tmp/src && ! pytest",
    "cd /tmp/src; set -n; pytest",
    "cd /tmp/src && cat <<E\npytest",
    "cd /tmp/src; (pytest",
    "cd /tmp/src; $X; pytest",
    # Not over the change.
    "pytest",
    "cd /tmp/other && pytest",
    "cd /tmp/src && pytest /tmp/other",
    "cd $X && pytest",
    "false && cd /tmp/src; pytest",
    "cd /tmp/src/nowhere; pytest",
    "cd /tmp/src | cat; pytest",
    "cd /tmp/src && python -m py_compile app/other.py",
    # No check.
    "cd /tmp/src && python3 - <<'E'\nprint(1)\nE",
    "cd /tmp/src && python3 check.py",
    "cd /tmp/src && pytest --version",
    "cd /tmp/src && make -n test",
    "cd /tmp/src && make clean",
    "cd /tmp/src && npm ci",
    "cd /tmp/src && echo pytest",
    "cd /tmp/src && ./scripts/other.sh",
    "cd /tmp/src && ruff format .",
    "x" * (MAX_READ + 1),
    "'",
    "",
]


@pytest.mark.parametrize("script", HIDES)
def test_of_a_check_that_may_not_have_passed_nothing_is_told(script: str) -> None:
    assert find_checks(script, 0, SRC, OWN, makes_change=False) == ()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("cd /tmp/src && pytest", None),
        ("cd /tmp/src && pytest", 127),
        ("cd /tmp/src/typo && pytest", 1),
        ("cd /tmp/src && ruff check . && pytest", 1),
        ("set -e; cd /tmp/src; grep x y; pytest", 1),
        ("set -o pipefail; cd /tmp/src; cat x | prove", 1),
        ("cd /tmp/src && pytest | tail", 1),
    ],
)
def test_of_a_check_that_may_not_have_failed_nothing_is_told(script: str, code: int | None) -> None:
    assert find_checks(script, code, SRC, OWN, makes_change=False) == ()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("cd /tmp/src && sed -i s/a/b/ app/sum.py && pytest", True),
        ("cd /tmp/src && pytest && sed -i s/a/b/ app/sum.py", False),
        ("cd /tmp/src && pytest", False),
        ("cd /tmp/src && pytest app/sum.py", False),
    ],
)
def test_where_the_script_has_made_the_change_the_check_came_after_it(
    script: str, told: bool
) -> None:
    assert bool(find_checks(script, 0, SRC, OWN, makes_change=True)) == told


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("cargo build --locked", ()),
        ("npm run lint -- src", ("lint", "src")),
        ("npm run format", None),
        ("npx tsc --noEmit", ()),
        ("./gradlew :app:test", (":app:test",)),
        ("mvn -q verify", ("verify",)),
        ("mvn dependency:tree", None),
        ("terraform init", None),
        ("go generate ./...", None),
        ("black --check a.py", ("a.py",)),
        ("black a.py", None),
        ("nice -n 10 env A=1 uv run mypy --config-file=x.ini", ("x.ini",)),
        ("python -m", None),
        ("A=1", None),
    ],
)
def test_a_check_is_told_from_other_commands(command: str, given: tuple[str, ...] | None) -> None:
    assert list_arguments(command.split(), OWN) == given


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["a;", "cd a && ", "pytest;", "pytest ", "sum.py", "<<A\n", "set -e;", "|"]
)
def test_hostile_scripts_take_linear_time(part: str) -> None:
    def read(script: str) -> None:
        for _ in range(5):
            find_checks(script, 1, SRC, OWN, makes_change=True)

    assert takes_linear_time(read, part, MAX_READ // 4)
