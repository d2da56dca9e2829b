"""One version: the package's, the chart's and the images'."""

import re

import yaml

from tests.deploy.image import DOCKERFILE, ROOT, project

VERSION = project()["project"]["version"]


def test_the_chart_is_of_the_package_s_version() -> None:
    chart = yaml.safe_load((ROOT / "helm/sandpiper/Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_every_image_that_is_named_is_of_the_package_s_version() -> None:
    for file in ("compose.yaml", DOCKERFILE, "helm/sandpiper/README.md"):
        named = re.findall(r"\bsandpiper:(\d[\w.]*)", (ROOT / file).read_text("utf-8"))
        assert set(named) == {VERSION}, file
