"""What the documents name is there: commands, options, settings, variables, metrics, files."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import cast

import click
import pytest
import yaml

from tests.law.house import ROOT, agree
from worker.cli import cli
from worker.settings import Settings, load, reference
from worker.settings.environment import DEFAULTS, OVERRIDES, SECRETS
from worker.settings.loading import name_variable
from worker.settings.playbook import COMMANDS
from worker.telemetry.metrics import Metrics

DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "worker/README.md"),
    *("worker/telemetry/README.md", "worker/models/README.md", "worker/lab/README.md"),
    *("sandbox/README.md", "sandbox/image/README.md", "helm/sandpiper/README.md"),
    *("worker/transport/README.md", "worker/cli/README.md"),
)
VARIABLES = {
    *OVERRIDES,
    *(name for names in DEFAULTS.values() for name in names),
    *(name for names in SECRETS.values() for name in names),
    *(f"SANDPIPER_{key.upper().replace('.', '__')}" for key in reference.list_keys()),
    *("SANDPIPER_CONFIG", "SANDPIPER_TEST_REDIS", "SANDPIPER_TEST_RABBIT", "SANDPIPER_TEST_HELM"),
    *("SANDPIPER_TEST_RUNTIMES", "SANDPIPER_TEST_LLAMA"),
    *("SANDPIPER_ID_TOKEN", "SANDPIPER_URL"),  # a CI job's own
    *(name_variable(row.place) for row in reference.list_rows()),
    *("AWS_ACCESS_KEY_ID", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_S3", "AWS_SECRET_ACCESS_KEY"),
}
LONGEST = 400

_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)+")
_OWNERS = {name.partition("_")[0] for names in SECRETS.values() for name in names}
_VARIABLE = re.compile(rf"\b(?:{'|'.join(sorted(_OWNERS))})_[A-Z_0-9]+\b")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")
_METRIC = re.compile(r"\bsandpiper_[a-z_]+\b")


def text(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def commands(document: str) -> Iterator[str]:
    """Every `sandpiper …` line, whether in a block or in a sentence."""
    whole = text(document)
    lines = [line for _, _, block in _BLOCK.findall(whole) for line in block.splitlines()]
    for line in (*lines, *_CODE.findall(_BLOCK.sub("", whole))):
        if found := re.match(r"\s*(?:[A-Z_]+=\S+ )*sandpiper ([a-z].*)", line):
            yield found[1]


def codes(document: str) -> set[str]:
    """Every piece of code in a sentence."""
    return set(_CODE.findall(_BLOCK.sub("", text(document))))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_and_option_is_one_there_is(document: str) -> None:
    for line in commands(document):
        first, *words = line.split()
        command: click.Command = cli
        context = click.Context(cli)
        for word in (first, *words):
            inner = command.get_command(context, word) if isinstance(command, click.Group) else None
            if inner is None:
                break
            command = inner
        assert command is not cli, f"{document}: sandpiper {line}"
        known = {name for each in command.params for name in each.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= known, f"{document}: sandpiper {line}: {given - known}"
        values = [word for before, word in pairwise(words) if before == "--only"]
        if values:
            only = next(each for each in command.params if "--only" in each.opts)
            assert set(values) <= set(cast(click.Choice[str], only.type).choices), line


def test_every_command_is_in_the_readme() -> None:
    named = {line.split()[0] for line in commands("README.md")}
    there = set(cli.list_commands(click.Context(cli)))
    assert agree(there, named & there, "README.md, as `sandpiper NAME`, with what it is for")
    told = [name for name in COMMANDS if f"`{name}`" in text("README.md")]
    assert agree(COMMANDS, told, "the table of /sandpiper commands in README.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_is_one_there_is(document: str) -> None:
    sections = tuple(f"{name}." for name in Settings.model_fields)
    for code in codes(document):
        key = code.partition(":")[0]
        file = key.rpartition(".")[2] in ("py", "md", "yaml", "json", "gz")
        if key.startswith(sections) and _KEY.fullmatch(key) and not file:
            assert key in reference.list_keys() or _of_the_chart(document, key), key


def _of_the_chart(document: str, key: str) -> bool:
    """Whether it is a value of the chart, on whose page some are called as settings are."""
    if not document.startswith("helm/"):
        return False
    tree = yaml.safe_load(text("helm/sandpiper/values.yaml"))
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_variable_is_one_that_is_read(document: str) -> None:
    named = {name.removesuffix("_FILE") for name in _VARIABLE.findall(text(document))}
    where = f"{document}; one that is read, and by whom it is, is a row of VARIABLES in this test"
    assert agree(named & VARIABLES, named, where)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_and_every_file_is_there(document: str) -> None:
    here = (ROOT / document).parent
    for path, part in _LINK.findall(text(document)):
        target = here / path
        assert target.exists(), f"{document}: {path}"
        if part:
            assert part in anchors(target), f"{document}: {path}#{part}"
    for part in re.findall(r"\]\(#([^)]*)\)", text(document)):
        assert part in anchors(ROOT / document), f"{document}: #{part}"
    tops = ("worker/", "sandbox/", "tests/", "helm/", "workflows/", ".ci/")
    for code in codes(document):
        if code.startswith(tops) and re.fullmatch(r"[\w./-]+", code) and "NAME" not in code:
            assert (ROOT / code).exists(), f"{document}: {code}"


def anchors(document: Path) -> set[str]:
    """The headings of a document, as links name them."""
    heads = re.findall(r"^#+ (.*)$", _BLOCK.sub("", document.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", ["README.md"])
def test_every_example_of_settings_is_one_that_is_taken(document: str, tmp_path: Path) -> None:
    seen = 0
    for _, language, block in _BLOCK.findall(text(document)):
        tree = yaml.safe_load(block) if language == "yaml" else {}
        if tree and set(tree) <= set(Settings.model_fields):
            file = tmp_path / "sandpiper.yaml"
            file.write_text(block, encoding="utf-8")
            load(str(file), {})
            seen += 1
    assert seen


def test_every_metric_is_named_and_none_that_is_not_there() -> None:
    # A histogram's own names, and what its page adds to them.
    families = [
        (f"{each.name}_{each.type}" if each.type == "info" else each.name, each.type)
        for each in Metrics().registry.collect()
    ]
    names = {
        f"{name}_total" if kind == "counter" else name
        for name, kind in families
        if name.startswith("sandpiper")
    }
    page = set(_METRIC.findall(text("worker/telemetry/README.md")))
    assert agree(names, page, "the table in worker/telemetry/README.md")
    named = set(_METRIC.findall(text("README.md")))
    assert agree(named & names, named, "README.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_is_too_long(document: str) -> None:
    assert text(document).count("\n") <= LONGEST
