"""What is installed from the wheel, in an environment of its own and far from any clone."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from sandbox.build import compute_image_tag
from sandbox.engine import open_engine
from tests.deploy.image import ROOT
from tests.deploy.wheels import build_wheel, make_environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this very tree."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with that wheel."""
    return make_environment(tmp_path_factory.mktemp("installed") / "venv", wheel)


def run(programs: Path, here: Path, *words: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the installed `sandpiper` in an empty folder, with the environment of a login."""
    names = ("PATH", "DOCKER_HOST", "SANDPIPER_BASE")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return subprocess.run(
        [programs / "sandpiper", *words],
        cwd=here,
        env=kept | {"HOME": str(here), "PYTHONDONTWRITEBYTECODE": "1"} | given,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def name() -> Iterator[str]:
    """A name for an image that nothing else uses; the engine forgets it at the end."""
    chosen = f"registry.example.com/sandpiper-sandbox:of-{os.getpid()}"
    yield chosen
    with closing(open_engine(None)) as api:
        cast(Any, api).remove_image(chosen, noprune=True)


@pytest.mark.slow
def test_an_installed_wheel_builds_the_image_and_writes_nothing_beside_its_code(
    programs: Path, tmp_path: Path, name: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in programs.parent.rglob("*")}
    done = run(programs, tmp_path, "image", "build", "--tag", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{compute_image_tag()}\n"
    assert done.stderr.splitlines()[-1] == f"{name} is on the engine"
    with closing(open_engine(None)) as api:
        assert compute_image_tag() in cast(Any, api).inspect_image(name)["RepoTags"]
    assert {path: path.stat().st_mtime_ns for path in programs.parent.rglob("*")} == before
    assert list(tmp_path.iterdir()) == []


REFUSED: list[tuple[list[str], dict[str, str], int, str]] = [
    (
        ["image", "build", "--tag", "My/Image:1"],
        {},
        1,
        "sandpiper: looking for the image My/Image:1: the Docker engine says: no such image: "
        "My/Image:1: invalid reference format: repository name must be lowercase",
    ),
    (
        ["image", "build", "--tag", "own@sha256:1"],
        {},
        1,
        "sandpiper: own@sha256:1: an image gets its digest when it is pushed; name a tag",
    ),
    (
        ["image", "build"],
        {"DOCKER_HOST": "unix:///nowhere.sock"},
        1,
        "sandpiper: no Docker engine answers at unix:///nowhere.sock: there is no such socket: "
        "start one, or set DOCKER_HOST to where it listens",
    ),
    (
        ["image", "build"],
        {"SANDPIPER_BASE": "localhost:1/no/base:1"},
        1,
        "sandpiper: no registry gave localhost:1/no/base:1, which $SANDPIPER_BASE names",
    ),
    (["image", "biuld"], {}, 2, "Error: No such command 'biuld'. Did you mean 'build'?"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "given", "status", "last"), REFUSED)
def test_an_image_that_cannot_be_built_is_said_with_what_is_wrong(
    programs: Path, tmp_path: Path, words: list[str], given: dict[str, str], status: int, last: str
) -> None:
    done = run(programs, tmp_path, *words, **given)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.splitlines()[-1] == last


def test_the_module_builds_what_the_command_builds(programs: Path, tmp_path: Path) -> None:
    module = subprocess.run(
        [programs / "python", "-m", "sandbox.build", "--print-tag"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert module.stdout == run(programs, tmp_path, "image", "build", "--print-tag").stdout
    assert module.stdout == f"{compute_image_tag()}\n"


def blocks(language: str, heading: str) -> list[str]:
    """The blocks of code of a part of CONTRIBUTING.md."""
    part = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(f"## {heading}\n")[2]
    return re.findall(rf"^```{language}\n(.*?)^```", part.partition("\n## ")[0], re.M | re.S)


def ask_the_doctor(programs: Path, here: Path) -> list[tuple[str, str, str]]:
    """What the doctor says of workflows that offer the tools of `incidents_*`, too."""
    (here / "flows").mkdir()
    flow = (ROOT / "workflows/analyze-failures.md").read_text("utf-8")
    with_plugin = re.sub(r"^tools: \[", "tools: [incidents_*, ", flow, count=1, flags=re.M)
    assert with_plugin != flow
    (here / "flows/analyze-failures.md").write_text(with_plugin)
    (here / "sandpiper.yaml").write_text("workflows: flows\n")
    given = dict.fromkeys(("GITLAB_TOKEN", "ANTHROPIC_API_KEY"), "of-no-worth")
    done = run(programs, here, "doctor", "--only", "workflows", "--json", **given)
    lines = json.loads(done.stdout)["lines"]
    return [(line["status"], line["found"], line["advice"]) for line in lines]


def test_the_package_that_contributing_shows_adds_a_source(wheel: Path, tmp_path: Path) -> None:
    heading = "Adding a source by a package of your own"
    package = tmp_path / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(*blocks("toml", heading))
    (package / "our_incidents.py").write_text(*blocks("python", heading))
    (tmp_path / "here").mkdir()
    plugin = build_wheel(package, tmp_path / "built")
    both = make_environment(tmp_path / "venv", wheel, plugin)
    assert ask_the_doctor(both, tmp_path / "here") == [("ok", "analyze-failures", "")]


def test_a_workflow_that_names_a_package_that_is_not_there_is_told_so(
    programs: Path, tmp_path: Path
) -> None:
    ((status, found, _),) = ask_the_doctor(programs, tmp_path)
    assert (status, found) == (
        "failed",
        "flows/analyze-failures.md:6: tools[0]: no tool is named 'incidents_*'",
    )
