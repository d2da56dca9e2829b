"""What a deployment takes from the settings: `python -m tests.deploy.config_schema` writes it.

The chart's value `config` is sandpiper.yaml: its schema goes into the chart's values.schema.json.
Variables that compose.yaml does not hand on yet are added to it.
"""

import json
from itertools import chain
from typing import Any

from tests.deploy.chart import CHART
from worker.settings import Settings
from worker.settings.environment import DEFAULTS, OVERRIDES, SECRETS
from worker.settings.validation import make_schema

FILE = CHART / "values.schema.json"
COMPOSE = CHART.parents[1] / "compose.yaml"
OWN = ("broker", "store", "workflows")
"""Values of the chart itself, which says so where they stand in `config`."""

DECIMAL = r"^[0-9]+\.[0-9]+$"

_KEPT = {
    *("type", "properties", "items", "additionalProperties", "enum", "const", "anyOf"),
    "required",
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern", "minLength"),
}


def schema() -> dict[str, Any]:
    """Of `config`: `sandpiper settings --schema` without defaults and descriptions."""
    made: dict[str, Any] = _plain(make_schema(Settings))
    made["properties"].update({name: {} for name in OWN})
    return made


def current() -> dict[str, Any]:
    """What the chart has."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))["properties"]["config"]
    return found


def _plain(node: Any) -> Any:
    made: dict[str, Any] = {}
    for name, value in node.items():
        if name == "properties":
            made[name] = {key: _plain(each) for key, each in value.items()}
        elif name == "anyOf":
            made[name] = [_plain(each) for each in value]
        elif name in ("items", "additionalProperties") and isinstance(value, dict):
            made[name] = _plain(value)
        elif name in _KEPT:
            made[name] = value
    if made.get("type") == "number":
        # `helm --set` knows whole numbers only, and gives 0.5 as text.
        made |= {"type": ["number", "string"], "pattern": DECIMAL}
    return made


def _written() -> str:
    """The file with the schema of today; one line for each section."""
    text = FILE.read_text("utf-8")
    begin = text.index('"config": ') + len('"config": ')
    _, end = json.JSONDecoder().raw_decode(text, begin)
    made = schema()
    sections = made.pop("properties").items()
    lines = [f"      {json.dumps(name)}: {json.dumps(each)}" for name, each in sections]
    head = json.dumps(made)[:-1]
    told = f'{head}, "properties": {{\n' + ",\n".join(lines) + "\n    }}"
    return text[:begin] + told + text[end:]


def add_variables(text: str) -> str:
    """Return compose.yaml with the variables of settings, and of providers' keys, that it lacks."""
    keys = [name for place, names in SECRETS.items() if place[0] == "models" for name in names]
    for names, below in (
        ([*OVERRIDES, *chain(*DEFAULTS.values())], "  OTEL_EXPORTER_OTLP_ENDPOINT: "),
        (keys, "  KONFLUX_TOKEN: "),
    ):
        lacking = [name for name in dict.fromkeys(names) if f" {name}" not in text]
        added = "".join(f"  {name}: ${{{name}:-}}\n" for name in lacking)
        text = text.replace(below, added + below, 1)
    return text


if __name__ == "__main__":
    FILE.write_text(_written(), encoding="utf-8")
    COMPOSE.write_text(add_variables(COMPOSE.read_text("utf-8")), encoding="utf-8")
