"""Completion as bash, zsh and fish ask for it."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.contexts import SUBJECT
from tests.unit.cli.test_sessions import found, keep
from worker.sessions.folder import FolderStore

FIRST, SECOND = "00000000000000000001", "00000000000000000002"


def ask(folder: Path, shell: str, line: str, **env: str) -> list[str]:
    """The lines that a shell is answered when TAB is pressed at the end of `line`."""
    words = line.split(" ")
    asked = {
        "PATH": os.environ["PATH"],
        "SANDPIPER_STORE": f"file://{folder}/store",
        "GITLAB_URL": SUBJECT.gitlab_url,
        "_SANDPIPER_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
        **env,
    }
    done = forks.run((forks.SANDPIPER,), asked, folder, 60)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A folder with two sessions and a file of settings."""
    store = FolderStore(tmp_path / "store")
    keep(store, found(1, "Join\nwindows: all\tof them \x1b[31m"))
    keep(store, found(2, ""))
    models: dict[str, Any] = {"default": "anthropic/claude-haiku-5-5", "helper": "openai/gpt-9"}
    (tmp_path / "other.yaml").write_text(f"models: {models}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("sandpiper sess", ["sessions"]),
        ("sandpiper doctor --only work", ["workflows", "workers"]),
        ("sandpiper sessions show ", [SECOND, FIRST]),
        (f"sandpiper sessions show {FIRST[:10]}", [SECOND, FIRST]),
        (f"sandpiper reply {FIRST}", [FIRST]),
        ("sandpiper replay 9", []),
        ("sandpiper eval record --session ", [SECOND, FIRST]),
        ("sandpiper analyze --model ", ["anthropic/claude-sonnet-5-5"]),
        ("sandpiper --config other.yaml analyze --model o", ["openai/gpt-9"]),
        ("sandpiper --config other.yaml demo --model anth", ["anthropic/claude-haiku-5-5"]),
    ],
)
def test_bash_is_offered_what_there_is(stored: Path, line: str, values: list[str]) -> None:
    assert ask(stored, "bash", line) == [f"plain,{value}" for value in values]


def test_zsh_and_fish_see_which_merge_request_it_is(stored: Path) -> None:
    about = "aviary/tern!42 Join windows: all of them [31m"
    line = f"sandpiper sessions show {FIRST}"
    assert ask(stored, "zsh", line) == ["plain", FIRST, about]
    assert ask(stored, "fish", line)[:1] == [f"plain,{FIRST}\t{about}"]


@pytest.mark.parametrize("line", ["sandpiper sessions show ", "sandpiper analyze --model "])
def test_nothing_is_said_where_nothing_is_known(stored: Path, line: str) -> None:
    (stored / "sandpiper.yaml").write_text("limits: 3\n")
    assert ask(stored, "bash", line) == []
    (stored / "sandpiper.yaml").unlink()
    if "sessions" in line:
        assert ask(stored, "bash", line, SANDPIPER_STORE="file:///proc/none") == []
