"""What a newcomer reads: the help of every command."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from worker.cli import cli

COLUMNS = 80


def list_commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from list_commands(inner, (*words, name))


COMMANDS = dict(list_commands(cli))


def ask(words: tuple[str, ...]) -> list[str]:
    asked = CliRunner().invoke(cli, [*words, "--help"], terminal_width=COLUMNS)
    assert asked.exit_code == 0
    return asked.output.splitlines()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_explained(words: tuple[str, ...]) -> None:
    unexplained = [
        each.name
        for each in COMMANDS[words].params
        if isinstance(each, click.Option) and not each.help
    ]
    assert unexplained == []


GROUPS = [words for words, each in COMMANDS.items() if isinstance(each, click.Group)]


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_every_command_has_one_whole_line_in_its_list(words: tuple[str, ...]) -> None:
    shown = ask(words)
    listed = shown[shown.index("Commands:") + 1 :]
    lines = listed[: listed.index("")] if "" in listed else listed
    group = COMMANDS[words]
    assert isinstance(group, click.Group)
    assert [line.split()[0] for line in lines] == group.list_commands(click.Context(group))
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_line_fits_a_terminal(words: tuple[str, ...]) -> None:
    assert [line for line in ask(words) if len(line) > COLUMNS] == []
