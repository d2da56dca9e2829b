"""The way that the chart's README describes, with the cluster left out: values, note, page."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.deploy.chart import CHART, Manifest, environment, of_kind, pod, render
from tests.flow.product import KEY, SECRET, Product, free_port, product
from worker.lab import story

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("sandbox_image")]

PUBLIC = "https://sandpiper.example.com"


def manifests() -> tuple[Manifest, ...]:
    """What the README's values make; only the names of projects and image are this world's."""
    readme = (CHART / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    values: dict[str, Any] = yaml.safe_load(textwrap.dedent(block))
    values["config"]["gitlab"]["projects"] = ["northsound/*"]
    del values["config"]["sandbox"]["image"]
    return render(values, "sandpiper")


def container(made: tuple[Manifest, ...], component: str) -> Manifest:
    """The one container of a component that runs Sandpiper."""
    (found,) = pod(made, component).spec["containers"]
    assert isinstance(found, dict)
    return found


def given(told: Product, chosen: Manifest, here: Mapping[str, str]) -> dict[str, str]:
    """A container's environment: its files as files here, its addresses those of `here`."""
    kept = {name: told.env[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in told.env}
    secrets = {
        "GITLAB_READ_TOKEN": told.scene.read_token,
        "GITLAB_WRITE_TOKEN": told.scene.write_token,
        "GITLAB_WEBHOOK_SECRET": SECRET,
        "ANTHROPIC_API_KEY": KEY,
        "SANDPIPER_PAGE_SECRET": "what-the-links-are-signed-with",
        "SANDPIPER_OPERATOR_TOKEN": "what-opens-the-list-of-them",
    }
    mounted = environment(chosen)
    for variable in [name for name in mounted if name.endswith("_FILE")]:
        name = variable.removesuffix("_FILE")
        if name in secrets:
            mounted[variable] = str(told.folder / name)
            (told.folder / name).write_text(f"{secrets[name]}\n")
    assert set(here) - {"GITLAB_URL", "ANTHROPIC_BASE_URL"} <= set(mounted)
    return mounted | dict(here) | kept


def test_a_stranger_gets_from_the_values_to_the_page(tmp_path: Path, redis_url: str) -> None:
    made = manifests()
    (config,) = (each for each in of_kind(made, "ConfigMap") if "sandpiper.yaml" in each["data"])
    (tmp_path / "mounted.yaml").write_text(config["data"]["sandpiper.yaml"])
    with product(tmp_path, story.make_script(), redis_url) as told:
        here = {
            "SANDPIPER_CONFIG": str(tmp_path / "mounted.yaml"),
            "SANDPIPER_BROKER": redis_url,
            "SANDPIPER_STORE": f"file://{tmp_path}/store",
            "GITLAB_URL": told.gitlab.url,
            "ANTHROPIC_BASE_URL": told.model.url,
        }
        receiver, worker = container(made, "receiver"), container(made, "worker")
        work = given(told, worker, here)
        told.env = given(told, receiver, here)
        metrics = free_port()
        arguments = [
            f"--metrics-port={metrics}" if each.startswith("--metrics-port=") else each
            for each in worker["args"]
        ]
        with told.serve():
            told.env = work
            with told.process(*arguments) as process:
                assert told.pipeline_failed().status_code == httpx.codes.ACCEPTED
                process.until(lambda: told.objects("context.json"), "no analysis was stored")
                note = told.notes()[0].body
                link = re.search(rf"\[Session\]\({re.escape(PUBLIC)}(/sessions/[^)]*)\)", note)
                assert link, note
                page = httpx.get(told.url + link[1])
                assert page.status_code == httpx.codes.OK
                assert "Caused by this change" in page.text
                counted = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
                assert "sandpiper_notes_total{" in counted
