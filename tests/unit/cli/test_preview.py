"""`sandpiper preview` prints what the model first sees of a job log."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from worker.cli.preview import command
from worker.core.logs import trace
from worker.errors import SandpiperError

LOG = b"".join(b"part %d is built\n" % number for number in range(2_000))
FAILED = LOG + b"\x1b[31mcart.c:7:3: error: 'totl' undeclared\x1b[0m\n" + LOG


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.removesuffix("\n")


def test_it_prints_the_preview(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(FAILED)
    assert run(str(log)) == trace.preview_log(trace.clean_trace(FAILED))
    assert "2001: cart.c:7:3: error: 'totl' undeclared" in run(str(log), "--max", "300")


def test_a_gzipped_log_and_a_green_one_are_read(tmp_path: Path) -> None:
    log, green = tmp_path / "job.log.gz", tmp_path / "green.log"
    log.write_bytes(gzip.compress(FAILED))
    green.write_bytes(LOG)
    shown = run(str(log), "--green", str(green), "--max", "400")
    assert shown == trace.preview_trace([FAILED], 400, [LOG])


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
