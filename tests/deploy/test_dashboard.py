"""The chart's dashboards ask for metrics that there are, by labels that they have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

from worker.telemetry.metrics import Metrics

DASHBOARDS = Path(__file__).parents[2] / "helm/sandpiper/dashboards"
METRIC = re.compile(r"\b(sandpiper_\w+)(?:\{([^}]*)\})?")
FROM_PROMETHEUS = {"namespace", "le"}
ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}


def series() -> dict[str, set[str]]:
    """Every name that can be asked for, with its labels."""
    found = {}
    for each in vars(Metrics()).values():
        if isinstance(each, MetricWrapperBase):
            (family,) = each.describe()
            for ending in ENDINGS.get(family.type, ("",)):
                found[family.name + ending] = set(each._labelnames)
    return found | {"sandpiper_build_info": {"version"}}


def expressions(file: Path) -> Iterator[tuple[str, str]]:
    """Each panel's title and query."""
    dashboard: dict[str, Any] = json.loads(file.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def problems(expression: str) -> list[str]:
    """What is wrong with a query."""
    known, wrong = series(), []
    if any(expression.count(a) != expression.count(b) for a, b in ("()", "{}", "[]")):
        wrong.append("its brackets are not balanced")
    labels = set[str]()
    for name, matchers in METRIC.findall(expression):
        if name not in known:
            wrong.append(f"there is no {name}")
            continue
        labels |= known[name]
        wanted = set(re.findall(r"(\w+)\s*[=!]", matchers))
        wrong += [f"{name} has no {each}" for each in wanted - known[name] - FROM_PROMETHEUS]
    for listed in re.findall(r"\bby \(([^)]*)\)", expression):
        wanted = {each.strip() for each in listed.split(",")}
        wrong += [f"nothing there has {each}" for each in wanted - labels - FROM_PROMETHEUS]
    return wrong


@pytest.mark.parametrize("file", sorted(DASHBOARDS.glob("*.json")), ids=lambda file: file.name)
def test_every_metric_and_label_of_a_dashboard_exists(file: Path) -> None:
    asked = list(expressions(file))
    assert len(asked) > 20
    assert [f"{title}: {each}" for title, query in asked for each in problems(query)] == []


def test_every_metric_is_shown_somewhere() -> None:
    shown = " ".join(query for file in DASHBOARDS.glob("*.json") for _, query in expressions(file))
    families = {re.sub(r"_(total|bucket|sum|count|info)$", "", name) for name in series()}
    assert [name for name in sorted(families) if name not in shown] == []


def test_no_panel_lies_over_another() -> None:
    for file in DASHBOARDS.glob("*.json"):
        taken = set[tuple[int, int]]()
        for panel in json.loads(file.read_text())["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert max(x for x, _ in cells) < 24
            assert not cells & taken, panel["title"]
            taken |= cells


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("rate(sandpiper_nothing_total[5m])", "there is no sandpiper_nothing_total"),
        ('sandpiper_notes_total{colour="red"}', "sandpiper_notes_total has no colour"),
        ("sum by (colour) (sandpiper_notes_total)", "nothing there has colour"),
        ("sum(sandpiper_notes_total", "its brackets are not balanced"),
        ("sandpiper_note_seconds", "there is no sandpiper_note_seconds"),
    ],
)
def test_a_planted_mistake_is_found(query: str, problem: str) -> None:
    assert problems(query) == [problem]
