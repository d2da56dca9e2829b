"""One version: the package's, the chart's, the images' and a release's tag."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.version import PLACES, ROOT, find_doubts, find_others, write
from tests.law.house import none
from worker import __version__

CHANGELOG = "CHANGELOG.md"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A copy of what names a version, as on the day of the release of 1.2.3."""
    for name in (*PLACES, CHANGELOG):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    change(tmp_path / CHANGELOG, r"(?m)^## \[.*", "## [1.2.3] - 2027-01-31")
    write(tmp_path, "1.2.3")
    return tmp_path


def change(file: Path, pattern: str, text: str) -> None:
    """Replace the first place that matches."""
    whole, times = re.subn(pattern, text, file.read_text("utf-8"), count=1)
    assert times
    file.write_text(whole, encoding="utf-8")


def test_chart_and_images_are_of_the_package_s_version() -> None:
    assert none(list(find_others()))


def test_a_version_that_is_written_is_everywhere_and_nothing_else_changes(released: Path) -> None:
    assert list(find_doubts("v1.2.3", released, "1.2.3")) == []
    write(released)
    for name in PLACES:
        assert (released / name).read_bytes() == (ROOT / name).read_bytes(), name


@pytest.mark.parametrize(
    ("tag", "file", "pattern", "text", "said"),
    [
        (
            *("v1.2.4", CHANGELOG, "^", ""),
            "the tag is v1.2.4, but worker/__init__.py says 1.2.3: tag v1.2.3",
        ),
        (
            *("1.2.3", CHANGELOG, "^", ""),
            "the tag is 1.2.3, but worker/__init__.py says 1.2.3: tag v1.2.3",
        ),
        (
            *("v1.2.3", "helm/sandpiper/Chart.yaml", "appVersion: .*", "appVersion: 1.2.2"),
            "helm/sandpiper/Chart.yaml: 1.2.2, not 1.2.3",
        ),
        (
            *("v1.2.3", "compose.yaml", "sandpiper:1.2.3", "sandpiper:1.2.3-rc.1"),
            "compose.yaml: 1.2.3-rc.1, not 1.2.3",
        ),
        (
            *("v1.2.3", "worker/Dockerfile", "sandpiper:1.2.3", "sandpiper:latest"),
            "worker/Dockerfile: names no version",
        ),
        (
            *("v1.2.3", CHANGELOG, r"2027-01-31", "unreleased"),
            "CHANGELOG.md: 1.2.3 is 'unreleased': write the day of the release",
        ),
        (
            *("v1.2.3", CHANGELOG, r"## \[1.2.3\]", "## [1.2.2]"),
            "CHANGELOG.md: its first heading is of 1.2.2, not 1.2.3",
        ),
    ],
)
def test_what_speaks_against_a_release_is_said_in_one_line(
    tag: str, file: str, pattern: str, text: str, said: str, released: Path
) -> None:
    change(released / file, pattern, text)
    assert list(find_doubts(tag, released, "1.2.3")) == [said]


def test_a_release_s_pipeline_is_stopped_by_a_wrong_tag() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", RUN, str(ROOT), "v0.0.0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    first = done.stdout.splitlines()[0]
    assert first == (
        f"the tag is v0.0.0, but worker/__init__.py says {__version__}: tag v{__version__}"
    )
    assert (done.returncode, done.stderr) == (1, "")


RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.deploy import version
sys.argv[1:] = ["--tag", sys.argv[2]]
sys.exit(version.main())
"""
"""Without a package beside Python's own, as in the first job of a pipeline."""
