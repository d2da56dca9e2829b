"""The image's tag, and what is said while it is built."""

from pathlib import Path
from typing import Any

import pytest

from sandbox.base import SandboxUnavailable
from sandbox.build import IMAGE_FOLDER, compute_image_tag, follow_progress
from sandbox.docker import explain_missing_image


def test_the_tag_is_a_hash_of_names_and_contents(tmp_path: Path) -> None:
    seen = {compute_image_tag(tmp_path)}
    (tmp_path / "a").write_text("1")
    seen.add(compute_image_tag(tmp_path))
    (tmp_path / "a").write_text("2")
    seen.add(compute_image_tag(tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    seen.add(compute_image_tag(tmp_path))
    (tmp_path / "below").mkdir()
    (tmp_path / "b").rename(tmp_path / "below/b")
    seen.add(compute_image_tag(tmp_path))
    assert len(seen) == 5


def test_caches_do_not_change_the_tag(tmp_path: Path) -> None:
    before = compute_image_tag(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_bytes(b"1")
    assert compute_image_tag(tmp_path) == before


def test_the_tag_is_short_and_the_repository_fixed() -> None:
    repository, _, tag = compute_image_tag().partition(":")
    assert repository == "sandpiper-sandbox"
    assert len(tag) == 12


def test_everything_the_runner_needs_is_copied() -> None:
    copied = (IMAGE_FOLDER / "Dockerfile").read_text().splitlines()
    assert "COPY *.py /opt/sandpiper/sandbox/image/" in copied
    assert "COPY runner.py /opt/sandpiper/" in copied


def test_steps_are_said_and_the_rest_is_not() -> None:
    said: list[str] = []
    lines: list[dict[str, Any]] = [
        {"stream": "Step 1/2 : FROM x\n"},
        {"stream": "Get:1 …"},
        {"aux": {"ID": "sha256:1"}},
    ]
    follow_progress(lines, "building", said.append)
    assert said == ["  Step 1/2 : FROM x"]


def test_a_failed_build_says_its_last_words() -> None:
    lines = [{"stream": f"line {n}\n"} for n in range(9)] + [{"error": "apt-get failed: 100"}]
    words = "^building: line 6 / line 7 / line 8 / apt-get failed: 100$"
    with pytest.raises(SandboxUnavailable, match=words):
        follow_progress(lines, "building")


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (
            "sandpiper-sandbox:latest",
            "the sandbox image sandpiper-sandbox:latest is not on the Docker engine: "
            "build it with `sandpiper image build`",
        ),
        (
            "registry.example.com/own:1",
            "the sandbox image registry.example.com/own:1 is not on the Docker engine: "
            "pull it with `docker pull registry.example.com/own:1`, "
            "or build it with `sandpiper image build --tag registry.example.com/own:1`",
        ),
        (
            "registry.example.com/own@sha256:1",
            "the sandbox image registry.example.com/own@sha256:1 is not on the Docker engine: "
            "pull it with `docker pull registry.example.com/own@sha256:1`",
        ),
    ],
)
def test_a_missing_image_is_said_with_what_gets_this_very_one(image: str, said: str) -> None:
    assert explain_missing_image(image) == said
