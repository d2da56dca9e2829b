"""Each broken settings file of `broken_files.txt`, and exactly what a person reads of it."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from worker.cli import cli
from worker.errors import ConfigError
from worker.settings import Settings, load, reference
from worker.settings.environment import SECRETS
from worker.settings.validation import DIALECT, make_schema
from worker.settings.yaml_text import read_yaml

TABLE = Path(__file__).with_name("broken_files.txt")
FOREIGN = re.compile(
    r"Input should|valid \w+ type|pydantic|NoneType|\b(?:str|int|dict|tuple|bool|float)\b|\bTrue\b"
    r"|\bFalse\b|\bNone\b|Traceback|hunter2|sk-|glpat"
)
"""Words of a library or of Python, and secrets of the table."""


def read_table() -> dict[str, list[tuple[str, list[str]]]]:
    """The rows by their heading: the file, and the lines of it without its name."""
    rows: dict[str, list[tuple[str, list[str]]]] = {}
    for block in TABLE.read_text("utf-8").strip().split("\n\n"):
        if block.startswith("## "):
            under = rows.setdefault(block.removeprefix("## "), [])
            continue
        text, _, told = block.partition("\n=> ")
        under.append((f"{text}\n", told.split("\n=> ")))
    return rows


ROWS = read_table()
KNOWN, UNKNOWN, UNREADABLE = ROWS.values()


@cache
def schema() -> dict[str, Any]:
    """The schema as it is printed."""
    done = CliRunner().invoke(cli, ["settings", "--schema"])
    made: dict[str, Any] = json.loads(done.output)
    return made


@cache
def validator() -> Any:
    from jsonschema import Draft202012Validator  # takes a second

    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(schema(), format_checker=checker)


def read_refusal(file: Path, env: Mapping[str, str] = {}) -> list[str]:
    """The lines of what is wrong, without the folder."""
    with pytest.raises(ConfigError) as refused:
        load(str(file), env)
    return str(refused.value).replace(f"{file.parent}/", "").splitlines()


def write_row(folder: Path, text: str) -> Path:
    file = folder / "sandpiper.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(("text", "lines"), [*KNOWN, *UNKNOWN, *UNREADABLE])
def test_a_broken_file_is_told_in_these_lines(text: str, lines: list[str], tmp_path: Path) -> None:
    wanted = [f"sandpiper.yaml:{'' if line[0].isdigit() else ' '}{line}" for line in lines]
    assert read_refusal(write_row(tmp_path, text)) == wanted


def test_no_line_has_words_of_a_library_or_a_secret() -> None:
    told = [line for rows in ROWS.values() for _, lines in rows for line in lines]
    assert len(told) > 100
    assert [line for line in told if FOREIGN.search(line)] == []


@pytest.mark.parametrize("text", [text for text, _ in KNOWN])
def test_the_schema_refuses_what_it_can_know(text: str) -> None:
    assert not validator().is_valid(read_yaml(text, "sandpiper.yaml").tree)


def test_the_schema_is_one_and_takes_what_sandpiper_prints() -> None:
    from jsonschema import Draft202012Validator  # takes a second

    assert schema()["$schema"] == DIALECT
    Draft202012Validator.check_schema(schema())
    example = yaml.safe_load(reference.format_example())
    assert [each.message for each in validator().iter_errors(example)] == []


def test_the_schema_describes_every_key_and_has_no_secret() -> None:
    text = json.dumps(schema())
    for row in reference.list_rows():
        found: Any = schema()
        for step in row.place:
            parts = found.get("anyOf", [found])
            (found,) = (
                each["items"]
                if step == "[]"
                else each["additionalProperties"]
                if step == "NAME"
                else each["properties"][step]
                for each in parts
                if each.get("type") in ("object", "array")
            )
        assert found["description"] == row.text, row.key
    for place in SECRETS:
        assert f'"{place[-1]}": {{' not in text, place
    assert text.count('"additionalProperties": false') > 25


def test_the_printed_file_names_the_schema_for_editors() -> None:
    first, how = reference.format_example().splitlines()[:2]
    assert first == "# yaml-language-server: $schema=./sandpiper.schema.json"
    assert "sandpiper settings --schema >sandpiper.schema.json" in how


def test_all_problems_are_told_at_once_and_those_of_variables_last(tmp_path: Path) -> None:
    text = "gitlab:\n  url: nowhere\ncontext: {fold_at: 0.1}\npages: {secret: x}\n"
    env = {"SANDPIPER_LIMITS__COST_USD": "much", "SANDPIPER_OPERATOR_TOKEN": "short"}
    assert read_refusal(write_row(tmp_path, text), env) == [
        "sandpiper.yaml:2: gitlab.url: expected a URL that begins with https:// or http://; "
        "found 'nowhere'",
        "sandpiper.yaml:3: context.fold_at: expected fold_to (0.2) below fold_at (0.1)",
        "sandpiper.yaml:4: pages.secret: does not belong in the file: set $SANDPIPER_PAGE_SECRET",
        "$SANDPIPER_LIMITS__COST_USD: limits.cost_usd: expected a number of dollars above 0; "
        "found 'much'",
        "$SANDPIPER_OPERATOR_TOKEN: pages.operator_token: expected at least 16 characters",
    ]


def test_of_very_many_problems_the_first_are_told(tmp_path: Path) -> None:
    text = "".join(f"{'x' * number}: 1\n" for number in range(20, 80))
    told = read_refusal(write_row(tmp_path, text))
    assert len(told) == 51
    assert told[-1] == "and 10 problems more"


NO_FILES = [
    (b"\xff\xfeg\x00", "sandpiper.yaml: cannot be read: it is not UTF-8, at byte 1"),
    ("gitlab:\n  url: caf\xe9".encode("latin-1"),
     "sandpiper.yaml: cannot be read: it is not UTF-8, at byte 19"),
    (b"a: \x00", "sandpiper.yaml:1: a character that no YAML may have (U+0000) (column 4)"),
    (b"a: \x1b[31mred", "sandpiper.yaml:1: a character that no YAML may have (U+001B) (column 4)"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "line"), NO_FILES)
def test_a_file_that_is_no_text_says_so(data: bytes, line: str, tmp_path: Path) -> None:
    file = tmp_path / "sandpiper.yaml"
    file.write_bytes(data)
    assert read_refusal(file) == [line]


def test_a_file_that_is_not_there_or_a_folder_says_who_named_it(tmp_path: Path) -> None:
    assert read_refusal(tmp_path / "no.yaml") == ["no.yaml: no such file (named by --config)"]
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ConfigError) as refused:
        load(None, {"SANDPIPER_CONFIG": str(folder)})
    said = f"{folder}: expected a file, found a folder (named by $SANDPIPER_CONFIG)"
    assert str(refused.value) == said


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeffgitlab: {}\n", "{}"])
def test_a_file_that_says_nothing_leaves_every_default(text: str, tmp_path: Path) -> None:
    assert load(str(write_row(tmp_path, text)), {}) == Settings()


def test_an_anchor_may_stand_for_what_is_above(tmp_path: Path) -> None:
    text = (
        "models:\n  providers:\n    one: &one {api: gemini, base_url: 'https://x'}\n"
        "    two: {<<: *one, api: openai-chat}\n"
    )
    providers = load(str(write_row(tmp_path, text)), {}).models.providers
    assert (providers["two"].api, providers["two"].base_url) == ("openai-chat", "https://x")


def test_aliases_of_aliases_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for each in range(1, 12):
        lines.append(f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]")
    (told,) = read_refusal(write_row(tmp_path, "\n".join(lines)))
    assert "more than 20000 values" in told


def test_the_command_prints_a_line_for_each_problem_and_ends_with_2(tmp_path: Path) -> None:
    file = write_row(tmp_path, "gitlab: {urll: x}\nlimits: {cost_usd: 0}\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("sandpiper"), "--config", str(file), "sessions", "list"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"sandpiper: {file}:1: gitlab.urll: unknown key: did you mean gitlab.url?",
        f"sandpiper: {file}:2: limits.cost_usd: expected a number of dollars above 0; found 0",
    ]


def test_the_schema_of_the_model_is_that_which_is_printed() -> None:
    assert make_schema(Settings).items() <= schema().items()
