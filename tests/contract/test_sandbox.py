"""Commands: what every sandbox does, whatever it is made of. Files are in test_sandbox_files.py."""

import re
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.background import PoolableDriver
from sandbox.base import DATA, OUT, Driver, ExecResult, Sandbox, SandboxGone, SandboxLimit
from sandbox.framed import FramedSandbox
from sandbox.spec import ContainerSpec
from tests.sandboxes import Kind

PREVIEW = 4096


@pytest.fixture(scope="session")
def driver(any_driver: PoolableDriver) -> PoolableDriver:
    """Each kind in turn."""
    return any_driver


@pytest.fixture
def sandbox(any_sandbox: FramedSandbox) -> FramedSandbox:
    """Of each kind in turn."""
    return any_sandbox


@pytest.fixture(scope="module")
def shared(any_driver: PoolableDriver) -> Iterator[FramedSandbox]:
    """Of each kind in turn, one for all commands that leave nothing another one would see."""
    with any_driver.start("shared") as running:
        yield running


def run(sandbox: Sandbox, command: str, timeout: float = 20, number: int = 1) -> ExecResult:
    """One command, in /tmp."""
    return sandbox.exec(command, timeout=timeout, number=number)


def processes(sandbox: Sandbox) -> str:
    """The command lines of what stays under the commands' uid, ours and the asking ones aside.

    A killed process is listed until it is reaped, which may take a busy machine some seconds. The
    looks are those of one command: the end of each would kill what it should see.
    """
    look = "pgrep -u $(id -u) -a | grep -v -e grep -e /opt/sandpiper"
    command = f"for _ in {{1..100}}; do {look} >/dev/null || break; sleep 0.1; done; {look}"
    return run(sandbox, command).stdout.preview


@pytest.mark.parametrize(
    ("command", "exit_code", "stdout", "stderr"),
    [
        ("echo out; echo err >&2", 0, "out\n", "err\n"),
        ("true", 0, "", ""),
        ("exit 3", 3, "", ""),
        ("printf no-newline", 0, "no-newline", ""),
        ("printf 'grün ✓ 漢字 🐦'", 0, "grün ✓ 漢字 🐦", ""),
        (r"printf 'a\xffb\xc3'", 0, "a\ufffdb\ufffd", ""),
        ('echo "it\'s" \'"quoted"\' $((6*7)) `echo sub`', 0, 'it\'s "quoted" 42 sub\n', ""),
        ("cat <<'E'\n$HOME\n\tE\nE", 0, "$HOME\n\tE\n", ""),
        ("kill -9 $$", 137, "", ""),
        ("kill -TERM $$", 143, "", ""),
        ("exit 137", 137, "", ""),
        ("cat", 0, "", ""),
        ("for i in 1 2 3; do echo $i; echo $i >&2; done", 0, "1\n2\n3\n", "1\n2\n3\n"),
        ("[[ abc =~ b ]] && a=(1 2) && echo ${a[1]}", 0, "2\n", ""),
        ("echo early; exec >&- 2>&-; sleep 0.1", 0, "early\n", ""),
    ],
)
def test_a_command_gives_its_streams_and_its_exit_code(
    shared: Sandbox, command: str, exit_code: int, stdout: str, stderr: str
) -> None:
    result = run(shared, command)
    assert (result.exit_code, result.timed_out) == (exit_code, False)
    assert (result.stdout.preview, result.stderr.preview) == (stdout, stderr)
    assert (result.stdout.path, result.stderr.path) == (None, None)


def test_an_unknown_command_is_a_value(shared: Sandbox) -> None:
    result = run(shared, "no-such-tool --flag")
    assert result.exit_code == 127
    assert "no-such-tool: command not found" in result.stderr.preview


@pytest.mark.parametrize("command", ["echo 'open", "a\0b", "\ud800", ""])
def test_a_broken_command_is_a_value(shared: Sandbox, command: str) -> None:
    assert isinstance(run(shared, command).exit_code, int)


def test_the_working_directory_is_the_one_asked_for(shared: Sandbox) -> None:
    assert shared.exec("pwd", timeout=9, number=1, cwd="/usr/bin").stdout.preview == "/usr/bin\n"
    assert run(shared, "pwd").stdout.preview == "/tmp\n"


