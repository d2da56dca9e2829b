"""Cases whose files are damaged, or are not theirs."""

import gzip
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.evaluated import CASES
from worker.errors import ConfigError
from worker.lab.cases import find_inside, load_case, require_expectations
from worker.lab.recording import FORM

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


EMPTY = {"cause": [], "files": [], "lines": [], "meaning": ""}


@pytest.mark.parametrize(
    ("said", "plays"),
    [
        (yaml.safe_load(FORM.format(verdict="unknown")), False),
        (yaml.safe_load(FORM.format(verdict="flaky")), False),
        ({"verdict": ["flaky", "infrastructure"], **EMPTY}, False),
        ({"verdict": "flaky"}, True),
        ({"verdict": "unknown", "cause": []}, True),
        ({"verdict": "unknown", **EMPTY, "meaning": "A race."}, True),
        ({"verdict": "unknown", **EMPTY, "files": ["a.py"]}, True),
    ],
)
def test_a_case_of_which_nobody_has_said_what_is_right_is_not_played(
    said: dict[str, object], plays: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rounding-per-row", folder)
    (folder / "expect.yaml").write_text(yaml.safe_dump(said))
    case = load_case(folder)
    if plays:
        require_expectations([case])
        return
    with pytest.raises(ConfigError, match=r"case/expect\.yaml: nothing is filled in yet"):
        require_expectations([case])


# ------------------------------------------------------------------------------ links and devices

WAYS_OUT = ["link", "linked folder", "chain", "device", "pipe", "loop", "long"]


def lead_out(folder: Path, name: str, way: str) -> None:
    """Make `name` in the folder a way out of it."""
    place, outside = folder / name, folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / place.name).write_bytes(b"SECRET")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if way == "linked folder":
        for each in place.parent.iterdir():
            each.unlink() if each.is_file() else shutil.rmtree(each)
        place.parent.rmdir()
        place.parent.symlink_to(outside)
    elif way == "chain":
        (folder / "hop").symlink_to("../outside")
        place.symlink_to(folder / "hop" / place.name)
    elif way == "pipe":
        os.mkfifo(place)
    elif way == "loop":
        place.symlink_to(place.name)
    else:
        targets: dict[str, Path | str] = {
            "link": outside / place.name,
            "device": "/dev/zero",
            "long": "x" * 300,
        }
        place.symlink_to(targets[way])


@pytest.mark.attack("cases")
@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("name", ["case.yaml", "expect.yaml", "head/extra.py", "logs/extra.log"])
def test_nothing_outside_a_cases_folder_is_read(tmp_path: Path, name: str, way: str) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rounding-per-row", folder)
    if way == "linked folder" and "/" not in name:
        pytest.skip("it would be the whole case")
    whole = load_case(folder)
    lead_out(folder, name, way)
    job = next(each for each in whole.content.pipeline.jobs if each.log)

    try:
        case = load_case(folder)
        found = [*case.read_tree("base").values(), *case.read_tree("head").values()]
        found += [case.content.model_dump_json().encode(), str(case.expectation).encode()]
        if name.startswith("logs/"):
            found.append(case.read_log(job.model_copy(update={"log": name})) or b"")
    except ConfigError as error:
        found = [str(error).encode()]
    assert found
    assert not any(b"SECRET" in each for each in found)


@pytest.mark.attack("cases")
@pytest.mark.parametrize("log", ["../outside/x.log", "logs/../../outside/x.log", "/etc/passwd"])
def test_a_path_of_a_case_names_nothing_outside(tmp_path: Path, log: str) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rounding-per-row", folder)
    text = (folder / "case.yaml").read_text("utf-8")
    (folder / "case.yaml").write_text(re.sub(r"log: .*", f"log: {log}", text), "utf-8")
    with pytest.raises(ConfigError, match="leads out of the case's folder"):
        load_case(folder)


@pytest.mark.attack("cases")
def test_a_link_within_a_case_is_followed_and_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rounding-per-row", folder)
    case = load_case(folder)
    job = next(job for job in case.content.pipeline.jobs if job.log)
    (folder / "linked.log").symlink_to(job.log)
    assert case.read_log(job.model_copy(update={"log": "linked.log"})) == case.read_log(job)
    (folder / "bomb.log.gz").write_bytes(gzip.compress(bytes(65 << 20), 1) * 40)
    with pytest.raises(ConfigError, match="larger than"):
        case.read_log(job.model_copy(update={"log": "bomb.log.gz"}))


@pytest.mark.attack("cases")
def test_a_case_is_recorded_into_its_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "logs").symlink_to("../outside")
    with pytest.raises(ConfigError, match="leads out"):
        find_inside(tmp_path / "case", tmp_path / "case" / "logs" / "01.log")
