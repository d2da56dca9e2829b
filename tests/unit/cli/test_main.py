"""How a command ends that fails: one last line, whatever the reason."""

import subprocess
import sys

import pytest

FAILING = """
import click
from worker import cli
from worker.errors import SandpiperError

@click.command()
def failing():
    raise {error}

cli.main(failing)
"""


@pytest.mark.parametrize(
    ("error", "last"),
    [
        ("SandpiperError('the reason')", "sandpiper: the reason"),
        ("SandpiperError('first\\nsecond\\x1b[2J')", "sandpiper: first second[2J"),
        (
            "KeyError('hidden')",
            "sandpiper: an internal error (KeyError): its traceback is above",
        ),
    ],
)
def test_the_last_line_alone_says_the_reason(error: str, last: str) -> None:
    code = FAILING.format(error=error)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    *above, said = done.stderr.splitlines()
    assert said == last
    assert not [line for line in above if line.startswith("sandpiper: ")]
