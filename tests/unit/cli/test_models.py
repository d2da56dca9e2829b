"""`sandpiper models`: what an operator is shown, and what can be pasted."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import forks
from tests.simulators.anthropic import AnthropicSim
from tests.simulators.anthropic.model_list import describe_model
from tests.simulators.gemini import GeminiSim
from tests.simulators.openai import ChatSim
from tests.simulators.openai.simulator import describe as describe_gpt
from worker.lab.script import Answer, Asked, Say

KEY = "sk-very-secret-0123456789"
SETTINGS: dict[str, Any] = {
    "models": {
        "default": "anthropic/claude-haiku-5-5",
        "fallback": ["gemini/gemini-4-argon", "openai/gpt-5.6-sol-preview"],
        "helper": "openai-compatible/llama",
        "tiers": {
            "deep": {"model": "anthropic/claude-opus-5-5", "reasoning": "xhigh"},
            "coding": {"model": "openai/small", "reasoning": "high"},
        },
        "catalogue": {
            "small": {
                "window": 100_000,
                "input": 1,
                "output": 2,
                "levels": {"low": {}, "high": {"window": 50_000}},
                "default_level": "low",
            }
        },
    }
}


SHOWN = """\
default anthropic/claude-haiku-5-5 - 1,000,000 $0.1 / $0.01 / $0.5 low medium* high xhigh max
fallback openai/gpt-5.6-sol-preview - 922,000 ? $4 / $0.4 / $20 ? none low medium* high xhigh max
tier deep anthropic/claude-opus-5-5 xhigh 1,000,000 $4 / $0.2 / $20 low medium* high xhigh max
tier coding openai/small high 50,000 $1 / $1 / $2 low* high
helper openai-compatible/llama - unknown unknown unknown
openai/gpt-5.6-sol-preview: assumed to be like gpt-5.6-sol: window, price and levels
anthropic/claude-haiku-5-5: above 100,000 tokens: $0.5 / $0.05 / $2.5
openai-compatible/llama: not described: 128,000 tokens of window are assumed, its cost is unknown
openai/small: window at high: 50,000
""".splitlines()


def say(asked: Asked) -> Answer:
    return Say("done")


def run(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    file = folder / "sandpiper.yaml"
    if not file.exists():
        file.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_BASE_URL")}
    words = (forks.SANDPIPER, "--config", str(file), "models", *args)
    return forks.run(words, {**plain, **env}, folder, timeout=60)


@contextmanager
def providers() -> Iterator[tuple[AnthropicSim, GeminiSim, ChatSim, dict[str, str]]]:
    """Three strict simulators, and the variables that name them."""
    with AnthropicSim(say, key=KEY) as a, GeminiSim(say, key=KEY) as g, ChatSim(say, key=KEY) as o:
        named = (("ANTHROPIC", a), ("GEMINI", g), ("OPENAI", o))
        yield (
            a,
            g,
            o,
            {
                **{f"{name}_BASE_URL": sim.url for name, sim in named},
                **{f"{name}_API_KEY": KEY for name, _ in named},
            },
        )
    assert [*a.unexpected_requests, *g.unexpected_requests, *o.unexpected_requests] == []


def test_the_configured_models_are_shown_with_what_is_known_of_them(tmp_path: Path) -> None:
    done = run(tmp_path, "list")

    assert (done.returncode, done.stderr) == (0, "")
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for row in SHOWN:
        assert row in rows
    assert run(tmp_path).stdout == done.stdout


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        (
            {"cost_usd_per_day": 5.0},
            "refused: the price of openai-compatible/llama is unknown, so limits.cost_usd_per_day "
            "cannot hold",
        ),
        ({"cost_usd": 1.0, "assumed_price": 3.0}, "charged at limits.assumed_price"),
    ],
)
def test_what_is_done_about_an_unknown_price_is_shown(
    tmp_path: Path, limits: dict[str, float], note: str
) -> None:
    text = yaml.safe_dump({**SETTINGS, "limits": limits})
    (tmp_path / "sandpiper.yaml").write_text(text, encoding="utf-8")
    notes = [line for line in run(tmp_path, "list").stdout.splitlines() if "limits." in line]
    assert notes == [f"openai-compatible/llama: {note}"]


def test_the_list_as_json_says_the_same(tmp_path: Path) -> None:
    done = run(tmp_path, "list", "--json")
    rows = {row["role"]: row for row in json.loads(done.stdout)["models"]}

    assert rows["tier deep"]["level"] == "xhigh"
    assert rows["tier coding"]["window"] == 50_000
    assert rows["tier coding"]["levels"] == [
        {"name": "low", "window": 100_000},
        {"name": "high", "window": 50_000},
    ]
    assert rows["helper"]["window"] is None
    assert rows["helper"]["prices"] == []
    assert (rows["default"]["assumed"], rows["default"]["temperature"]) == (False, False)
    assert [price["above"] for price in rows["default"]["prices"]] == [0, 100_000]
    both = json.loads(run(tmp_path, "list", "--all", "--json").stdout)["models"]
    assert {"claude-sonnet-5", "gemini-2.5-pro", "small"} <= {row["model"] for row in both}


def test_what_is_served_is_compared_and_can_be_pasted(tmp_path: Path) -> None:
    with providers() as (anthropic, _, openai, env):
        anthropic.model_list += [
            describe_model("claude-novel-1", 300_000, 32_000, ("low", "high")),
            describe_model("claude-sonnet-5", 500_000),
        ]
        openai.model_list = [describe_gpt("llama", max_model_len=65_536), describe_gpt("gpt-9")]
        done = run(tmp_path, "discover", **env)
        assert done.returncode == 0, done.stderr
        found = json.loads(run(tmp_path, "discover", "anthropic", "--json", **env).stdout)
    assert KEY not in done.stdout + done.stderr
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "anthropic: 6 models served, 1 not in the catalogue, 1 not as the catalogue says" in rows
    assert "claude-novel-1 unknown 300,000 32,000 low high" in rows
    assert "gemini: 3 models served" in rows
    assert "openai-compatible: 2 models served, 2 not in the catalogue" in rows
    assert "gpt-9 unknown" in rows
    states = {row["id"]: row["state"] for row in found["providers"][0]["served"]}
    assert (states["claude-sonnet-5"], states["claude-novel-1"]) == ("differing", "unknown")
    pasted = yaml.safe_load(done.stdout[done.stdout.index("# For sandpiper.yaml") :])
    pasted["models"]["default"] = "anthropic/claude-novel-1"
    pasted["models"]["helper"] = "openai-compatible/llama"
    (tmp_path / "sandpiper.yaml").write_text(yaml.safe_dump(pasted), encoding="utf-8")
    after = [" ".join(line.split()) for line in run(tmp_path, "list").stdout.splitlines()]
    assert "default anthropic/claude-novel-1 - 300,000 unknown low high" in after
    assert "helper openai-compatible/llama - 65,536 unknown unknown" in after


def test_a_provider_that_does_not_answer_is_said_and_the_others_are_shown(tmp_path: Path) -> None:
    with providers() as (anthropic, gemini, _, env):
        gemini.fail_list(503)
        some = run(tmp_path, "discover", **env)
        anthropic.fail_list(200, b"<html>\x1b[31m")
        none = run(tmp_path, "discover", "anthropic", **env)
    assert some.returncode == 3
    assert "anthropic: 4 models served" in some.stdout
    assert "sandpiper: gemini: gemini: the API is overloaded or failing (503)" in some.stderr
    assert none.returncode == 1
    assert "the list of models cannot be read" in none.stderr
    assert "\x1b" not in none.stdout + none.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("discover", "nobody"), "unknown provider 'nobody'; known: "),
        (("discover", "gemini-vertex"), "gemini-vertex: this provider has no list of its models"),
        (("discover", "anthropic"), "anthropic: no API key: set ANTHROPIC_API_KEY"),
        (("discover", "openai-compatible"), "base_url ($OPENAI_BASE_URL): it is not set"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    done = run(tmp_path, *args, ANTHROPIC_API_KEY="")

    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
