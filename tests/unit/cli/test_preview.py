"""`sandpiper preview` prints what the model first sees of a job log."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest
from click.testing import CliRunner

from worker.cli.preview import command
from worker.errors import SandpiperError
from worker.logs import trace
from worker.logs.excerpt import preview_log, preview_trace

LOG = b"".join(b"part %d is built\n" % number for number in range(2_000))
FAILED = LOG + b"\x1b[31mcart.c:7:3: error: 'totl' undeclared\x1b[0m\n" + LOG


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.removesuffix("\n")


def test_it_prints_the_preview(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(FAILED)
    assert run(str(log)) == preview_log(trace.clean_trace(FAILED))
    assert "2001: cart.c:7:3: error: 'totl' undeclared" in run(str(log), "--max", "300")


def test_a_gzipped_log_and_a_green_one_are_read(tmp_path: Path) -> None:
    log, green = tmp_path / "job.log.gz", tmp_path / "green.log"
    log.write_bytes(gzip.compress(FAILED))
    green.write_bytes(LOG)
    shown = run(str(log), "--green", str(green), "--max", "400")
    assert shown == preview_trace([FAILED], 400, [LOG])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("first", [1, 2, 5000])
def test_a_dash_reads_what_is_piped_packed_or_plain(
    pack: Callable[[bytes], bytes], first: int
) -> None:
    words = (sys.executable, "-c", "from worker.cli import main; main()", "preview", "-")
    data = pack(FAILED)
    process = subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    process.stdin.write(data[:first])
    process.stdin.flush()
    out, errors = process.communicate(data[first:], 60)
    assert (process.returncode, errors) == (0, b"")
    assert out.decode() == preview_log(trace.clean_trace(FAILED)) + "\n"


def test_as_json_it_is_one_object(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(FAILED)
    log = str(tmp_path / "job.log")
    assert json.loads(run(log, "--json")) == {"log": log, "green": None, "preview": run(log)}


def test_only_one_log_can_be_piped(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["-", "--green", "-"], input=b"")
    assert result.exit_code == 2
    assert "only one of the two logs can be standard input" in result.output


def test_a_log_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(tmp_path / "none.log")])
    assert result.exit_code == 2
    assert "does not exist" in result.output


@pytest.mark.parametrize("cut", [slice(0, -20), slice(0, 5), slice(0, 40)])
def test_a_damaged_log_is_an_error_in_plain_words(cut: slice, tmp_path: Path) -> None:
    log = tmp_path / "job.log.gz"
    log.write_bytes(gzip.compress(FAILED)[cut] + b"\xff" * 40)
    with pytest.raises(SandpiperError, match="cannot read the log: "):
        CliRunner().invoke(command, [str(log)], catch_exceptions=False)
