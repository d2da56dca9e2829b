"""What `sandpiper sweep` leaves alone."""

import json
import os
import socket
from pathlib import Path

import pytest

from tests import forks


def test_looking_at_parked_triggers_asks_for_no_sandbox(tmp_path: Path) -> None:
    (tmp_path / "sandpiper.yaml").write_text("sandbox: {pool: 3}\n")
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "docker.sock"))
        engine.listen()
        engine.setblocking(False)
        env = {
            "PATH": os.environ["PATH"],
            "DOCKER_HOST": f"unix://{tmp_path}/docker.sock",
            "GITLAB_TOKEN": "glpat-of-no-worth-at-all",
            "ANTHROPIC_API_KEY": "sk-ant-of-no-worth-at-all",
            "SANDPIPER_STORE": f"file://{tmp_path}/store",
        }
        done = forks.run((forks.SANDPIPER, "sweep", "--parked"), env, tmp_path, 120)
        assert done.returncode == 0, done.stderr
        with pytest.raises(BlockingIOError):
            engine.accept()
        done = forks.run((forks.SANDPIPER, "sweep", "--parked", "--json"), env, tmp_path, 120)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == {"dry_run": False, "lines": []}


def test_a_sweep_that_gitlab_does_not_answer_ends_as_partial(tmp_path: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "GITLAB_URL": "http://127.0.0.1:9",
        "GITLAB_TOKEN": "glpat-of-no-worth-at-all",
        "ANTHROPIC_API_KEY": "sk-ant-of-no-worth-at-all",
        "SANDPIPER_STORE": f"file://{tmp_path}/store",
    }
    done = forks.run((forks.SANDPIPER, "sweep", "--dry-run"), env, tmp_path, 120)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("GitLab: the projects: no answer from http://127.0.0.1:9: ")
