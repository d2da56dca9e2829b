"""Every list that a new row must join has it: else a sentence says what to add, and where."""

import ast
from collections.abc import Callable, Collection, Iterator

import pytest

from tests.flow import test_redaction as redaction
from tests.law.house import ROOT, agree, modules
from tests.unit.doctor import rows_around, rows_gitlab
from tests.wire.simulators import WIRES
from worker.cli import _COMMANDS
from worker.doctor.table import CHECKS
from worker.jobs.commands import COMMANDS
from worker.models.table import PROVIDERS
from worker.sessions.table import OPENERS
from worker.settings import Settings, playbook
from worker.settings.environment import DEFAULTS, OVERRIDES, SECRETS
from worker.settings.playbook import COMMAND_NAMES
from worker.sources.table import SOURCES
from worker.tools.arguments import schema

ELSEWHERE = {
    *("engine", "sandbox", "disk", "store-clock", "versions"),
}
"""Checks of the doctor that tests/unit/doctor/test_parts.py breaks, over real parts."""
NO_DOCUMENT = {"gitlab_get_ci_config"}
"""Sources without arguments that the world of tests/flow/test_redaction.py has nothing for."""


def list_command_modules() -> set[str]:
    """The modules of the command line that define a `command`."""
    return {
        module.name.rpartition(".")[2]
        for module in modules("worker/cli")
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "command"
    }


def list_workflow_commands() -> set[str]:
    """The commands of the bundled workflows."""
    return {
        trigger.removeprefix("command:")
        for flow in playbook.load("").workflows()
        for trigger in flow.triggers
        if trigger.startswith("command:")
    }


def list_plain_sources() -> set[str]:
    """The sources that need no argument."""
    return {row.name for row in SOURCES if not schema(row.args).get("required")} - NO_DOCUMENT


def list_readme_providers() -> set[str]:
    """The providers that have a line in the README's table of models."""
    rows = (ROOT / "README.md").read_text("utf-8").splitlines()
    return {name for name in PROVIDERS if any(row.startswith(f"| `{name}` |") for row in rows)}


def list_taken_schemes() -> Iterator[str]:
    """The schemes of stores that the settings take."""
    for scheme in OPENERS:
        try:
            Settings(store=f"{scheme}://bucket/prefix")
        except ValueError:
            continue
        yield scheme


PLACES = [".".join(place) for place in (*OVERRIDES.values(), *DEFAULTS, *SECRETS)]
Names = Callable[[], Collection[str]]

LISTS: dict[str, tuple[Names, Names, str]] = {
    "commands of the command line": (
        list_command_modules,
        lambda: _COMMANDS,
        "_COMMANDS in worker/cli/__init__.py; each is a module of worker/cli/ with a `command`",
    ),
    "/sandpiper commands": (
        lambda: {*COMMANDS} - {"unknown"} | list_workflow_commands(),
        lambda: COMMAND_NAMES,
        "COMMANDS in worker/settings/playbook.py; what each does is a row of COMMANDS in "
        "worker/jobs/commands.py, or a workflow",
    ),
    "checks of the doctor": (
        lambda: {check.name for check in CHECKS},
        lambda: {row.check for row in (*rows_gitlab.ROWS, *rows_around.ROWS)} | ELSEWHERE,
        "ROWS in tests/unit/doctor/rows_gitlab.py or rows_around.py, with what it finds wrong",
    ),
    "sources without arguments": (
        list_plain_sources,
        lambda: redaction.PLAIN,
        "PLAIN in tests/flow/test_redaction.py, whose world has to have something for it",
    ),
    "simulators of providers": (
        lambda: PROVIDERS,
        lambda: {each.spec.partition("/")[0] for each in WIRES.values()} & PROVIDERS.keys(),
        "WIRES in tests/wire/simulators.py, with a simulator that plays it",
    ),
    "providers of the README": (
        lambda: PROVIDERS,
        list_readme_providers,
        "the table of *Models* in README.md",
    ),
    "keys of providers": (
        lambda: {name for name, each in PROVIDERS.items() if each.key_env},
        lambda: {name for name in PROVIDERS if f"models.providers.{name}.key" in PLACES},
        "SECRETS in worker/settings/environment.py, as its `key`",
    ),
    "addresses of providers": (
        lambda: {name for name, each in PROVIDERS.items() if each.url_env},
        lambda: {name for name in PROVIDERS if f"models.providers.{name}.base_url" in PLACES},
        "OVERRIDES or DEFAULTS in worker/settings/environment.py, as its `base_url`",
    ),
    "schemes of stores": (
        lambda: OPENERS,
        lambda: set(list_taken_schemes()),
        "_check_store in worker/settings/tree.py",
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_every_list_has_its_rows(name: str) -> None:
    rows, listed, where = LISTS[name]
    assert agree(rows(), listed(), where)


def test_a_row_that_is_left_out_is_said_with_its_place() -> None:
    for rows, _, where in LISTS.values():
        without, first = sorted(rows())[1:], sorted(rows())[0]
        with pytest.raises(pytest.fail.Exception) as missing:
            agree(rows(), without, where)
        assert str(missing.value) == f"\n{first} is missing: add it to {where}"
        with pytest.raises(pytest.fail.Exception) as spare:
            agree(without, rows(), where)
        assert str(spare.value) == f"\n{first} is no more: remove it from {where}"
