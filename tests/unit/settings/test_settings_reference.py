"""What is told of the settings is what is read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.law.house import agree
from worker.cli import cli
from worker.settings import Settings, load, reference
from worker.settings.base import Part
from worker.settings.environment import DEFAULTS, OVERRIDES, SECRETS, Place

ROWS = tuple(reference.list_rows())
PAGE = "worker/settings/README.md"


def test_the_reference_is_up_to_date() -> None:
    current = Path(PAGE).read_text("utf-8") == reference.format_reference()
    assert current, "run python -m worker.settings.reference"


def test_every_field_says_what_it_does() -> None:
    assert [row.key for row in ROWS if not row.text.endswith(".")] == []
    assert all(text[0].isupper() for _, text in reference.describe_secrets())


def test_the_printed_file_is_one_that_sandpiper_takes_and_changes_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["settings"])
    file = tmp_path / "sandpiper.yaml"
    file.write_text(done.output, encoding="utf-8")
    assert load(str(file), {}) == Settings()


def test_every_field_is_in_the_printed_file() -> None:
    tree = yaml.safe_load(reference.format_example())
    missing = [row.key for row in ROWS if not _inside_entry(row.place) and not _in(tree, row.place)]
    assert missing == []
    for name in ("models.providers.NAME.base_url", "models.catalogue.NAME.tiers[].above"):
        assert name in reference.list_keys()
        assert f"# {name.rpartition('.')[2]}:" in " ".join(reference.format_example().split())


def test_a_printed_entry_is_one_that_sandpiper_takes(tmp_path: Path) -> None:
    entry = reference.format_example().split("  providers: {}\n")[1].split("  # What is")[0]
    lines = [line.removeprefix("# ") for line in entry.splitlines()]
    file = tmp_path / "sandpiper.yaml"
    file.write_text("models:\n  providers:\n" + "\n".join(lines), encoding="utf-8")
    assert set(load(str(file), {}).models.providers) == {"NAME"}


def test_the_reference_is_printed_too() -> None:
    done = CliRunner().invoke(cli, ["settings", "--markdown"])
    assert done.output == reference.format_reference()


def test_every_secret_has_a_variable_and_is_redacted() -> None:
    variables = {names[0] for names in SECRETS.values()}
    loaded = load(None, {name: f"the-secret-of-{name}" for name in variables})
    assert set(loaded.list_secrets()) == {f"the-secret-of-{name}" for name in variables}
    fixed = {place for place in SECRETS if place[0] != "models"}
    places = {".".join(place) for place in _secret_places(Settings)}
    where = "SECRETS in worker/settings/environment.py, with its variable"
    assert agree(places, {".".join(place) for place in fixed}, where)


@pytest.mark.parametrize("place", {*OVERRIDES.values(), *DEFAULTS})
def test_every_variable_is_of_a_field(place: Place) -> None:
    place = (*place[:2], "NAME", *place[3:]) if place[:2] == ("models", "providers") else place
    assert ".".join(place) in reference.list_keys() or place == ("s3_endpoint",)


def _in(tree: object, place: Place) -> bool:
    for name in place:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


def _inside_entry(place: Place) -> bool:
    return "NAME" in place


def _secret_places(model: type[Part], above: Place = ()) -> Iterator[Place]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Part):
            yield from _secret_places(kind, (*above, name))
        elif field.exclude and not field.repr:
            yield (*above, name)


def test_every_key_says_its_values() -> None:
    rows = {row.key: row.values for row in reference.list_rows()}
    assert rows["loop.plan"] == "`off`, `facts`, `model`"
    assert "None" not in rows.values()
