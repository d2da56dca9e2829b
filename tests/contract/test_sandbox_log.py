"""`log` is there, in every kind of sandbox, and answers within what the model is shown; what else
there is can be asked."""

import re

from sandbox.background import PoolableDriver
from sandbox.base import DATA, Sandbox
from sandbox.tools import PROBED, TOOLS, find_versions
from worker.tools import toolbox

LOG = b"".join(b"[%d/9000] Compiling src/mod_%d.c\n" % (n, n % 7) for n in range(9_000))
FAILED = LOG + b"src/mod_3.c:12: error: no member named 'total'\n" + LOG

UNUSUAL = {"rg", "jq", "yq", "tomlq", "xmllint", "sqlite3", "git"}


def answer(sandbox: Sandbox, command: str) -> str:
    done = sandbox.exec(f"cd {DATA} && {command}", timeout=30, number=1)
    assert (done.exit_code, done.stderr.preview) == (0, "")
    assert done.stdout.path is None, "the whole answer is shown"
    return done.stdout.preview


def test_a_log_is_read_by_one_command(any_sandbox: Sandbox) -> None:
    any_sandbox.put(f"{DATA}/job.log", iter([FAILED]))
    any_sandbox.put(f"{DATA}/job.log.green", iter([LOG, LOG]))
    new = "9001: src/mod_3.c:12: error: no member named 'total'"
    assert new in answer(any_sandbox, "log diff job.log").split("\n")
    assert new in answer(any_sandbox, "log errors job.log").split("\n")
    assert new in answer(any_sandbox, "log slice job.log 9000-9002").split("\n")
    assert "most telling error candidates: lines 9001" in answer(any_sandbox, "log outline job.log")
    assert "1 × 9001: " in answer(any_sandbox, "log templates job.log")


def test_what_a_sandbox_has_to_run_code_with_is_found_out_from_it(
    any_driver: PoolableDriver,
) -> None:
    with any_driver.start("versions") as sandbox:
        there, _, missing = find_versions(sandbox).partition("; no ")
    names = [each.partition(" ")[0] for each in there.split(", ")]
    assert re.search(r"\bpython3 3\.\d+\.\d+\b", there)
    lacking = set(filter(None, missing.split(", ")))
    listed = {name for _, tools in TOOLS for name in tools}
    assert {*names, *lacking} - listed == {*PROBED, "PyYAML"} - listed
    # What is there depends on the image, so nothing else says it.
    described = set(re.findall(r"[\w.-]+", toolbox.SANDBOX_EXEC.description))
    assert not described & UNUSUAL
    with any_driver.start("test") as sandbox:
        for name in {*PROBED, *listed}:
            found = sandbox.exec(f"command -v {name}", timeout=30, number=1).exit_code == 0
            assert found == (name not in lacking), name
        for name in PROBED:
            found = sandbox.exec(f"command -v {name}", timeout=30, number=1).exit_code == 0
            assert found == (name in names), name
        for name in UNUSUAL - {"git"}:
            assert (name in names) == (name not in lacking), name
        found = sandbox.exec("python3 -c 'import yaml'", timeout=30, number=1).exit_code == 0
        assert found == ("PyYAML" in names) == ("PyYAML" not in lacking)
        for name, version in re.findall(r"\b(pip|npm) (\d[\d.]*)", there):
            said = sandbox.exec(f"{name} --version", timeout=30, number=1)
            assert said.exit_code or version in said.stdout.preview  # npm may want more memory
