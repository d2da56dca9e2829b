"""Stdouts that are not a wide terminal in UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contexts import SUBJECT
from tests.unit.cli.test_sessions import found, keep
from worker.cli.layout import print_table
from worker.sessions.folder import FolderStore

MAIN = (sys.executable, "-c", "from worker.cli import main; main()")
TITLE = "Größe der Fenster → 窓"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for number in range(1, 4):
        keep(FolderStore(folder), found(number, TITLE))
    return folder


def make_env(store: Path, **env: str) -> dict[str, str]:
    where = {"SANDPIPER_STORE": f"file://{store}", "GITLAB_URL": SUBJECT.gitlab_url}
    return {"PATH": os.environ["PATH"], **where, **env}


ENCODINGS = [
    ({"PYTHONIOENCODING": "ascii"}, "ascii", "Gr??e der Fenster > ?"),
    ({"PYTHONIOENCODING": "latin-1"}, "latin-1", "Größe der Fenster > ?"),
    ({"PYTHONIOENCODING": "cp1252"}, "cp1252", "Größe der Fenster > ?"),
    ({"LANG": "C"}, "utf-8", TITLE),
    (
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "ascii",
        "Gr??e der Fenster > ?",
    ),
    ({"PYTHONIOENCODING": "utf-8"}, "utf-8", TITLE),
]


@pytest.mark.parametrize(("env", "encoding", "shown"), ENCODINGS)
@pytest.mark.parametrize("words", [("list",), ("show", f"{1:020x}")], ids=["list", "show"])
def test_what_an_encoding_lacks_is_replaced(
    store: Path, words: tuple[str, ...], env: dict[str, str], encoding: str, shown: str
) -> None:
    done = subprocess.run(
        [*MAIN, "sessions", *words], env=make_env(store, **env), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"aviary/tern!42 {shown}\n" in done.stdout.decode(encoding)


def test_json_is_whole_in_any_encoding(store: Path) -> None:
    env = make_env(store, PYTHONIOENCODING="ascii")
    words = [*MAIN, "sessions", "list", "--json"]
    done = subprocess.run(words, env=env, capture_output=True, check=False)
    assert b'"Gr\\u00f6\\u00dfe der Fenster \\u2192 \\u7a93"' in done.stdout


@pytest.mark.parametrize(
    "words", ["sessions list", f"sessions show {1:020x}", "settings", "--help"]
)
def test_a_reader_that_goes_away_ends_it_quietly(store: Path, words: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "wb") as stdout:
        done = subprocess.run(
            [*MAIN, *words.split()],
            env=make_env(store),
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b""


ROWS = [("model", "levels", "price"), ("a/model", "low medium high", "1"), ("b", "", "22")]


def test_a_table_for_no_terminal_has_a_line_for_each_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table([*ROWS, ("x" * 300, "two\nlines", "3")], fold=0)
    head, first, *_, last = capsys.readouterr().out.splitlines()
    assert head.index("levels") == first.index("low") == last.index("two lines") == 302
    assert last.split() == ["x" * 300, "two", "lines", "3"]