def test_a_missing_working_directory_is_a_value(shared: Sandbox) -> None:
    result = shared.exec("pwd", timeout=9, number=1, cwd="/tmp/none")
    assert result.exit_code == 126
    assert result.stderr.preview == "/tmp/none: No such file or directory\n"


def test_the_environment_is_clean(shared: Sandbox) -> None:
    names = set(run(shared, "compgen -e").stdout.preview.split())
    assert names <= {"HOME", "LANG", "PATH", "PWD", "OLDPWD", "SHLVL", "_", "USER", "LOGNAME"}
    assert run(shared, "echo $HOME $LANG").stdout.preview == "/tmp C.UTF-8\n"


def test_a_command_may_be_longer_than_an_argument(shared: Sandbox) -> None:
    result = run(shared, f"echo {'x' * 300_000} | wc -c")
    assert result.stdout.preview == "300001\n"


def test_a_command_of_megabytes_is_refused(shared: Sandbox) -> None:
    with pytest.raises(SandboxLimit, match="longer than 1,048,576 bytes"):
        run(shared, "#" * (1 << 20) + "#")


def test_state_on_disk_is_kept_between_commands(shared: Sandbox) -> None:
    run(shared, "mkdir d && cd d && echo kept > file")
    assert run(shared, "cat d/file").stdout.preview == "kept\n"


def test_large_output_is_spilled_and_shown_in_part(shared: Sandbox) -> None:
    out = run(shared, "seq 1 100000", number=7).stdout
    assert (out.size, out.lines, out.file_size, out.path) == (
        588_895,
        100_000,
        588_895,
        f"{OUT}/7.txt",
    )
    assert len(out.preview.encode()) <= PREVIEW
    assert out.preview.startswith("1\n2\n3\n")
    assert out.preview.endswith("99999\n100000\n")
    mark = re.search(
        rf"\n\[… ([\d,]+) of 588,895 bytes, ([\d,]+) lines not shown: see {OUT}/7.txt …\]\n",
        out.preview,
    )
    assert mark is not None
    shown = out.preview.replace(mark[0], "\n")
    assert int(mark[1].replace(",", "")) == out.size - len(shown)
    assert int(mark[2].replace(",", "")) == out.lines - shown.count("\n")


def test_a_spilled_output_is_whole_for_a_later_command(shared: Sandbox) -> None:
    run(shared, "seq 1 100000 >&2", number=3)
    result = run(shared, f"seq 1 100000 | cmp - {OUT}/3.err.txt && echo same", number=4)
    assert result.stdout.preview == "same\n"


@pytest.mark.parametrize(("size", "spilled"), [(5120, False), (5121, True)])
def test_output_is_spilled_above_5120_bytes(sandbox: Sandbox, size: int, spilled: bool) -> None:
    out = run(sandbox, f"head -c {size} /dev/zero | tr '\\0' x").stdout
    assert (out.path is not None, out.size) == (spilled, size)
    assert ("not shown" in out.preview) == spilled
    listed = run(sandbox, f"ls {OUT}", number=2).stdout.preview
    assert listed == ("1.txt\n" if spilled else "")


def test_less_is_shown_and_more_is_spilled_where_the_spec_says_so(
    kind: Kind, container_spec: ContainerSpec
) -> None:
    with kind(replace(container_spec, preview=1024)).start("less") as sandbox:
        out = run(sandbox, "seq 1 1000").stdout
        assert 900 < len(out.preview.encode()) <= 1024
        assert (out.path, out.file_size) == (f"{OUT}/1.txt", 3893)
        assert run(sandbox, "head -c 1280 /dev/zero | tr '\\0' x", number=2).stdout.path is None


def test_a_used_number_is_used_again(sandbox: Sandbox) -> None:
    run(sandbox, "seq 1 100000")
    run(sandbox, "echo little")
    assert run(sandbox, f"ls {OUT}").stdout.preview == ""


def test_binary_output_is_named_and_kept(shared: Sandbox) -> None:
    out = run(shared, "head -c 1000 /dev/zero").stdout
    assert (out.preview, out.binary, out.file_size) == ("binary data, 1,000 bytes", True, 1000)
    assert shared.get(out.path or "", limit=2000) == bytes(1000)


def test_a_gigabyte_of_output_ends_and_costs_the_host_little(sandbox: Sandbox) -> None:
    tracemalloc.start()
    try:
        out = run(sandbox, "yes | head -c 1G", timeout=60).stdout
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (out.size, out.lines, out.file_size) == (1 << 30, 1 << 29, 64 << 20)
    assert peak < 1 << 20


