import importlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.law.house import ROOT
from worker.conversation.context import Subject
from worker.errors import ArgumentError, ConfigError, SourceError
from worker.gitlab.read.base import NoArguments, RawDocument, SourceDef
from worker.gitlab.read.session_reader import Reader
from worker.sources.table import GROUP, bind_sources, join_rows, load_plugins, write_notes

GOOD = """
from pydantic import Field
from worker.tools.arguments import Arguments
from worker.tools.source import Document
from worker.errors import SourceError
from worker.gitlab.read.base import RawDocument, SourceDef

class Day(Arguments):
    day: int = Field(ge=0, description="How many days ahead.")

def fetch(args, reader):
    if args.day == 1:
        raise SourceError("no forecast: the key has expired")
    if args.day == 2:
        return {}["nothing"]
    if args.day == 3:
        return "sunny"
    if args.day == 4:
        return RawDocument({"wind": object()})
    if args.day == 5:
        return Document(b"sunny")
    return RawDocument(f"{reader.subject.project}: rain")

FORECAST = SourceDef("weather_get_forecast", "The forecast.", Day, fetch, "the weather")
ROWS = [FORECAST]
NOT_ROWS = [FORECAST, "weather"]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An importable module with a good plug-in, and a broken one beside it."""
    name = f"plugin_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(GOOD)
    (tmp_path / f"{name}_broken.py").write_text("import no_such_module_at_all")
    (tmp_path / f"{name}_wrong.py").write_text("def half(:")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def load(value: str, name: str = "weather") -> tuple[SourceDef[Any], ...]:
    return load_plugins([EntryPoint(name, value, GROUP)])


@pytest.mark.parametrize("attribute", ["ROWS", "FORECAST"])
def test_a_plug_ins_rows_stand_after_the_houses(
    package: str, reader: Reader, attribute: str
) -> None:
    rows = join_rows(load(f"{package}:{attribute}"))
    assert list(bind_sources(reader, rows))[-1] == "weather_get_forecast"
    assert write_notes(["weather_get_forecast"], rows).endswith(
        "`weather_get_forecast`: the weather.\n"
    )
    source = bind_sources(reader, rows)["weather_get_forecast"]
    assert source.fetch('{"day": 0}').data == b"team/service: rain"
    with pytest.raises(ArgumentError, match="day"):
        source.fetch('{"day": -1}')


def test_a_plug_in_that_was_written_for_an_earlier_version_still_loads(
    package: str, reader: Reader, tmp_path: Path
) -> None:
    old = GOOD.replace("worker.tools.arguments", "worker.arguments")
    old = old.replace("worker.tools.source", "worker.core.ports")
    old = old.replace("worker.gitlab.read.base", "worker.sources.base")
    old += "from worker.sources.session_reader import Reader\n"
    old += "from worker.core.ports.tools import Document\nimport worker.sources.base\n"
    old += "worker.sources.base.CAP\n"
    (tmp_path / f"{package}_old.py").write_text(old)
    source = bind_sources(reader, load(f"{package}_old:ROWS"))["weather_get_forecast"]
    assert source.fetch('{"day": 0}').data == b"team/service: rain"
    late = importlib.import_module("worker.core.conversation.context")  # as a function may do
    assert late.Subject is Subject


def test_without_plug_ins_nothing_has_a_former_name() -> None:
    code = "from worker.sources.table import *; load_plugins([]); import sys; "
    code += "assert not FORMER.keys() & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("day", "said"),
    [
        (1, "no forecast: the key has expired"),
        (2, "weather_get_forecast failed: KeyError: 'nothing'"),
        (3, "weather_get_forecast failed: it gave str, not a RawDocument"),
        (4, "what was read is no JSON: Object of type object"),
        (5, "weather_get_forecast failed: TypeError: a Document is made of Redacted"),
    ],
)
def test_whatever_a_plug_in_raises_is_a_value_for_the_model(
    package: str, reader: Reader, day: int, said: str
) -> None:
    source = bind_sources(reader, load(f"{package}:ROWS"))["weather_get_forecast"]
    with pytest.raises(SourceError, match=said):
        source.fetch(f'{{"day": {day}}}')


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{}:NOT_ROWS", "'weather' is not a SourceDef"),
        ("{}:MISSING", "cannot be loaded: AttributeError"),
        ("{}_broken:ROWS", "cannot be loaded: ModuleNotFoundError: .*no_such_module_at_all"),
        ("{}_wrong:ROWS", "cannot be loaded: SyntaxError"),
        ("{}_absent:ROWS", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_broken_plug_in_is_named_at_the_start(package: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"the plug-in 'weather' .*{package}.*{said}"):
        load(value.format(package))


class Given(EntryPoint):
    """An entry point that is loaded already."""

    def load(self) -> Any:
        return ROWS[self.value]


ROWS: dict[str, Any] = {}


def given(name: str, row: Any) -> EntryPoint:
    ROWS[f"{name}:row"] = row
    return Given(name, f"{name}:row", GROUP)


def made(**changes: Any) -> Any:
    row = SourceDef("weather_get", "The weather.", NoArguments, lambda a, r: RawDocument(""), "it")
    return replace(row, **changes)


WRONG = [
    ({"name": "Weather"}, "is not a name like"),
    ({"name": "weather"}, "is not a name like"),
    ({"name": "weather_" + "x" * 64}, "is not a name like"),
    ({"name": "gitlab_get_weather"}, "begins with a word that is taken"),
    ({"args": dict}, "not a subclass of worker.tools.arguments.Arguments"),
    ({"fetch": "no"}, "are not both functions"),
    ({"note": ""}, "no description or no note"),
    ({"timeout": 0}, "no time-out or no cap"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_a_row_that_breaks_the_contract_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_plugins([given("weather", made(**changes))])


def test_plug_ins_come_in_the_order_of_their_names() -> None:
    points = [given(name, made(name=f"{name}_get")) for name in ("b", "a")]
    assert [row.name for row in load_plugins(points)] == ["a_get", "b_get"]


def test_an_installed_package_is_found(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "weather-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\nweather = {package}:ROWS\n")
    assert [row.name for row in load_plugins()] == ["weather_get_forecast"]


def test_there_are_none_unless_they_are_installed() -> None:
    assert load_plugins() == ()


@contextmanager
def serving_incidents(asked: list[str]) -> Iterator[str]:
    """A system that answers one request with two incidents and refuses the next one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps(["the cache is full", "the disk is"]).encode()
            self.send_response(200 if len(asked) == 1 else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/incidents"
        finally:
            server.shutdown()
            thread.join()


def test_the_source_that_contributing_shows_is_one(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(import os\n(?:(?!```).*\n)*)```", text, re.MULTILINE)
    name = f"incidents_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    source = bind_sources(reader, join_rows(load(f"{name}:ROWS")))["incidents_list_recent"]
    asked: list[str] = []
    with serving_incidents(asked) as url:
        monkeypatch.setenv("OUR_INCIDENTS_URL", url)
        found = json.loads(source.fetch('{"days": 3}').data)
        with pytest.raises(SourceError, match=r"^the incidents answer with 503: go on without"):
            source.fetch("{}")
    assert found == {"incidents": ["the cache is full", "the disk is"]}
    assert asked[0] == "/incidents?service=team%2Fservice&days=3"
