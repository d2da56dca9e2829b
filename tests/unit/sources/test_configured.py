"""From the operator's file to the rows of a session."""

from pathlib import Path

import pytest

from worker.errors import ConfigError
from worker.settings import load
from worker.sources.table import SOURCES
from worker.wiring.jobs import build_sources

FILE = """
sources:
  also_read: ["shared/*"]
  konflux:
    url: https://cluster.example:6443
    archive_url: https://archive.example
    projects:
      team/app: {namespace: team-tenant, repository: app}
  testing_farm:
    repositories:
      team/app: ["https://gitlab.example/team/*"]
"""
TOKENS = {"KONFLUX_TOKEN": "konflux-secret-1", "TESTING_FARM_API_TOKEN": "farm-secret-1"}


def written(folder: Path, text: str) -> str:
    file = folder / "sandpiper.yaml"
    file.write_text(text)
    return str(file)


def test_nothing_but_gitlab_is_read_unless_it_is_configured() -> None:
    assert build_sources(load(environ={})) == SOURCES


def test_what_is_configured_stands_after_gitlab(tmp_path: Path) -> None:
    settings = load(written(tmp_path, FILE), TOKENS)
    names = [row.name for row in build_sources(settings)]
    assert names[len(SOURCES) :] == [
        "konflux_list_pipelineruns",
        "konflux_list_taskruns",
        "konflux_get_pod_log",
        "testing_farm_get_request",
        "testing_farm_get_results",
        "testing_farm_get_log",
    ]
    assert settings.sources.also_read == ("shared/*",)


def test_the_tokens_of_sources_are_secrets(tmp_path: Path) -> None:
    settings = load(written(tmp_path, FILE), TOKENS)
    assert set(TOKENS.values()) <= set(settings.list_secrets())
    assert "secret-1" not in repr(settings) + settings.model_dump_json()
    with pytest.raises(ConfigError, match=r"sources\.konflux\.token: .*set \$KONFLUX_TOKEN"):
        load(written(tmp_path, "sources: {konflux: {token: x}}"), {})


WRONG = [
    ("{konflux: {url: 'ftp://x'}}", "sources.konflux.url"),
    ("{konflux: {url: 'https://user:pw@x'}}", "sources.konflux.url"),
    ("{konflux: {projects: {a/b: {namespace: 'a/../b'}}}}", "projects.a/b.namespace"),
    ("{konflux: {projects: {a/b: {namespace: n, repository: 'x,y=z'}}}}", "a/b.repository"),
    ("{testing_farm: {results_url: ''}}", "sources.testing_farm.results_url"),
    ("{jenkins: {}}", "sources.jenkins"),
]


@pytest.mark.parametrize(("text", "key"), WRONG)
def test_a_wrong_value_is_refused_with_its_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(written(tmp_path, f"sources: {text}"), {})