def test_output_without_end_is_ended_by_the_deadline(sandbox: Sandbox) -> None:
    result = run(sandbox, "yes | head -c 10G; yes", timeout=0.7)
    assert result.timed_out
    assert result.stdout.size >= result.stdout.file_size > 0
    assert result.stdout.file_size <= 64 << 20
    assert result.stdout.preview.startswith("y\ny\n")
    assert result.seconds < 5


def test_two_streams_of_megabytes_do_not_block_each_other(shared: Sandbox) -> None:
    write = "for i in range(300): os.write(1, b'o' * 9999 + b'\\n'); os.write(2, b'e' * 9999)"
    result = run(shared, f'python3 -c "import os\n{write}"')
    assert (result.exit_code, result.stdout.size, result.stderr.size) == (0, 3_000_000, 2_999_700)
    assert (result.stdout.lines, result.stderr.lines) == (300, 0)


def test_a_full_disk_is_the_command_s_trouble(sandbox: Sandbox) -> None:
    result = run(sandbox, "head -c 2G /dev/zero > big; yes | head -c 1M", timeout=60)
    assert "No space left on device" in result.stderr.preview
    assert result.exit_code == 0
    assert (result.stdout.size, result.stdout.file_size) == (1 << 20, 0)
    assert run(sandbox, "rm big; echo fine").stdout.preview == "fine\n"


def test_a_command_that_needs_too_much_memory_is_killed(sandbox: Sandbox) -> None:
    result = run(sandbox, "python3 -c 'x = b\"x\" * (1 << 30)'", timeout=60)
    assert result.exit_code in (137, 1)
    assert result.exit_code == 137 or "MemoryError" in result.stderr.preview
    assert run(sandbox, "echo alive").stdout.preview == "alive\n"


def test_the_deadline_kills_the_whole_group(sandbox: Sandbox) -> None:
    began = time.monotonic()
    result = run(sandbox, "sleep 61 & echo begun; (sleep 62; true)", timeout=0.5)
    assert (result.exit_code, result.timed_out) == (None, True)
    assert result.stdout.preview == "begun\n"
    assert 0.5 <= result.seconds <= time.monotonic() - began < 5
    assert processes(sandbox) == ""


@pytest.mark.parametrize(
    "command",
    [
        "sleep 60 & echo begun",
        "setsid sleep 60 & echo begun",
        "(setsid setsid sleep 60 >/dev/null 2>&1 &); echo begun",
        "nohup sh -c 'trap \"\" TERM HUP; sleep 60' & echo begun",
        "yes > /dev/null & disown; echo begun",
    ],
)
def test_what_stays_in_the_background_is_killed_and_not_waited_for(
    shared: Sandbox, command: str
) -> None:
    result = run(shared, command)
    assert (result.exit_code, result.stdout.preview) == (0, "begun\n")
    assert result.seconds < 5
    assert processes(shared) == ""


def test_a_process_substitution_may_finish(shared: Sandbox) -> None:
    assert run(shared, "echo text | tee >(tr a-z A-Z) >/dev/null").stdout.preview == "TEXT\n"


def test_a_fork_bomb_is_ended(sandbox: Sandbox) -> None:
    run(sandbox, 'f() { setsid bash -c "$(declare -f f); f & f" & f & }; f; sleep 9', timeout=1)
    assert run(sandbox, "echo alive").stdout.preview == "alive\n"
    assert processes(sandbox) == ""


@pytest.mark.parametrize("command", ["kill -9 $PPID; sleep 0.5; exit 9", "kill -9 -1; exit 9"])
def test_a_command_that_kills_everything_loses_its_output_at_most(
    sandbox: Sandbox, command: str
) -> None:
    """Where its runner has a uid of its own, that survives, and knows how the command ended."""
    result = run(sandbox, command)
    if result.exit_code != 9:
        assert (result.exit_code, result.out_of_memory) == (137, False)
        assert "the output is lost" in result.stderr.preview
    assert processes(sandbox) == ""


def test_pkill_python_spares_what_keeps_the_output(sandbox: Sandbox) -> None:
    result = run(sandbox, "pkill python3; pkill -TERM -f runner[.]py; echo still here")
    assert result.stdout.preview == "still here\n"


