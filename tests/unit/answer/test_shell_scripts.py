"""A script is read as far as its commands can be told apart, however hostile it is."""

import pytest

from worker.answer.shell_scripts import (
    MAX_READ,
    CommandList,
    ends_heredocs,
    list_written_files,
    split_script,
)


def written(made: CommandList) -> str:
    first, *others = map(" | ".join, made.pipes)
    return first + "".join(f" {how} {what}" for how, what in zip(made.joins, others, strict=True))


LISTS = [
    ("cd a && make | tail -5", ["cd a && make | tail -5"]),
    ("a; b # don't; c\nd 'x;y' | e", ["a", "b", "d 'x;y' | e"]),
    ("python3 - <<'E'\nimport x; y\nE\npython3 run.py", ["python3 - <<'E'", "python3 run.py"]),
    ("f 2>&1 | cat; exit ${PIPESTATUS[0]}", ["f 2>&1 | cat", "exit ${PIPESTATUS[0]}"]),
    ("(a; b) | c; x=$(ls; pwd)", ["(a; b) | c", "x=$(ls; pwd)"]),
    ("a 1<<X b\nc", ["a 1<<X b", "c"]),
    ("a \\\n  --b\nc", ["a \\\n  --b", "c"]),
    ("a & b &> f", ["a", "b &> f"]),
    ('echo "it\'s; \\" so"; c', ['echo "it\'s; \\" so"', "c"]),
    ("echo $#; c", ["echo $#", "c"]),
    ("", []),
    ("x" * (MAX_READ + 1), []),
]


@pytest.mark.parametrize(("script", "texts"), LISTS)
def test_a_script_is_split_into_what_it_runs_one_after_the_other(
    script: str, texts: list[str]
) -> None:
    assert [written(each) for each in split_script(script)] == texts


def test_of_a_list_the_parts_of_each_pipe_are_known() -> None:
    (made,) = split_script("cd a && make 2>&1 | tee log | tail || (b | c)")
    assert made.pipes == (("cd a",), ("make 2>&1", "tee log", "tail"), ("(b | c)",))


def test_what_joins_commands_and_what_runs_in_the_background_is_known() -> None:
    first, last = split_script("a && b || c & d && e")
    assert (first.joins, first.in_background) == (("&&", "||"), True)
    assert (last.joins, last.in_background) == (("&&",), False)


@pytest.mark.parametrize(
    ("script", "texts", "ends"),
    [
        ("cat <<'E'\n E\npytest\nE\na", ["cat <<'E'", "a"], True),
        ("cat <<-E\n\tE\na", ["cat <<-E", "a"], True),
        ("cat <<E\n\tE\na", ["cat <<E", "E", "a"], False),
        ("cat <<A <<B\nx\nA\ny\nB\na", ["cat <<A <<B", "a"], True),
    ],
)
def test_a_text_that_is_passed_to_a_command_ends_where_the_shell_ends_it(
    script: str, texts: list[str], ends: bool
) -> None:
    assert [written(each) for each in split_script(script)] == texts
    assert ends_heredocs(script) == ends


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("cat > tools/a.py <<'E'\nx\nE\npytest 2>&1 | tee -a 'b.log'", ["tools/a.py", "b.log"]),
        ("pytest > /tmp/out", ["/tmp/out"]),
        ("grep -c x f", []),
    ],
)
def test_the_files_that_a_script_writes_are_listed(script: str, files: list[str]) -> None:
    assert list_written_files(script) == files


@pytest.mark.parametrize(
    "part", ["(;", "'", "a|", '"\\\\', "`", "<<A\n", "#", '"a', "&&", "\\\n", "A=1 ", "$(", "\n#'"]
)
def test_hostile_scripts_are_read_in_little_time(part: str) -> None:
    script = part * (MAX_READ // len(part))
    for each in split_script(script):
        assert all(command in script for pipe in each.pipes for command in pipe)
    list_written_files(script)
