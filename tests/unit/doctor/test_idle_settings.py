"""What is set without effect: one row for each row of the table, and what workflows say."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.law.house import agree, none
from worker import wiring
from worker.doctor.idle_settings import NEEDS, list_idle_settings
from worker.errors import ConfigError, SandpiperError
from worker.settings import Settings, playbook
from worker.settings.reference import list_keys

HELPER = {"models": {"helper": "anthropic/claude-haiku-5-5"}}
TIERS = {"models": {"tiers": {"balanced": {"model": "anthropic/claude-haiku-5-5"}}}}
CODING = {"models": {"tiers": {"coding": {"model": "anthropic/claude-opus-5-5"}}}}
PODS = {"sandbox": {"driver": "kubernetes"}}
TENANT = {"group/app": {"namespace": "tenant"}}
KONFLUX = {"url": "https://konflux.example.com", "projects": TENANT}

EXAMPLES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "loop.gate": ({"loop": {"gate": "judge"}}, HELPER),
    "loop.plan": ({"loop": {"plan": "model"}}, HELPER),
    "context.strategy": ({"context": {"strategy": "recursive"}}, HELPER),
    "context.resume": ({"context": {"resume": "summary"}}, HELPER),
    "models.helper_timeout": ({"models": {"helper_timeout": 5}}, HELPER),
    "models.tier": ({"models": {"tier": "smart"}}, TIERS),
    "models.upgrade": ({"models": {"upgrade": ["code"]}}, CODING),
    "gitlab.tier_min_access": ({"gitlab": {"tier_min_access": "owner"}}, TIERS),
    **{
        f"models.reply.{name}": (
            {"models": {"reply": {name: value}}},
            {"models": {"reply": {"model": "anthropic/claude-haiku-5-5"}}},
        )
        for name, value in {"reasoning": "low", "max_output": 500, "timeout": 5}.items()
    },
    "limits.project_cost_usd_per_day": (
        {"limits": {"project_cost_usd_per_day": 9, "cost_usd_per_day": 9}},
        {"limits": {"cost_usd_per_day": 10}},
    ),
    "sandbox.namespace": ({"sandbox": {"namespace": "here"}}, PODS),
    "sandbox.pull_secrets": ({"sandbox": {"pull_secrets": ["key"]}}, PODS),
    "sandbox.image": ({"sandbox": {"image": "mine", "driver": "bubblewrap"}}, PODS),
    "sandbox.runtime": ({"sandbox": {"runtime": "runsc", "driver": "bubblewrap"}}, PODS),
    "sandbox.shared_limits": (
        {"sandbox": {"shared_limits": True, **PODS["sandbox"]}},
        {"sandbox": {"driver": "docker"}},
    ),
    "broker_tls.verify": ({"broker_tls": {"verify": False}}, {"broker": "rediss://there"}),
    "broker_tls.ca_file": (
        {"broker": "amqps://there", "broker_tls": {"ca_file": "/ca", "verify": False}},
        {"broker_tls": {"verify": True}},
    ),
    "s3_addressing": ({"s3_addressing": "virtual"}, {"store": "s3://bucket"}),
    "broker_queue": (
        {"broker_queue": "quorum", "broker": "redis://there"},
        {"broker": "amqps://there"},
    ),
    "broker_master": ({"broker_master": "main"}, {"broker": "sentinel://there:26379/0"}),
    **{
        f"sources.konflux.{name}": (
            {"sources": {"konflux": {name: value}}},
            {"sources": {"konflux": KONFLUX}},
        )
        for name, value in {
            "archive_url": "https://archive.example.com",
            "ui_url": "https://ui.example.com",
            "ca_file": "/ca",
            "projects": TENANT,
            "url": "https://konflux.example.com",
        }.items()
    },
    **{
        f"sources.testing_farm.{name}": (
            {"sources": {"testing_farm": {name: "https://farm.example.com"}}},
            {"sources": {"testing_farm": {"repositories": {"group/app": ["https://git/*"]}}}},
        )
        for name in ("url", "results_url")
    },
    "pages.sign_in.group": (
        {"pages": {"sign_in": {"group": "acme/ops", "client_id": "abc"}}},
        {"pages": {"url": "https://sandpiper.example.com"}},
    ),
    "pages.days": ({"pages": {"days": 3}}, {"pages": {"url": "https://sandpiper.example.com"}}),
    "metrics.port": (
        {"metrics": {"port": 9100, "enabled": False}},
        {"metrics": {"enabled": True}},
    ),
    "known.days": ({"known": {"days": 3, "answer": False}}, {"known": {"answer": True}}),
    **{
        f"incidents.{name}": (
            {"incidents": {"branches": [], name: value}},
            {"incidents": {"branches": ["main"]}},
        )
        for name, value in {"issue": True, "rerun": 10}.items()
    },
}
"""For each key, settings in which it has no effect, and what is then to be set beside it."""

FLOW = "---\nname: mine\ndescription: d\ntriggers: [pipeline_failed]\n{}\n---\nLook.\n"
SMALL = "context: {fold_at: 0.3, fold_to: 0.1}"


def merge(tree: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = deepcopy(tree)
    for name, value in more.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def find(tree: dict[str, Any], flow: str = "") -> list[str]:
    flows = [playbook.parse(FLOW.format(flow), "mine.md")] if flow else []
    book = playbook.Playbook(flows) if flow else playbook.load("")
    return [each.where for each in list_idle_settings(Settings.model_validate(tree), book)]


def test_every_row_has_its_example_and_names_a_setting() -> None:
    keys = {need.key for need in NEEDS}
    assert agree(keys, EXAMPLES, "EXAMPLES in tests/unit/doctor/test_idle_settings.py")
    assert none([f"{key} of NEEDS is no setting" for key in keys - list_keys()])


def test_the_defaults_and_the_bundled_workflows_are_without_one() -> None:
    assert find({}) == []
    assert find(yaml.safe_load(Settings().model_dump_json())) == []


@pytest.mark.parametrize("key", EXAMPLES)
def test_what_has_no_effect_is_named_until_what_it_needs_is_set(key: str) -> None:
    idle, needed = EXAMPLES[key]
    found = find(idle)
    assert found
    assert {each.partition(" ")[0] for each in found} == {key}
    assert find(merge(idle, needed)) == []


@pytest.mark.parametrize(
    ("said", "field", "needed"),
    [
        ("gate: judge", "gate", HELPER),
        ("plan: model", "plan", HELPER),
        ("context: {strategy: summary}", "context.strategy", HELPER),
        ("context: {resume: summary}", "context.resume", HELPER),
        ("model_tier: deep", "model_tier", TIERS),
        ("max_iterations: 90", "max_iterations", {"limits": {"max_iterations": 100}}),
        ("lead_steps: true\nplan: 'off'", "lead_steps", None),
        ("find_tool: true", "find_tool", None),
    ],
)
def test_the_same_is_named_where_a_workflow_says_it(
    said: str, field: str, needed: dict[str, Any] | None
) -> None:
    (where,) = find({}, said)
    assert where.startswith(f"workflow mine: {field}")
    if needed is not None:
        assert find(needed, said) == []


def test_a_workflow_that_plans_by_rules_needs_no_helper() -> None:
    said = "gate: rules\nplan: facts\nlead_steps: true\ncontext: {strategy: prune}"
    assert find({}, said) == []


def test_shares_that_cross_between_the_settings_and_a_workflow_are_refused() -> None:
    assert find({}, SMALL) == []
    assert find({"context": {"fold_to": 0.5}}, SMALL) == []
    with pytest.raises(ConfigError, match="workflow mine: context: expected fold_to below fold_at"):
        find({"context": {"fold_to": 0.5}}, "context: {fold_at: 0.3}")


def test_it_is_warned_of_at_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = {"loop": {"gate": "judge"}, "store": f"file://{tmp_path}"}
    tokens = {"read_token": "r" * 20, "write_token": "w" * 20}
    settings = Settings.model_validate({**tree, "gitlab": tokens, "sandbox": {"memory": "1b"}})
    with caplog.at_level("WARNING", "sandpiper"), pytest.raises(SandpiperError):
        wiring.require_worker(settings)
    assert "loop.gate (judge): without models.helper" in caplog.text