def test_a_command_that_stops_its_keeper_runs_into_the_deadline(sandbox: Sandbox) -> None:
    result = run(sandbox, "kill -STOP $PPID; sleep 60", timeout=0.3)
    assert (result.exit_code, result.timed_out) == (None, True)
    assert processes(sandbox) == ""


def test_a_command_cannot_write_the_report(shared: Sandbox) -> None:
    result = run(shared, "echo '{}' > /proc/$PPID/fd/1; ls /proc/$PPID/fd; echo $?")
    assert result.stdout.preview == "2\n"
    assert result.stderr.preview.count("Permission denied") == 2


def test_one_session_serves_all_commands_and_another_one_after_it_was_killed(
    sandbox: FramedSandbox,
) -> None:
    first = run(sandbox, "echo $PPID").stdout.preview
    assert {run(sandbox, "echo $PPID").stdout.preview for _ in range(20)} == {first}
    sandbox.kill_commands()
    second = run(sandbox, "echo $PPID").stdout.preview
    assert second != first
    assert run(sandbox, "echo $PPID").stdout.preview == second


def test_many_commands_leave_nothing_behind(sandbox: Sandbox) -> None:
    """The sandbox may have 128 processes. A descriptor that a command left on this side shows."""

    def run_some(numbers: range) -> int:
        for number in numbers:
            assert run(sandbox, ":", number=number).exit_code == 0
        return len(list(Path("/proc/self/fd").iterdir()))

    before = run_some(range(20))
    assert run_some(range(20, 170)) < before + 50
    assert processes(sandbox) == ""


def test_commands_may_run_at_the_same_time(sandbox: Sandbox) -> None:
    meet = "touch {}; until [ -e {} ]; do sleep 0.02; done; echo met"
    results: list[ExecResult] = []
    other = threading.Thread(
        target=lambda: results.append(run(sandbox, meet.format("b", "a"), number=2))
    )
    other.start()
    results.append(run(sandbox, meet.format("a", "b")))
    other.join(30)
    assert [result.stdout.preview for result in results] == ["met\n", "met\n"]


def test_the_folders_are_restored_if_a_command_removes_them(sandbox: Sandbox) -> None:
    run(sandbox, f"rm -rf {OUT} {DATA}; ln -sfn /etc {OUT}; rm -rf /tmp/*")
    out = run(sandbox, "seq 1 100000").stdout
    assert (out.path, out.file_size) == (f"{OUT}/1.txt", out.size)


def test_an_output_file_in_the_way_does_not_block(sandbox: Sandbox) -> None:
    run(sandbox, f"mkfifo {OUT}/5.txt; ln -s /etc/passwd {OUT}/6.txt; mkdir {OUT}/7.txt")
    for number, kept in ((5, 588_895), (6, 588_895), (7, 0)):
        out = run(sandbox, "seq 1 100000", number=number).stdout
        assert (out.size, out.file_size) == (588_895, kept)


def test_two_sandboxes_do_not_see_each_other(driver: Driver) -> None:
    first, second = driver.start("one"), driver.start("two")
    try:
        run(first, "echo mine > data/secret; echo mine > /dev/shm/secret")
        seen = run(second, "cat data/secret /dev/shm/secret")
        assert (seen.exit_code, seen.stdout.preview) == (1, "")
    finally:
        first.close()
        second.close()


def test_a_sandbox_killed_in_the_middle_of_a_command_is_gone(sandbox: FramedSandbox) -> None:
    def ending() -> None:
        run(sandbox, "until [ -e started ]; do sleep 0.02; done", number=99)
        sandbox.container.kill()

    killer = threading.Thread(target=ending)
    killer.start()
    with pytest.raises(SandboxGone):
        run(sandbox, "touch started; sleep 60", timeout=60)
    killer.join(30)
    with pytest.raises(SandboxGone):
        run(sandbox, "true")
    with pytest.raises(SandboxGone):
        sandbox.put("/tmp/x", [b"x"])


def test_a_closed_sandbox_is_gone(sandbox: Sandbox) -> None:
    sandbox.close()
    sandbox.close()
    for use in (
        lambda: run(sandbox, "true"),
        lambda: sandbox.put("/tmp/x", [b"x"]),
        lambda: sandbox.get("/tmp/x", limit=1),
        lambda: list(sandbox.export()),
    ):
        with pytest.raises(SandboxGone, match="closed"):
            use()
