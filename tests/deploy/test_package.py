"""The package: built as a release builds it, and installed as a user installs it."""

import os
import re
import subprocess
import sys
import zipfile
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

import pytest

from tests.deploy.image import ROOT, project
from tests.deploy.pipelines import run_job
from tests.law.house import none
from tests.law.test_repository import files
from worker import DISTRIBUTION, __version__

pytestmark = pytest.mark.slow

UV = (sys.executable, "-m", "uv")


def run(*command: str | Path, **environment: str) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, both by the pipeline's own lines."""
    folder = tmp_path_factory.mktemp("dist")
    told = run_job("package", DIST=str(folder))
    stem = f"{DISTRIBUTION.replace('-', '_')}-{__version__}"
    made = {each.name for each in folder.iterdir()} - {".gitignore"}
    assert made == {f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"}, told
    return folder / f"{stem}-py3-none-any.whl"


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that holds the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("tools")
    places = {"UV_TOOL_DIR": str(folder / "all"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    run(*UV, "tool", "install", "--quiet", f"{DISTRIBUTION}[otel] @ {wheel}", **places)
    assert [each.name for each in (folder / "bin").iterdir()] == ["sandpiper"]
    return folder / "all" / DISTRIBUTION / "bin"


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    own = {path for path in files() if path.startswith(("worker/", "sandbox/"))}
    flows = {f"worker/{path}" for path in files() if path.startswith("workflows/")}
    assert none(sorted(names ^ (own | flows)))
    assert names >= {"worker/py.typed", "sandbox/py.typed", "worker/workflows/analyze-failures.md"}


def test_the_index_s_page_says_what_it_is_and_leads_to_the_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        about = BytesParser(policy=compat32).parsebytes(archive.read(name))
    assert (about["Name"], about["Version"]) == (DISTRIBUTION, __version__)
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    urls = dict(each.split(", ") for each in about.get_all("Project-URL", []))
    assert urls == project()["project"]["urls"]
    page = about.get_payload(decode=True)
    assert isinstance(page, bytes)
    text = page.decode()
    assert text.count("\n") == (ROOT / "README.md").read_text("utf-8").count("\n")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert none([link for link in links if not link.startswith(("#", "https://"))])
    assert f"{urls['Source']}/-/raw/main/.docs/note.png" in links


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--version", f"sandpiper, version {__version__}"),
        ("settings", "gitlab:"),
        ("preview worker/README.md", "## How a failure is explained"),
        ("doctor --only packages --only versions --only workflows", "3 well"),
    ],
)
def test_a_command_runs_from_an_environment_of_its_own(
    command: str, said: str, programs: Path
) -> None:
    assert said in run(programs / "sandpiper", *command.split())
