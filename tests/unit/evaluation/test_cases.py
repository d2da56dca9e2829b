"""Cases whose files are damaged, or are not theirs."""

import gzip
import shutil
from pathlib import Path

import pytest

from tests.evaluated import CASES
from worker.errors import ConfigError
from worker.evaluation.cases import load_case

WHOLE = gzip.compress(b"FAILED tests/test_total.py\n", mtime=0)


@pytest.mark.parametrize(
    "damaged",
    [b"no gzip", WHOLE[:-12], WHOLE[:12] + b"\xff\xff" + WHOLE[14:]],
    ids=["other", "cut", "changed"],
)
def test_a_damaged_log_is_named(damaged: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rounding-per-row", folder)
    case = load_case(folder)
    job = next(job for job in case.content.pipeline.jobs if job.log)
    packed = job.model_copy(update={"log": "job.log.gz"})
    (folder / "job.log.gz").write_bytes(WHOLE)
    assert case.read_log(packed) == gzip.decompress(WHOLE)
    (folder / "job.log.gz").write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"job\.log\.gz: no gzip file"):
        case.read_log(packed)


def test_what_python_has_compiled_is_no_file_of_the_case(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rounding-per-row", folder)
    before = load_case(folder).read_tree("head")
    (folder / "head" / "__pycache__").mkdir()
    (folder / "head" / "__pycache__" / "total.pyc").write_bytes(b"\xff\xff")
    assert load_case(folder).read_tree("head") == before
