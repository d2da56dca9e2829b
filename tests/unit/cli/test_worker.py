"""How `sandpiper worker` ends that cannot work: with its reason, and never with status 0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks

BREAKING = """
from worker import app
from worker.errors import ConfigError
from worker.jobs import process
from worker.settings import Settings

def fail():
    raise {error}

process.run_worker(app.build_app(Settings(), fail), 1, 30.0)
"""


def test_a_helper_that_cannot_be_asked_is_said_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "sandpiper.yaml").write_text("models: {helper: openai/gpt-6-luna}\n")
    env = {
        "PATH": os.environ["PATH"],
        "GITLAB_TOKEN": "glpat-of-no-worth-at-all",
        "ANTHROPIC_API_KEY": "sk-ant-of-no-worth-at-all",
        "SANDPIPER_BROKER": "redis://127.0.0.1:9/0",
        "SANDPIPER_STORE": f"file://{tmp_path}/store",
    }
    done = forks.run((forks.SANDPIPER, "worker", "--metrics-port", "0"), env, tmp_path, 60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "sandpiper: openai: no API key: set OPENAI_API_KEY"


@pytest.mark.attack("costs")
@pytest.mark.parametrize(
    ("models", "limits", "spec"),
    [
        ("default: openai-compatible/novel", "cost_usd_per_day: 5", "openai-compatible/novel"),
        ("fallback: [openai-compatible/novel]", "cost_usd: 1", "openai-compatible/novel"),
        ("helper: openai-compatible/novel", "project_cost_usd_per_day: 1", "novel"),
        ("tiers: {deep: {model: openai-compatible/novel}}", "cost_usd: 2", "novel"),
        (
            "default: openai-compatible/novel, "
            "catalogue: {novel: {tiers: [{since: 2999-01-01, input: 1, output: 2}]}}",
            "cost_usd: 1",
            "novel",
        ),
    ],
)
def test_a_model_without_a_price_is_refused_at_the_start_if_a_cap_on_dollars_is_set(
    tmp_path: Path, models: str, limits: str, spec: str
) -> None:
    (tmp_path / "sandpiper.yaml").write_text(f"models: {{{models}}}\nlimits: {{{limits}}}\n")
    env = {
        "PATH": os.environ["PATH"],
        "GITLAB_TOKEN": "glpat-of-no-worth-at-all",
        "ANTHROPIC_API_KEY": "sk-ant-of-no-worth-at-all",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "SANDPIPER_BROKER": "redis://127.0.0.1:9/0",
        "SANDPIPER_STORE": f"file://{tmp_path}/store",
    }
    done = forks.run((forks.SANDPIPER, "worker", "--metrics-port", "0"), env, tmp_path, 60)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert f"{spec} is unknown, so limits.{limits.partition(':')[0]} cannot hold" in last
    assert "state input and output under models.catalogue.novel (0 if it is free)" in last
    assert "limits.assumed_price" in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "last"),
    [
        ("ConfigError('the key is missing')", "ConfigError: the key is missing"),
        ("KeyError('a bug')", "QueueError: the worker ended although nobody stopped it"),
    ],
)
def test_what_keeps_a_worker_from_starting_fails_its_process(error: str, last: str) -> None:
    code = BREAKING.format(error=error)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert last in done.stderr.splitlines()[-1]
