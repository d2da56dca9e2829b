"""The chart under the real helm: rendering it, and looking at what comes out."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.image import ROOT

CHART = ROOT / "helm/sandpiper"
KUBERNETES = "1.34.0"

Values = dict[str, Any]
Manifest = dict[str, Any]


@cache
def helm() -> str:
    """The helm to use: `make test` provides it; without it tests skip."""
    named = os.environ.get("SANDPIPER_TEST_HELM") or shutil.which("helm")
    if not named:
        pytest.skip("no helm: install Helm 3")
    return named


def run(
    command: str, values: Values, *more: str, chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    """`helm COMMAND …` over the chart with `values`."""
    return subprocess.run(
        [helm(), *command.split(), str(chart), "--values", "-", *more],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def read_refusal(done: subprocess.CompletedProcess[str]) -> str:
    """What was wrong with the values, as Helm 3.17 words it. Later ones name a place by slashes."""
    # `helm lint` prints what is wrong on stdout.
    dotted = re.sub(
        r"at '/([^']*)'", lambda place: place[1].replace("/", "."), done.stdout + done.stderr
    )
    return re.sub(r"additional properties '(\w+)' not", r"Additional property \1 is not", dotted)


def read_manifests(text: str) -> tuple[Manifest, ...]:
    """What Helm has printed. The C loader needs a tenth of the time."""
    return tuple(each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each)


@cache
def _rendered(values: str, release: str) -> tuple[Manifest, ...]:
    done = run(
        f"template {release}", json.loads(values), "--kube-version", KUBERNETES, "-n", "team"
    )
    assert done.returncode == 0, done.stderr
    return read_manifests(done.stdout)


def render(values: Values, release: str = "r") -> tuple[Manifest, ...]:
    """The manifests."""
    return _rendered(json.dumps(values, sort_keys=True), release)


@dataclass(frozen=True)
class Pod:
    """A pod, or the template of one: `owner` is the manifest it is in."""

    owner: Manifest
    labels: dict[str, str]
    spec: dict[str, Any]

    @property
    def name(self) -> str:
        """kind/name of the owner."""
        return f"{self.owner['kind']}/{self.owner['metadata']['name']}"

    @property
    def containers(self) -> list[dict[str, Any]]:
        """All of them, init containers first."""
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]


def pods(manifests: tuple[Manifest, ...]) -> Iterator[Pod]:
    """Every pod that the manifests would make."""
    for each in manifests:
        if each["kind"] == "Pod":
            yield Pod(each, each["metadata"]["labels"], each["spec"])
            continue
        spec = each.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec and "spec" in spec["template"]:
            template = spec["template"]
            yield Pod(each, template["metadata"]["labels"], template["spec"])


def pod(manifests: tuple[Manifest, ...], component: str) -> Pod:
    """The one pod of a component."""
    (found,) = (
        each for each in pods(manifests) if each.labels["app.kubernetes.io/component"] == component
    )
    return found


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> list[Manifest]:
    """The manifests of one kind."""
    return [each for each in manifests if each["kind"] == kind]


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector takes these labels."""
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In"
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def environment(container: dict[str, Any]) -> dict[str, str]:
    """What a container's variables say in plain text."""
    return {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
